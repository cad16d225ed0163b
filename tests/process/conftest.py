"""A night that is already done, ready to be copied for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.scene import NIGHTS, STARTED, Scene, Table, drifted, night

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

EARLIER, FIRST, SECOND = NIGHTS


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    """A test that fails leaves no stopped process behind."""
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def first_night(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Night one completed, night two exported and not begun."""
    scene = Scene(tmp_path_factory.mktemp("nights") / "one", range_size=100, start=FIRST)
    truth = night(1)
    scene.write_night(FIRST, truth)
    scene.write_night(SECOND, drifted(truth, 2))
    done = scene.run("run", "entitlements", "--interval", FIRST)
    assert done.code == 0, done.err
    scene.check(FIRST, {})
    return scene


@pytest.fixture
def second_night(first_night: Scene, tmp_path: Path) -> Callable[[], tuple[Scene, Table]]:
    """Fresh copies of that folder, each with what the target holds before night two."""
    made = 0

    def copy() -> tuple[Scene, Table]:
        nonlocal made
        made += 1
        return first_night.copy(tmp_path / str(made)), first_night.nights[FIRST]

    return copy
