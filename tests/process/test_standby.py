"""A target that is named by a replica of itself, which lags: what is seen there is not acted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.postgres_scene import PostgresScene
from support.postgres_server import own_server
from support.scene import NIGHTS, drifted, night

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = NIGHTS[1:]
RUN = ("run", "entitlements")


def test_a_target_read_from_a_replica_is_refused_before_anything_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = own_server("fsync=off")
    monkeypatch.setattr("support.postgres_scene.shared_server", lambda: server)
    scene = PostgresScene(tmp_path / "scene", FIRST, range_size=50)
    truth = night(41, 200)
    scene.write_night(FIRST, truth)
    assert scene.run(*RUN, "--interval", FIRST).code == 0
    scene.write_night(SECOND, drifted(truth, 42))
    server.stop()
    # One that waits for a primary which is not there stays as far behind as it is.
    (server.data / "standby.signal").touch()
    server.start()
    before = scene.grant()
    ran = scene.run(*RUN)
    assert ran.code == 69, ran.err
    assert "it is a replica" in ran.err, ran.err
    assert "name the primary in target.url" in ran.err
    assert "Traceback" not in ran.err
    assert scene.rows() == truth
    dry = scene.run(*RUN, "--dry-run")
    assert dry.code == 69, "no plan is made of it either"
    assert "it is a replica" in dry.err
    server.do("SELECT pg_promote()")
    ran = scene.run(*RUN, "--interval", SECOND)
    assert ran.code == 0, ran.err
    assert scene.grant() > before
    scene.check(SECOND, truth)
    server.stop()
