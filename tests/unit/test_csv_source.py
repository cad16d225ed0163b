"""CSV files: what is read is the truth that was exported, or nothing is."""

from __future__ import annotations

import csv
import gzip
import io
import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.config import SourceConfig
from reconcile.core.endpoints import Unordered
from reconcile.core.errors import (
    AccessDenied,
    ConfigError,
    ReconcileError,
    SourceUnreachable,
    SourceUnusable,
)
from reconcile.core.keys import KeyPolicy
from reconcile.core.model import Interval
from reconcile.core.rows import Column, ColumnKind, Page, Row, Schema
from reconcile.core.sources import blocks, open_source
from reconcile.core.sources.spool import Spools

NIGHT = Interval("job", datetime(2026, 11, 30, 2, 30, tzinfo=UTC), "2026-11-30")
TEXT, INTEGER = ColumnKind.TEXT, ColumnKind.INTEGER
SCHEMA = Schema(
    (Column("account_id", TEXT), Column("entitlement", TEXT), Column("level", TEXT)), (0, 1)
)
TYPED = Schema(
    (
        Column("account_id", INTEGER),
        Column("entitlement", TEXT),
        Column("seats", INTEGER),
        Column("active", ColumnKind.BOOLEAN),
    ),
    (0, 1),
)
SCHEMA_OF_ANY_CASE = Schema(SCHEMA.columns, SCHEMA.key, KeyPolicy.CASEFOLD)
HEADER = b"account_id,entitlement,level\n"
NAMES = tuple(HEADER.decode().strip().split(","))


def open_csv(path: str, kind: str = "csv", **options: Any) -> Any:
    spools = Spools(Path(path).parent / "spools", "job")
    return open_source(SourceConfig(kind, path, **options), spools)


class Files:
    """Writes files, and reads them as a source does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def source(self, content: bytes, name: str = "export.csv", **options: Any) -> Any:
        path = self.folder / name.replace("{date}", "2026-11-30")
        path.write_bytes(content)
        return open_csv(str(self.folder / name), **options)

    def pages(self, content: bytes, schema: Schema = SCHEMA, **options: Any) -> list[Page]:
        with closing(self.source(content, **options).open(NIGHT, schema)) as reading:
            return list(reading.pages())

    def rows(self, content: bytes, schema: Schema = SCHEMA, **options: Any) -> list[Row]:
        return [row for page in self.pages(content, schema, **options) for row in page.rows]

    def refused(self, content: bytes, schema: Schema = SCHEMA, **options: Any) -> ReconcileError:
        with pytest.raises(ReconcileError) as error:
            self.pages(content, schema, **options)
        assert error.value.hint
        return error.value


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 16)


# --- what is read


def test_rows_come_in_the_order_of_the_schema(files: Files) -> None:
    content = b"level,other,account_id,entitlement\nhi,1,a,x\n,2,b,y\n"
    assert files.rows(content) == [("a", "x", "hi"), ("b", "y", "")]


def test_gzip_is_known_by_its_bytes(files: Files) -> None:
    content = gzip.compress(HEADER + b"a,x,1\n")
    assert files.rows(content) == files.rows(content, name="export.csv.gz") == [("a", "x", "1")]


@pytest.mark.usefixtures("small_blocks")
def test_quotes_carriage_returns_and_line_breaks_in_fields_are_read(files: Files) -> None:
    content = (
        b'account_id,"entitlement",level\r\n'
        b'a,"x,1","say ""hi"""\r\n'
        b'"b","two\nlines\r\n,and more","\xc3\xa9"\r\n'
        b'c,"",""""\r\n'
    )
    assert files.rows(content) == [
        ("a", "x,1", 'say "hi"'),
        ("b", "two\nlines\r\n,and more", "é"),
        ("c", "", '"'),
    ]


def test_delimiter_encoding_and_renamed_columns(files: Files) -> None:
    content = "acct;entitlement;level\né;x;ü\n".encode("cp1252")
    rows = files.rows(content, delimiter=";", encoding="cp1252", rename={"acct": "account_id"})
    assert rows == [("é", "x", "ü")]


def test_the_account_may_have_another_name_in_the_file(files: Files) -> None:
    content = b"who,entitlement,level\na,x,1\n"
    assert files.rows(content, account="who") == [("a", "x", "1")]


def test_a_byte_order_mark_is_no_part_of_a_name(files: Files) -> None:
    assert files.rows(b"\xef\xbb\xbf" + HEADER + b"a,x,1\n") == [("a", "x", "1")]


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_blank_lines_are_skipped(files: Files, quote: bytes) -> None:
    content = HEADER + b"\n" + quote + b"a" + quote + b",x,1\n\nb,y,2\n\n"
    assert files.rows(content) == [("a", "x", "1"), ("b", "y", "2")]


def test_a_header_alone_is_no_page_and_no_error(files: Files) -> None:
    assert files.pages(HEADER) == []


def test_null_is_what_the_configuration_says(files: Files) -> None:
    content = HEADER + b"a,x,NULL\nb,y,\n"
    assert files.rows(content, null=("NULL",)) == [("a", "x", None), ("b", "y", "")]
    assert files.rows(content) == [("a", "x", "NULL"), ("b", "y", "")]


def test_values_become_canonical(files: Files) -> None:
    content = b"account_id,entitlement,seats,active\n007,x,010,yes\n10,x,,0\n"
    rows = files.rows(content, TYPED)
    assert rows == [("7", "x", "10", "true"), ("10", "x", None, "false")]


@pytest.mark.usefixtures("small_blocks")
def test_an_account_with_a_value_that_does_not_convert_is_bad_as_a_whole(files: Files) -> None:
    content = (
        b"account_id,entitlement,seats,active\n"
        b"1,x,1,t\n2,w,1,t\n2,x,ten,t\n2,y,1,t\n2,z,1,t\n2,zz,1,t\n3,x,1,t\n"
    )
    pages = files.pages(content, TYPED)
    bad = {account: reason for page in pages for account, reason in page.bad.items()}
    assert set(bad) == {"2"}
    assert "line 4" in bad["2"]
    assert "seats" in bad["2"]
    first = next(i for i, page in enumerate(pages) if "2" in page.bad)
    assert all(row[0] != "2" for page in pages[first:] for row in page.rows)
    assert {row[0] for page in pages for row in page.rows} >= {"1", "3"}


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@given(
    rows=st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=30),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
    block=st.integers(5, 60),
)
def test_what_a_csv_writer_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, str]],
    quoting: Any,
    end: str,
    block: int,
) -> None:
    if quoting == csv.QUOTE_MINIMAL:  # Python 3.11 writes a lone carriage return unquoted
        rows = [(a.replace("\r", ""), b.replace("\r", ""), c.replace("\r", "")) for a, b, c in rows]
    rows = sorted((row for row in rows if row[0]), key=lambda row: row[0])
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting, lineterminator=end)
    writer.writerows([("account_id", "entitlement", "level"), *rows])
    files = Files(tmp_path_factory.mktemp("csv"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        assert files.rows(text.getvalue().encode()) == rows


# --- going on


def _content(count: int) -> bytes:
    return HEADER + b"".join(b"a%04d,x,1\na%04d,y,2\n" % (i, i) for i in range(count))


@pytest.mark.parametrize("name", ["export.csv", "export.csv.gz", "{date}.csv"])
def test_reading_goes_on_where_a_page_says(
    files: Files, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 100)
    content = _content(200)
    if name.endswith(".gz"):
        content = gzip.compress(content)
    with closing(files.source(content, name).open(NIGHT, SCHEMA)) as reading:
        pages = list(reading.pages())
        assert len(pages) > 10
        for i, page in enumerate(pages):
            assert list(reading.pages(None, page.resume)) == pages[i:]
        assert pages[5].resume is not None


def test_two_readers_of_one_reading_do_not_disturb_each_other(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 100)
    with closing(files.source(_content(100)).open(NIGHT, SCHEMA)) as reading:
        both = list(zip(reading.pages(), reading.pages(), strict=True))
    assert len(both) > 10
    assert all(a == b for a, b in both)


def test_pages_below_an_account_are_left_out(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 100)
    with closing(files.source(_content(100)).open(NIGHT, SCHEMA)) as reading:
        rows = [row for page in reading.pages("a0050") for row in page.rows]
    above = [row for row in rows if row[0] is not None and row[0] > "a0050"]
    assert len(above) == 2 * 49
    assert len(rows) - len(above) < 20


def test_where_another_file_went_on_is_not_believed(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 100)
    with closing(files.source(_content(100)).open(NIGHT, SCHEMA)) as reading:
        resume = list(reading.pages())[5].resume
    with closing(files.source(_content(101)).open(NIGHT, SCHEMA)) as reading:
        rows = [row for page in reading.pages(None, resume) for row in page.rows]
    assert rows[0] == ("a0000", "x", "1")
    assert len(rows) == 202


# --- the fingerprint


def _fingerprint(source: Any, schema: Schema = SCHEMA) -> str:
    with closing(source.open(NIGHT, schema)) as reading:
        return str(reading.fingerprint)


def test_live_files_have_fingerprints_too(files: Files) -> None:
    live, dated = files.source(HEADER), files.source(HEADER, "{date}.csv")
    assert (live.dated, dated.dated) == (False, True)
    first = _fingerprint(live)
    assert first == _fingerprint(files.source(HEADER))
    assert first != _fingerprint(files.source(HEADER + b"a,x,1\n"))


def test_an_empty_account_is_nobodys(files: Files) -> None:
    with pytest.raises(SourceUnusable, match=r"line 2: account_id is empty"):
        files.rows(HEADER + b",x,1\na,x,1\n")


def test_an_edit_of_the_same_size_is_noticed_and_a_copy_is_not(files: Files) -> None:
    first = _fingerprint(files.source(HEADER + b"a,x,1\n", "{date}.csv"))
    path = files.folder / "2026-11-30.csv"
    times = path.stat()
    edited = files.source(HEADER + b"a,x,2\n", "{date}.csv")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert _fingerprint(edited) != first
    path.unlink()
    copied = files.source(HEADER + b"a,x,1\n", "{date}.csv")
    os.utime(path, (1, 1))
    assert _fingerprint(copied) == first


def test_another_way_of_reading_is_another_truth(files: Files) -> None:
    content = HEADER + b"a,x,1\n"
    prints = {
        _fingerprint(files.source(content, "{date}.csv")),
        _fingerprint(files.source(content, "{date}.csv", null=("1",))),
        _fingerprint(files.source(content, "{date}.csv", rename={"z": "y"})),
        _fingerprint(files.source(content, "{date}.csv"), Schema(SCHEMA.columns, (0,))),
        _fingerprint(files.source(content, "{date}.csv"), SCHEMA_OF_ANY_CASE),
        _fingerprint(files.source(content, "{date}.csv", fields=NAMES)),
        _fingerprint(files.source(content, "{date}.csv", fields=NAMES[::-1])),
    }
    assert len(prints) == 7


# --- what is refused


def test_a_file_written_to_while_it_is_read_is_refused(files: Files) -> None:
    source = files.source(HEADER + b"a,x,1\n")
    with closing(source.open(NIGHT, SCHEMA)) as reading:
        pages = reading.pages()
        next(pages)
        path = files.folder / "export.csv"
        with path.open("ab") as file:
            file.write(b"b,y,2\n")
        with pytest.raises(SourceUnusable, match="was written to"):
            list(pages)


def test_a_file_replaced_while_it_is_read_is_read_to_its_old_end(files: Files) -> None:
    source = files.source(HEADER + b"a,x,1\n")
    with closing(source.open(NIGHT, SCHEMA)) as reading:
        new = files.folder / "new.csv"
        new.write_bytes(HEADER + b"b,y,2\n")
        new.rename(files.folder / "export.csv")
        assert [row for page in reading.pages() for row in page.rows] == [("a", "x", "1")]


BAD = {
    "line 3: 2 fields where the header has 3": HEADER + b"a,x,1\nb,y\nc,z,3\n",
    "line 3: 4 fields": HEADER + b"a,x,1\nb,y,2,\n",
    "line 4: 1 field where": HEADER + b'a,"x\ny",1\nb\n',
    "line 3: the last record is cut": HEADER + b"a,x,1\nb,y,2",
    "line 2: the last record is cut": HEADER + b'a,x,"1\n2',
    "line 3: byte 0xff is no utf-8": HEADER + b"a,x,1\nb,\xff,2\n",
    "line 3: a NUL byte": HEADER + b"a,x,1\nb,\0,2\n",
    "line 2: a carriage return": HEADER + b"a\rb,x,1\n",
    "line 3: a quote in this record is never closed": HEADER + b'a,x,1\nb,5" pipe,2\nc,z,3\n',
    "line 3: a quote stands within": HEADER + b'a,x,1\nb,5" and 6" pipes,2\n',
    "line 3: a quote stands": HEADER + b'a,"x",1\nb, "y",2\n',
    "line 2: ',' expected after '\"'": HEADER + b'a,"x"y,1\n',
    "has no column level; it has": b"account_id,entitlement\na,x\n",
    "has no columns entitlement, level; it has": b"account_id\na\n",
    "more than one column level": b"account_id,entitlement,level,level\na,x,1,2\n",
    "is empty": b"",
}


@pytest.mark.parametrize("why", BAD)
def test_a_broken_file_is_refused_with_its_line(files: Files, why: str) -> None:
    error = files.refused(BAD[why])
    assert isinstance(error, SourceUnusable)
    assert why in str(error)
    assert str(files.folder / "export.csv") in str(error)


@pytest.mark.parametrize("why", BAD)
@pytest.mark.usefixtures("small_blocks")
def test_a_broken_file_is_refused_whatever_the_blocks_are(files: Files, why: str) -> None:
    assert why in str(files.refused(BAD[why]))


def test_order_is_by_code_point_and_by_value_for_integers(files: Files) -> None:
    files.rows(HEADER + "Z,x,1\na,x,1\né,x,1\n\uffff,x,1\n\U00010000,x,1\n".encode())
    head = b"account_id,entitlement,seats,active\n"
    files.rows(head + b"9,x,1,t\n10,x,1,t\n", TYPED)
    for content, schema in (
        (head + b"10,x,1,t\n9,x,1,t\n", TYPED),
        (HEADER + b"a,x,1\nB,y,2\n", SCHEMA),
    ):
        with pytest.raises(Unordered):
            files.rows(content, schema)


@pytest.mark.parametrize("block", range(7, 20))
def test_order_is_checked_across_pages(
    files: Files, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", block)
    content = HEADER + b"".join(b"a%d,x,1\n" % i for i in (1, 2, 3, 4, 5, 6, 3))
    with pytest.raises(Unordered):
        files.rows(content)


def test_a_null_account_or_key_is_refused(files: Files) -> None:
    assert "line 3: account_id is NULL" in str(
        files.refused(HEADER + b"a,x,1\nNULL,y,1\n", null=("NULL",))
    )
    assert "line 2: entitlement is NULL" in str(
        files.refused(HEADER + b"a,NULL,1\n", null=("NULL",))
    )
    head = b"account_id,entitlement,seats,active\n"
    assert "line 2: account_id is NULL" in str(files.refused(head + b",x,1,t\n", TYPED))


def test_an_account_that_is_no_integer_is_refused(files: Files) -> None:
    content = b"account_id,entitlement,seats,active\n1,x,1,t\nabc,x,1,t\n"
    error = files.refused(content, TYPED)
    assert isinstance(error, SourceUnusable)
    assert "line 3: account 'abc' is no integer" in str(error)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_gzip_file_is_refused(files: Files, keep: float) -> None:
    packed = gzip.compress(os.urandom(50_000).hex().encode())
    content = gzip.compress(HEADER + b"a," + os.urandom(50_000).hex().encode() + b",1\n")
    assert packed
    error = files.refused(content[: int(len(content) * keep)], name="export.csv.gz")
    assert isinstance(error, SourceUnusable)
    assert "cut short" in str(error)


def test_a_gzip_file_with_a_wrong_checksum_is_refused(files: Files) -> None:
    content = bytearray(gzip.compress(_content(50)))
    content[-8] ^= 1
    assert "damaged" in str(files.refused(bytes(content), name="export.csv.gz"))


def test_a_gz_name_on_plain_text_is_refused(files: Files) -> None:
    assert "is not gzip" in str(files.refused(HEADER, name="export.csv.gz"))


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_an_endless_record_is_refused_without_reading_it_all(files: Files, quote: bytes) -> None:
    content = HEADER + b"a," + quote + b"x" * (40 << 20)
    with pytest.raises(SourceUnusable, match="longer than 1,048,576 bytes"):
        files.pages(content)


def test_a_long_field_below_the_limit_is_read(files: Files) -> None:
    long = "x" * 900_000
    assert files.rows(HEADER + f'a,"{long}",1\nb,{long},1\n'.encode()) == [
        ("a", long, "1"),
        ("b", long, "1"),
    ]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for name, kind, words in (
        ("none.csv", SourceUnreachable, "does not exist"),
        ("", SourceUnusable, "is a folder"),
        ("pipe.csv", SourceUnusable, "is a pipe"),
    ):
        source = open_csv(str(tmp_path / name))
        with pytest.raises(kind, match=words):
            source.open(NIGHT, SCHEMA)


def test_a_file_that_may_not_be_read_says_so(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    source = files.source(HEADER)

    def denied(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(AccessDenied, match="may not be read"):
        source.open(NIGHT, SCHEMA)


@pytest.mark.parametrize("options", [{"delimiter": ";;"}, {"delimiter": '"'}, {"delimiter": ""}])
def test_an_impossible_delimiter_is_a_configuration_error(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="delimiter"):
        open_csv("x.csv", **options)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-7", "no-such", "base64", "cp037"])
def test_an_encoding_that_does_not_keep_ascii_is_a_configuration_error(encoding: str) -> None:
    with pytest.raises(ConfigError, match="encoding"):
        open_csv("x.csv", encoding=encoding)


def test_other_types_of_source_are_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="ldap"):
        open_csv("x", "ldap")


def test_a_column_the_source_does_not_list_is_refused(files: Files) -> None:
    error = files.refused(HEADER, columns=("entitlement",))
    assert "the target compares level" in str(error)


def test_a_source_says_what_it_is(tmp_path: Path) -> None:
    source = open_csv(str(tmp_path / "{date:%Y}" / "x.csv"))
    assert source.describe(None) == f"csv {tmp_path}/{{date:%Y}}/x.csv"
    assert source.describe(NIGHT) == f"csv {tmp_path}/2026/x.csv"
