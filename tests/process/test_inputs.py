"""Nights in other forms than a CSV file in order, and manifests, through the command line."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from typing import TYPE_CHECKING

import pytest
from support.scene import NIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.scene import Scene, Table

SECOND = NIGHTS[2]
RUN = ("run", "entitlements", "--interval", SECOND)
SOURCE = 'source = "exports/{date}.csv"\n'


@pytest.fixture
def scene(second_night: Callable[[], tuple[Scene, Table]]) -> Scene:
    return second_night()[0]


def configure(scene: Scene, source: str) -> None:
    """Another source for the job."""
    config = scene.folder / "reconcile.toml"
    text = config.read_text()
    assert SOURCE in text
    config.write_text(text.replace(SOURCE, f"source = {source}\n"))


def shuffled(scene: Scene) -> list[dict[str, str]]:
    """The rows of night two in any order."""
    rows = [
        {"account_id": account, "entitlement": name, "level": level}
        for (account, name), level in scene.nights[SECOND].items()
    ]
    random.Random(5).shuffle(rows)
    return rows


def test_json_lines_in_any_order_are_the_same_night(scene: Scene) -> None:
    before = scene.rows()
    configure(scene, '"exports/{date}.ndjson.gz"')
    text = "".join(json.dumps(row) + "\n" for row in shuffled(scene))
    path = scene.folder / "exports" / f"{SECOND}.ndjson.gz"
    path.write_bytes(gzip.compress(text.encode()))
    done = scene.run(*RUN)
    assert done.code == 0, done.err
    scene.check(SECOND, before)


def test_a_file_without_a_header_is_the_same_night(scene: Scene) -> None:
    before = scene.rows()
    fields = '["level", "account_id", "entitlement"]'
    configure(scene, f'{{ path = "exports/{{date}}.txt", type = "csv", fields = {fields} }}')
    lines = [
        f"{row['level']},{row['account_id']},{row['entitlement']}\n" for row in shuffled(scene)
    ]
    (scene.folder / "exports" / f"{SECOND}.txt").write_text("".join(lines))
    done = scene.run(*RUN)
    assert done.code == 0, done.err
    scene.check(SECOND, before)


def test_a_manifest_that_disagrees_is_65_and_can_not_be_approved(scene: Scene) -> None:
    before = scene.rows()
    configure(
        scene, '{ path = "exports/{date}.csv", manifest = "exports/{date:%Y-%m}/{date}.json" }'
    )
    missing = scene.run(*RUN)
    assert missing.code == 69
    assert f"{SECOND}.json does not exist" in missing.err
    manifest = scene.folder / "exports" / SECOND[:7] / f"{SECOND}.json"
    manifest.parent.mkdir()
    export = scene.folder / "exports" / f"{SECOND}.csv"
    rows = len(scene.nights[SECOND])
    for says, told in (
        ({"rows": rows + 1}, f"has {rows:,} rows, and its manifest"),
        ({"rows": rows, "sha256": "0" * 64}, "has SHA-256"),
        ({"row": rows}, "is no manifest: it has neither rows nor sha256"),
    ):
        manifest.write_text(json.dumps(says))
        refused = scene.run(*RUN)
        assert refused.code == 65, refused.err
        assert told in " ".join(refused.err.split())
        assert scene.rows() == before
    digest = hashlib.sha256(export.read_bytes()).hexdigest()
    manifest.write_text(json.dumps({"rows": rows, "sha256": digest}))
    done = scene.run(*RUN)
    assert done.code == 0, done.err
    scene.check(SECOND, before)
