"""Nights whose source is a database: from each kind to each kind of target, checked by sums that
the databases make themselves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.scene import NIGHTS
from support.sql_scene import SqlScene, grant, grants

LONG = os.environ.get("RECONCILE_TEST_LONG") == "1"
ACCOUNTS = 100_000 if LONG else 200


@pytest.mark.parametrize("target", ["sqlite", "postgres"])
@pytest.mark.parametrize("source", ["sqlite", "postgres", "mariadb"])
def test_all_types_and_awkward_keys_are_equal_after_a_night_and_stay_so(
    tmp_path: Path, source: str, target: str
) -> None:
    scene = SqlScene(tmp_path, source, target, 5000 if LONG else 50)
    scene.truth.fill(grants(ACCOUNTS))
    # Some of the target's rows are right, some are wrong and some are nobody's.
    scene.view.fill([*grants(60)[:50], *grants(70, seed=1)[60:], grant("gone", "plan-0", 1)])
    ran = scene.run("run", "entitlements")
    assert ran.code == 0, ran.err
    scene.assert_equal()
    ran = scene.run("rerun", "entitlements", NIGHTS[-1], "-m", "once more")
    assert (ran.code, "+0 -0 ~0" in ran.err) == (0, True), ran.err
    scene.drop()
