"""Nights from a CSV file into PostgreSQL, by real processes that are killed and taken over."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.postgres_scene import PostgresScene
from support.scene import NIGHTS, drifted, night

EARLIER, FIRST, SECOND = NIGHTS
RUN = ("run", "entitlements")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[PostgresScene]:
    """Twenty ranges; the table is the truth of an earlier day."""
    made = PostgresScene(tmp_path / "scene", range_size=10, start=SECOND)
    before = night(7, 200)
    made.fill(before)
    made.write_night(EARLIER, before)
    made.write_night(SECOND, drifted(before, 8))
    yield made
    made.drop()


@pytest.mark.parametrize(
    "at",
    [
        "fence_raised:1",
        "range_planned:3",
        "range_committed:1",
        "range_committed:17",
        "checkpoint_saved:30",
        "target_completed:1",
    ],
)
def test_a_night_that_was_killed_goes_on_where_it_was(scene: PostgresScene, at: str) -> None:
    killed = scene.run(*RUN, step=f"{at}:SIGKILL")
    assert killed.code == -signal.SIGKILL, killed.err
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[EARLIER])
    runs = scene.answer("SELECT DISTINCT generation, run_id FROM reconcile_ranges ORDER BY 1")
    assert len(runs) == (2 if at.startswith(("range_committed", "checkpoint")) else 1)
    assert len({generation for generation, _ in runs}) == len(runs)
