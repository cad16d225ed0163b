"""What holds for every test."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# The machine is shared with other workers, so that no single example has a fair deadline;
# pytest's timeout bounds each test.
settings.register_profile(
    "reconcile",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("reconcile")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: some tests wait for leases, which keeps none busy."""
    return len(os.sched_getaffinity(0)) + 1


# A developer's own configuration must not change what tests see.
for name in [name for name in os.environ if name.startswith("RECONCILE_")]:
    if not name.startswith("RECONCILE_TEST_"):
        del os.environ[name]

# A shell that starts the suite in the background has Ctrl-C ignored, and so would every
# process that the tests start and mean to interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
