"""A source in any order is the truth that it is in order; what sorting leaves on disk.

`RECONCILE_TEST_LONG=1` searches through more examples.
"""

from __future__ import annotations

import csv
import errno
import gzip
import heapq
import io
import json
import os
import resource
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile.core.config import SourceConfig
from reconcile.core.endpoints import Unordered
from reconcile.core.errors import AccessDenied, SourceUnreachable, SourceUnusable
from reconcile.core.keys import KeyPolicy
from reconcile.core.model import Interval, Json
from reconcile.core.rows import Column, ColumnKind, Row, Schema
from reconcile.core.sources import blocks, open_source, sorting, spool, spooling
from reconcile.core.sources.spool import Spools

NIGHT = Interval("job", datetime(2026, 11, 30, 2, 30, tzinfo=UTC), "2026-11-30")
TEXT, INTEGER = ColumnKind.TEXT, ColumnKind.INTEGER
NAMES = ("id", "name", "seats")


def schema(account: ColumnKind = TEXT, policy: KeyPolicy = KeyPolicy.EXACT) -> Schema:
    columns = (Column("id", account), Column("name", TEXT), Column("seats", INTEGER))
    return Schema(columns, (0, 1), policy)


UNSORTED = [("b", "x", "1"), ("c", "x", "2"), ("a", "x", "3"), ("b", "y", "4"), ("a", "y", "ten")]
SORTED = [("b", "x", "1"), ("b", "y", "4"), ("c", "x", "2")]


def written(rows: list[tuple[str, str, str]], kind: str, packed: bool) -> bytes:
    text = io.StringIO(newline="")
    if kind == "csv":
        writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([NAMES, *rows])
    else:
        for row in rows:
            text.write(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n")
    data = text.getvalue().encode()
    return gzip.compress(data) if packed else data


class Place:
    """A folder with a source and its spools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spools = folder / "store.db-spool"

    def open(
        self, content: bytes | None, of: Schema | None = None, job: str = "job", **options: Any
    ) -> Any:
        path = self.folder / "export"
        if content is not None:
            path.write_bytes(content)
        kind = options.pop("kind", "csv")
        config = SourceConfig(kind, str(path), **options)
        return open_source(config, Spools(self.spools, job)).open(NIGHT, of or schema())

    def files(self) -> list[str]:
        return sorted(path.name for path in self.spools.iterdir()) if self.spools.exists() else []

    def spool(self) -> Path:
        (path,) = self.spools.glob("*.spool")
        return path

    def spooled(self) -> str:
        """A complete spool as a run leaves it that was killed."""
        with closing(self.open(written(UNSORTED, "csv", False))) as found:
            assert rows_of(found) == SORTED
            return str(found.fingerprint)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def read(found: Any, after: str | None = None, resume: Json = None) -> tuple[list[Row], set[str]]:
    """All rows and bad accounts, as planning reads them: once more where not in order."""
    for _ in range(2):
        with suppress(Unordered):
            rows, bad = [], set()
            for page in found.pages(after, resume):
                rows += page.rows
                bad |= page.bad.keys()
            return [row for row in rows if row[0] not in bad], bad
    raise AssertionError("it was not in order twice")


def rows_of(found: Any) -> list[Row]:
    return read(found)[0]


# --- the same truth

LETTERS = st.text(st.sampled_from('aAbB\u00e9e\u0301\n\x01 ~\uffff\U00010000,"'), max_size=3)
ACCOUNTS = {TEXT: LETTERS.filter(str.strip), INTEGER: st.integers(-20, 200).map(str)}
SEATS = st.sampled_from(["1", "02", "", "ten"])


@st.composite
def exports(draw: st.DrawFn) -> tuple[Schema, list[tuple[str, str, str]]]:
    kind = draw(st.sampled_from([TEXT, INTEGER]))
    policy = draw(st.sampled_from(list(KeyPolicy))) if kind is TEXT else KeyPolicy.EXACT
    rows = draw(st.lists(st.tuples(ACCOUNTS[kind], LETTERS, SEATS), min_size=1, max_size=40))
    return schema(kind, policy), rows


@settings(max_examples=2500 if os.environ.get("RECONCILE_TEST_LONG") else 100)
@given(
    export=exports(),
    kind=st.sampled_from(["csv", "jsonl"]),
    packed=st.booleans(),
    sizes=st.tuples(*[st.integers(1, 100)] * 4),
    fan_in=st.integers(2, 4),
)
def test_in_any_order_it_is_what_it_is_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    export: tuple[Schema, list[tuple[str, str, str]]],
    kind: str,
    packed: bool,
    sizes: tuple[int, ...],
    fan_in: int,
) -> None:
    from reconcile.core.keys import normaliser

    of, rows = export
    normalise = normaliser(of.policy) or (lambda account: account)
    place = Place(tmp_path_factory.mktemp("spool"))
    with pytest.MonkeyPatch.context() as patch:
        for module, name, size in zip(
            (blocks, sorting, sorting, spooling),
            ("BLOCK", "BATCH", "PIECE", "PAGE"),
            sizes,
            strict=True,
        ):
            patch.setattr(module, name, size)
        patch.setattr(sorting, "FAN_IN", fan_in)
        with closing(place.open(written(rows, kind, packed), of, kind=kind)) as unsorted:
            as_it_is = read(unsorted)
            twice = read(unsorted)
        rows.sort(key=lambda row: of.sort_value(normalise(row[0])))
        with closing(place.open(written(rows, kind, packed), of, kind=kind)) as in_order:
            pages = list(in_order.pages())
    bad = {account for page in pages for account in page.bad}
    assert as_it_is == twice
    assert as_it_is == ([r for page in pages for r in page.rows if r[0] not in bad], bad)


def test_an_account_never_spans_two_pages(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spooling, "PAGE", 1)
    rows = [(account, f"{n}", "1") for n in range(9) for account in ("b", "c", "a")]
    with closing(place.open(written(rows, "csv", False))) as found:
        rows_of(found)
        pages = [page for page in found.pages() if page.rows]
    assert [{row[0] for row in page.rows} for page in pages] == [{"a"}, {"b"}, {"c"}]


def test_only_so_many_runs_are_open_at_a_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[int] = []

    def counting(*runs: Any, key: Any) -> Any:
        merged.append(len(runs))
        return heapq.merge(*runs, key=key)

    monkeypatch.setattr(sorting, "merge", counting)
    monkeypatch.setattr(blocks, "BLOCK", 16)
    monkeypatch.setattr(sorting, "BATCH", 1)
    monkeypatch.setattr(sorting, "FAN_IN", 3)
    rows = [(f"{n:02}", "x", "1") for n in range(40)]
    with closing(place.open(written(rows[::-1], "csv", False))) as found:
        assert rows_of(found) == rows
    assert max(merged) == 3
    assert sum(merged) > 40, "each row was in more than one of them"


def test_two_spellings_of_one_account_are_both_named(place: Place) -> None:
    rows = [("b", "x", "1"), ("Ann", "x", "1"), ("c", "x", "1"), ("ann", "y", "2")]
    for content in (rows, sorted(rows, key=lambda row: row[0].casefold())):
        found = place.open(written(content, "csv", False), schema(policy=KeyPolicy.CASEFOLD))
        with closing(found):
            with suppress(Unordered):
                list(found.pages())
            bad = {a: why for page in found.pages() for a, why in page.bad.items()}
        assert bad == {"ann": "the source spells it 'Ann' and 'ann'"}


@pytest.mark.parametrize("size", [1, 30])
def test_pages_above_an_account_are_found_without_reading_those_below(
    place: Place, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(spooling, "PAGE", size)
    rows = [(f"{n}", "x", "1") for n in range(200)][::-1]
    with closing(place.open(written(rows, "csv", False), schema(INTEGER))) as found:
        rows_of(found)
        for after in (None, "-1", "0", "55", "56", "57", "58", "199", "500"):
            got = [int(row[0]) for page in found.pages(after) for row in page.rows]
            wanted = [n for n in range(200) if after is None or n > int(after)]
            assert got[len(got) - len(wanted) :] == wanted
            assert len(got) <= len(wanted) + size


def test_what_a_plan_kept_of_a_spool_makes_it_again_from_the_beginning(place: Place) -> None:
    """The first range, compared again after the spool is gone, must not be read from the
    beginning of the file: that is not in order, and has too few rows of it."""
    fingerprint = place.spooled()
    mark = {"file": fingerprint, "spool": True}
    Spools(place.spools, "job").sweep()
    with closing(place.open(None)) as found:
        pages = list(found.pages(None, mark))
    assert [row for page in pages for row in page.rows] == SORTED
    assert all(page.resume == mark for page in pages)
    assert not pages[0].rows, "an empty page says that reading goes on"


def test_what_a_plan_kept_of_the_file_is_no_use_once_it_is_known_to_be_unsorted(
    place: Place,
) -> None:
    fingerprint = place.spooled()
    with closing(place.open(None)) as found, pytest.raises(Unordered):
        found.pages("b", {"file": fingerprint, "offset": 20, "line": 2, "rows": 1})


# --- what is refused, also where the file is not in order


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (b"a,x,1\nz,y", "line 4: the last record is cut"),
        (b"a,x,1\nz,y\n", "line 4: 2 fields where the header has 3"),
        (b"a,x,1\n,y,1\n", "line 4: id is empty"),
    ],
)
def test_a_broken_file_is_refused_and_leaves_nothing(place: Place, end: bytes, why: str) -> None:
    content = b"id,name,seats\nb,x,1\n" + end
    with closing(place.open(content)) as found, pytest.raises(SourceUnusable, match=why):
        read(found)
    assert place.files() == []


def test_a_file_written_to_while_it_is_sorted_is_refused(place: Place) -> None:
    with closing(place.open(written(UNSORTED, "csv", False))) as found:
        with pytest.raises(Unordered):
            list(found.pages())
        pages = found.pages()
        next(pages)
        with (place.folder / "export").open("ab") as file:
            file.write(b"d,x,1\n")
        with pytest.raises(SourceUnusable, match="was written to"):
            list(pages)


# --- files without a header


def test_fields_name_the_columns_of_a_file_without_a_header(place: Place) -> None:
    fields = ("seats", "id", "other", "name")
    with closing(place.open(b"1,b,,x\n2,a,,y\n", fields=fields)) as found:
        assert rows_of(found) == [("a", "y", "2"), ("b", "x", "1")]
    with closing(place.open(b"1,a,,x\n2,b,,y\n", fields=fields)) as found:
        assert rows_of(found) == [("a", "x", "1"), ("b", "y", "2")]
    with closing(place.open(b"1,a,,x\n2,b\n", fields=fields)) as found:
        why = "line 2: 2 fields where the source's fields are 4"
        with pytest.raises(SourceUnusable, match=why):
            list(found.pages())


def test_fields_that_lack_a_column_are_refused(place: Place) -> None:
    with pytest.raises(SourceUnusable, match="the source's fields have no seats; they are id, nam"):
        place.open(b"a,x\n", fields=("id", "name"))


def test_an_empty_file_without_a_header_is_refused_unless_its_manifest_says_so(
    place: Place,
) -> None:
    why = "is empty, which is what an export that failed"
    with closing(place.open(b"", fields=NAMES)) as found, pytest.raises(SourceUnusable, match=why):
        list(found.pages())
    manifest = place.folder / "m.json"
    manifest.write_text('{"rows": 0}')
    with closing(place.open(b"", fields=NAMES, manifest=str(manifest))) as found:
        assert rows_of(found) == []


# --- what is on disk


def test_a_file_in_order_needs_no_spool(place: Place) -> None:
    with closing(place.open(written(SORTED, "csv", False))) as found:
        assert rows_of(found) == SORTED
        assert not place.spools.exists()


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_it_is_for_its_owner_only_and_begins_with_the_name_of_the_job(
    place: Place, mask: int
) -> None:
    before = os.umask(mask)
    try:
        place.spooled()
    finally:
        os.umask(before)
    (name,) = place.files()
    assert name.startswith("job.")
    assert place.spool().stat().st_mode & 0o777 == 0o600
    assert place.spools.stat().st_mode & 0o777 == 0o700


def test_it_is_found_again_by_fingerprint_and_not_made_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.spooled()
    monkeypatch.setattr(Spools, "draft", None)
    with closing(place.open(None)) as found:
        assert rows_of(found) == SORTED


def test_one_whose_source_changed_is_ignored_and_removed(place: Place) -> None:
    place.spooled()
    old = place.files()
    with closing(place.open(written([*UNSORTED, ("A", "z", "1")], "csv", False))) as found:
        assert rows_of(found) == [("A", "z", "1"), *SORTED]
    (new,) = place.files()
    assert [new] != old
    with closing(place.open(written(SORTED, "csv", False))) as found:
        rows_of(found)
    assert not place.spools.exists()


def test_the_files_of_another_job_are_left_alone(place: Place) -> None:
    place.spooled()
    mine = place.files()
    with closing(place.open(written(SORTED, "csv", False), job="jo")) as found:
        rows_of(found)
    Spools(place.spools, "jo").sweep()
    assert place.files() == mine


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "another", "text"])
def test_a_damaged_one_is_made_anew_and_never_believed(place: Place, damage: str) -> None:
    place.spooled()
    path = place.spool()
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[data.index(b'"4"') + 1] = ord("5")
    elif damage == "another":
        with closing(place.open(written([("z", "x", "1"), *UNSORTED], "csv", False))) as found:
            rows_of(found)
        data = bytearray(place.spool().read_bytes())
        place.spool().unlink()
    else:
        data = bytearray({"empty": b"", "cut": data[:-1], "text": b"x" * 500}[damage])
    path.write_bytes(data)
    with closing(place.open(written(UNSORTED, "csv", False))) as found:
        assert rows_of(found) == SORTED
    with closing(place.open(None)) as found:
        assert rows_of(found) == SORTED
    assert path.read_bytes() != data


def test_two_processes_of_one_job_do_not_disturb_each_other(place: Place) -> None:
    """One is stalled while it sorts; its successor sweeps, sorts and ends; then it goes on."""
    content = written(UNSORTED, "csv", False)
    with closing(place.open(content)) as stalled, closing(place.open(None)) as successor:
        for found in (stalled, successor):
            with pytest.raises(Unordered):
                list(found.pages())
        half = stalled.pages()
        next(half), next(half)
        assert len(place.files()) == 1
        # The sweep of a new process, which has not read anything yet.
        with closing(place.open(None)) as new:
            assert rows_of(new) == SORTED
            Spools(place.spools, "job").sweep()
            rest = [row for page in half for row in page.rows]
            assert rest == SORTED
            assert rows_of(new) == rows_of(successor) == rows_of(stalled) == SORTED


def test_closing_half_way_leaves_nothing(place: Place) -> None:
    found = place.open(written(UNSORTED, "csv", False))
    with pytest.raises(Unordered):
        list(found.pages())
    pages = found.pages()
    next(pages), next(pages)
    assert len(place.files()) == 1
    found.close()
    assert place.files() == []


@pytest.mark.parametrize("what", ["write", "fsync", "mkdir"])
def test_a_full_disk_is_one_error_that_names_the_folder(
    place: Place, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    owner = {"write": spool.Draft, "fsync": os, "mkdir": Path}[what]
    with closing(place.open(written(UNSORTED, "csv", False))) as found:
        with pytest.raises(Unordered):
            list(found.pages())
        monkeypatch.setattr(owner, {"write": "_write"}.get(what, what), full)
        with pytest.raises(SourceUnreachable) as error:
            list(found.pages())
    assert f"cannot be sorted in {place.spools}: No space left on device" in str(error.value)
    assert f"df -h {place.folder}" in error.value.hint
    assert place.files() == []


def test_a_file_that_may_not_grow_is_one_error_and_leaves_nothing(place: Place) -> None:
    """The kernel's own refusal, met wherever Python's buffers happen to be written."""
    rows = [(f"{n:05}", "x", "1") for n in range(3000)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(place.open(written(rows[::-1], "csv", False))) as found:
        with pytest.raises(Unordered):
            list(found.pages())
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
        try:
            with pytest.raises(SourceUnreachable, match=r"cannot be sorted in .*: File too large"):
                list(found.pages())
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert place.files() == []
        assert [row[0] for row in rows_of(found)] == [row[0] for row in rows]


def test_what_may_not_be_looked_at_is_not_there(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    place.spooled()
    monkeypatch.setattr(Path, "stat", denied)
    monkeypatch.setattr(os, "scandir", denied)
    with closing(place.open(written(SORTED, "csv", False))) as found:
        assert rows_of(found) == SORTED


def test_a_folder_that_may_not_be_written_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", denied)
    content, why = written(UNSORTED, "csv", False), "cannot be sorted in"
    with closing(place.open(content)) as found, pytest.raises(AccessDenied, match=why) as error:
        rows_of(found)
    assert "let this user write there" in error.value.hint
