"""JSON Lines: each object says all that is compared, losslessly, or the file is refused."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.config import SourceConfig
from reconcile.core.errors import ConfigError, SourceUnusable
from reconcile.core.model import Interval
from reconcile.core.rows import Column, ColumnKind, Page, Row, Schema
from reconcile.core.sources import blocks, open_source
from reconcile.core.sources.spool import Spools

NIGHT = Interval("job", datetime(2026, 11, 30, 2, 30, tzinfo=UTC), "2026-11-30")
TEXT = ColumnKind.TEXT
SCHEMA = Schema((Column("id", TEXT), Column("name", TEXT), Column("level", TEXT)), (0, 1))
TYPED = Schema(
    (
        Column("id", ColumnKind.INTEGER),
        Column("name", TEXT),
        Column("amount", ColumnKind.DECIMAL),
        Column("active", ColumnKind.BOOLEAN),
        Column("share", ColumnKind.FLOAT),
    ),
    (0, 1),
)


class Files:
    """Writes files, and reads them as a source does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def source(self, content: bytes, name: str = "e.jsonl", **options: Any) -> Any:
        (self.folder / name).write_bytes(content)
        config = SourceConfig("jsonl", str(self.folder / name), **options)
        return open_source(config, Spools(self.folder / "spools", "job"))

    def pages(self, content: bytes, schema: Schema = SCHEMA, **options: Any) -> list[Page]:
        with closing(self.source(content, **options).open(NIGHT, schema)) as reading:
            return list(reading.pages())

    def rows(self, content: bytes, schema: Schema = SCHEMA, **options: Any) -> list[Row]:
        return [row for page in self.pages(content, schema, **options) for row in page.rows]

    def bad(self, content: bytes, schema: Schema = SCHEMA) -> dict[str, str]:
        pages = self.pages(content, schema)
        return {account: why for page in pages for account, why in page.bad.items()}

    def refused(self, content: bytes, schema: Schema = SCHEMA, **options: Any) -> str:
        with pytest.raises(SourceUnusable) as error:
            self.pages(content, schema, **options)
        assert error.value.hint
        return str(error.value)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def line(id_: str = "a", name: str = "x", level: str | None = "1", **more: Any) -> bytes:
    return json.dumps({"level": level, "id": id_, "name": name, **more}).encode() + b"\n"


# --- what is read


def test_rows_come_in_the_order_of_the_schema_and_further_keys_are_ignored(files: Files) -> None:
    content = line(more={"deep": [1, {"x": None}]}) + line("b", "y", "2")
    assert files.rows(content) == [("a", "x", "1"), ("b", "y", "2")]


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz", "e"])
def test_gzip_is_known_by_its_bytes(files: Files, name: str) -> None:
    assert files.rows(gzip.compress(line()), name=name) == [("a", "x", "1")]


def test_blank_lines_carriage_returns_blanks_and_a_byte_order_mark_are_no_part_of_it(
    files: Files,
) -> None:
    content = b"\xef\xbb\xbf\n \t\n" + line().rstrip() + b" \r\n\r\n  " + line("b")
    assert files.rows(content) == [("a", "x", "1"), ("b", "x", "1")]


def test_another_encoding_may_be_named(files: Files) -> None:
    content = '{"id":"é","name":"x","level":"ü"}\n'.encode("cp1252")
    assert files.rows(content, encoding="cp1252") == [("é", "x", "ü")]
    with pytest.raises(ConfigError, match="utf-16"):
        files.source(content, encoding="utf-16")


def test_numbers_lose_nothing_and_booleans_are_canonical(files: Files) -> None:
    content = (
        b'{"id":9007199254740993,"name":"x","amount":123456789012345678.90123456789,'
        b'"active":true,"share":0.1}\n'
        b'{"id":9223372036854775807,"name":1.50,"amount":-0.10e1,"active":false,"share":1e2}\n'
    )
    assert files.rows(content, TYPED) == [
        ("9007199254740993", "x", "123456789012345678.90123456789", "true", "0.1"),
        ("9223372036854775807", "1.50", "-1", "false", "100"),
    ]


def test_a_number_or_a_boolean_in_a_text_column_is_the_text_that_is_written(files: Files) -> None:
    content = b'{"id":1001,"name":true,"level":1.0}\n'
    assert files.rows(content) == [("1001", "true", "1.0")]


def test_null_is_null_always_and_so_are_the_texts_of_the_configuration(files: Files) -> None:
    content = line(level=None) + line("b", level="NULL") + line("c", level="")
    assert [row[2] for row in files.rows(content, null=("NULL",))] == [None, None, ""]
    assert [row[2] for row in files.rows(content)] == [None, "NULL", ""]


def test_account_and_rename_as_for_csv(files: Files) -> None:
    content = b'{"who":"a","ent":"x","level":"1"}\n'
    rows = files.rows(content, account="who", rename={"ent": "name"})
    assert rows == [("a", "x", "1")]


def test_a_name_of_ours_may_have_two_in_the_file_but_not_in_one_object(files: Files) -> None:
    content = b'{"id":"a","ent":"x","level":"1"}\n{"id":"b","name":"y","level":"1"}\n'
    both = b'{"id":"a","ent":"x","name":"y","level":"1"}\n'
    assert len(files.rows(content, rename={"ent": "name"})) == 2
    assert "line 1: 'ent' and 'name' are both name" in files.refused(both, rename={"ent": "name"})


def test_a_schema_of_the_account_alone_is_read(files: Files) -> None:
    only = Schema((Column("id", TEXT),), (0,))
    assert files.rows(line() + line("b"), only) == [("a",), ("b",)]
    assert "it has no key 'id'" in files.refused(b'{"x":1}\n', only)


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
            st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        ),
        min_size=1,
        max_size=20,
    ),
    st.booleans(),
    st.integers(1, 60),
)
def test_what_a_json_writer_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], escaped: bool, block: int
) -> None:
    rows = sorted(rows, key=lambda row: row[0] or "")
    names = [column.name for column in SCHEMA.columns]
    lines = [json.dumps(dict(zip(names, r, strict=True)), ensure_ascii=escaped) for r in rows]
    content = "".join(text + "\n" for text in lines).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        assert Files(tmp_path_factory.mktemp("jsonl")).rows(content) == rows


# --- an account is left alone


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('{"a": 1}', 'line 2: level \'{"a": "1"}\' is no text: it is an object'),
        ("[1, 2]", 'line 2: level \'["1", "2"]\' is no text: it is an array'),
    ],
)
def test_a_nested_value_sets_its_account_apart(files: Files, value: str, why: str) -> None:
    content = line() + f'{{"id":"b","name":"x","level":{value}}}\n'.encode() + line("c")
    assert files.bad(content) == {"b": why}
    assert [row[0] for row in files.rows(content)] == ["a", "c"]


@pytest.mark.parametrize("value", ["true", '"ten"', "1e999"])
def test_a_value_that_does_not_convert_sets_its_account_apart(files: Files, value: str) -> None:
    content = f'{{"id":1,"name":"x","amount":{value},"active":1,"share":0}}\n'.encode()
    assert list(files.bad(content, TYPED)) == ["1"]


# --- what is refused

BAD = {
    "line 2: it has no key 'level'": line() + b'{"id":"b","name":"x"}\n',
    "line 2: key 'name' stands twice in one object": line()
    + b'{"id":"b","name":"x","name":"x","level":"1"}\n',
    "line 1: key 'k' stands twice in one object": b'{"id":"b","o":{"k":1,"k":2}}\n',
    "line 2: NaN is no JSON": line() + b'{"id":"b","name":"x","level":NaN}\n',
    "line 1: -Infinity is no JSON": b'{"id":"b","name":"x","level":-Infinity}\n',
    "line 2: an array, not an object": line() + b"[1]\n",
    "line 1: a text or a number, not an object": b'"a"\n',
    "line 1: null, not an object": b"null\n",
    "line 3: not JSON: expecting": line() + b"\n{,}\n",
    "line 2: not JSON: extra data at character 39": line() + line().strip() + b" " + line("b"),
    "line 2: not JSON: expecting ',' delimiter at character": line() + b'{"id":"b"\n' + line("c"),
    "line 2: not JSON: invalid control character at": line() + b'{"id":"b\tc"}\n',
    "line 1: it is nested too deeply": b'{"id":' + b"[" * 100_000 + b"\n",
    "line 2: byte 0xff is no utf-8 text": line() + b'{"id":"\xff"}\n',
    "line 2: \\ud800 is half of a surrogate pair": line() + b'{"id":"\\uD800"}\n',
    "line 1: \\udc00 is half of a surrogate pair": line(more=["\udc00"]),
    "line 2: a NUL byte": line() + b'{"id":"\0"}\n',
    "line 2: a NUL in a text": line() + line("a\0b"),
    "line 2: the last record is cut": line() + line("b")[:-1],
    "line 1: id is empty": line(""),
    "line 1: id is NULL": line(None),  # type: ignore[arg-type]
    "line 1: name is NULL": line("a", None),  # type: ignore[arg-type]
    "line 1: account '{}' is no text: it is an object": line({}),  # type: ignore[arg-type]
    "is empty, which is what an export that failed leaves": b"",
    "is empty": b"\n \n",
}


@pytest.mark.parametrize("why", BAD)
@pytest.mark.parametrize("block", [7, blocks.BLOCK])
def test_a_broken_file_is_refused_with_its_line(
    files: Files, why: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", block)
    told = files.refused(BAD[why])
    assert why in told
    assert told.startswith(str(files.folder / "e.jsonl"))


def test_what_python_takes_for_line_breaks_is_text(files: Files) -> None:
    content = '{"id":"a","name":"x\u2028y\x85","level":"1"}\n'.encode()
    assert files.rows(content) == [("a", "x\u2028y\x85", "1")]


def test_escapes_that_make_a_pair_are_one_character(files: Files) -> None:
    assert files.rows(line("\U0001f600"))[0][0] == "\U0001f600"


def test_an_endless_line_is_refused_without_reading_it_all(files: Files) -> None:
    content = line() + b'{"id":"' + b"x" * (40 << 20)
    assert "line 2: the record is longer than 1,048,576 bytes" in files.refused(content)


def test_an_account_that_is_no_integer_is_refused(files: Files) -> None:
    content = b'{"id":1.0,"name":"x","amount":1,"active":1,"share":0}\n'
    assert "line 1: account '1.0' is no integer" in files.refused(content, TYPED)


def test_a_source_says_what_it_is(files: Files) -> None:
    source = files.source(line())
    assert source.describe(NIGHT) == source.describe(None) == f"jsonl {files.folder}/e.jsonl"


def test_reading_goes_on_where_a_page_says(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 150)
    content = b"".join(line(f"a{n:03}") for n in range(60))
    with closing(files.source(content).open(NIGHT, SCHEMA)) as reading:
        pages = list(reading.pages())
        assert len(pages) > 10
        for number, page in enumerate(pages):
            again = [row for later in reading.pages(None, page.resume) for row in later.rows]
            assert again == [row for later in pages[number:] for row in later.rows]
        assert pages[5].resume is not None
