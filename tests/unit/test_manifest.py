"""A file is read only as its manifest says that it is."""

from __future__ import annotations

import gzip
import hashlib
import json
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reconcile.core.config import SourceConfig
from reconcile.core.endpoints import Unordered
from reconcile.core.errors import SourceUnreachable, SourceUnusable
from reconcile.core.model import Interval
from reconcile.core.rows import Column, ColumnKind, Schema
from reconcile.core.sources import blocks, open_source
from reconcile.core.sources.spool import Spools

NIGHT = Interval("job", datetime(2026, 11, 30, 2, 30, tzinfo=UTC), "2026-11-30")
SCHEMA = Schema((Column("id", ColumnKind.TEXT), Column("name", ColumnKind.TEXT)), (0, 1))
IN_ORDER = b"id,name\na,x\n\nb,y\nb,z\n"
UNSORTED = b"id,name\nb,x\n\na,y\nb,z\n"


class Exported:
    """A file and its manifest, both of one night."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = folder / "2026-11-30.json"

    def open(self, content: bytes, says: Any) -> Any:
        (self.folder / "2026-11-30.csv").write_bytes(content)
        if says is not None:
            text = says if isinstance(says, bytes) else json.dumps(says).encode()
            self.manifest.write_bytes(text)
        path = str(self.folder / "{date}.csv")
        config = SourceConfig("csv", path, manifest=str(self.folder / "{date}.json"))
        source = open_source(config, Spools(self.folder / "spools", "job"))
        return source.open(NIGHT, SCHEMA)

    def read(self, content: bytes, says: Any) -> int:
        with closing(self.open(content, says)) as reading:
            with suppress(Unordered):
                return sum(len(page.rows) for page in reading.pages())
            return sum(len(page.rows) for page in reading.pages())

    def refused(self, content: bytes, says: Any) -> str:
        with pytest.raises(SourceUnusable) as error:
            self.read(content, says)
        assert error.value.hint
        return str(error.value)


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    return Exported(tmp_path)


@pytest.mark.parametrize("content", [IN_ORDER, UNSORTED, gzip.compress(UNSORTED, mtime=0)])
def test_what_it_says_is_held_against_the_file(exported: Exported, content: bytes) -> None:
    digest = hashlib.sha256(content).hexdigest()
    for says in ({"rows": 3}, {"sha256": digest}, {"rows": 3, "sha256": digest.upper(), "at": 1}):
        assert exported.read(content, says) == 3


@pytest.mark.parametrize("content", [IN_ORDER, UNSORTED])
@pytest.mark.parametrize("rows", [0, 2, 4, 1_000_000])
def test_another_number_of_rows_is_refused_with_both(
    exported: Exported, content: bytes, rows: int
) -> None:
    told = exported.refused(content, {"rows": rows})
    assert "2026-11-30.csv has 3 rows, and its manifest " in told
    assert told.endswith(f"2026-11-30.json says {rows:,}")


def test_another_sha256_is_refused_with_both_before_anything_is_read(exported: Exported) -> None:
    ours, other = hashlib.sha256(IN_ORDER).hexdigest(), "0" * 64
    with pytest.raises(SourceUnusable) as error:
        exported.open(IN_ORDER, {"sha256": other})
    assert f"has SHA-256 {ours}" in str(error.value)
    assert str(error.value).endswith(f"says {other}")


def test_rows_are_counted_where_reading_goes_on(
    exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 20)
    content = b"id,name\n" + b"".join(b"a%03d,x\n" % n for n in range(50))
    with closing(exported.open(content, {"rows": 50})) as reading:
        for page in list(reading.pages()):
            list(reading.pages(None, page.resume))
    with closing(exported.open(content, {"rows": 49})) as reading:
        pages = reading.pages()
        resumes = [next(pages).resume for _ in range(9)]
        for resume in resumes:
            with pytest.raises(SourceUnusable, match="has 50 rows"):
                list(reading.pages(None, resume))


def test_one_that_is_not_there_is_a_source_that_is_not_there(exported: Exported) -> None:
    says = r"the manifest .*2026-11-30\.json does not exist"
    with pytest.raises(SourceUnreachable, match=says) as refused:
        exported.read(IN_ORDER, None)
    assert "the source's manifest" in refused.value.hint


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"", "it is not JSON"),
        (b"rows: 3", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[3]", "it is not a JSON object"),
        (b'{"row": 3}', "it has neither rows nor sha256"),
        (b'{"rows": null}', "it has neither rows nor sha256"),
        (b'{"rows": "3"}', 'rows is "3", no number of rows'),
        (b'{"rows": 3.0}', "rows is 3.0, no number of rows"),
        (b'{"rows": true}', "rows is true, no number of rows"),
        (b'{"rows": -1}', "rows is -1, no number of rows"),
        (b'{"rows": 3, "sha256": "abc"}', 'sha256 is "abc", not 64 hexadecimal digits'),
        (b'{"sha256": 3}', "sha256 is 3, not 64 hexadecimal digits"),
        (b'{"rows": 3}' + b" " * (1 << 20), "it is longer than 1,048,576 bytes"),
    ],
)
def test_what_is_no_manifest_is_refused(exported: Exported, says: bytes, why: str) -> None:
    assert f"2026-11-30.json is no manifest: {why}" in exported.refused(IN_ORDER, says)


def test_what_it_says_is_part_of_the_fingerprint(exported: Exported) -> None:
    prints = set()
    for says in ({"rows": 3}, {"rows": 4}, {"rows": 3, "sha256": None}, {"rows": 3, "more": 1}):
        with closing(exported.open(IN_ORDER, says)) as reading:
            prints.add(reading.fingerprint)
    assert len(prints) == 2
