"""Runs the command line and sends this process a signal at a named step.

    python stepper.py STEP:COUNT:SIGNAL ARGV…

The step is one of those in `reconcile/core/engine.py`; the signal comes when it is reached
for the COUNT-th time.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from reconcile.cli import main, wiring


def install(spec: str) -> None:
    """Wrap the step hook that the wiring hands to the core."""
    name, count, number = spec.split(":")
    left = [int(count)]
    build: Any = wiring.application

    def application(call: Any, report: Any, reached: Any) -> Any:
        def at(step: str) -> None:
            reached(step)
            if step == name:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), getattr(signal, number))

        return build(call, report, at)

    wiring.application = application


if __name__ == "__main__":
    install(sys.argv[1])
    sys.argv = ["reconcile", *sys.argv[2:]]
    main.entry()
