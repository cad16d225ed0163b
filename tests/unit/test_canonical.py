"""Canonical texts: one for each value, and none for what is no value of the kind."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.canonical import Unconvertible, canonical, float_text, reader
from reconcile.core.rows import ColumnKind

INTEGER, DECIMAL = ColumnKind.INTEGER, ColumnKind.DECIMAL
FLOAT, BOOLEAN, TEXT = ColumnKind.FLOAT, ColumnKind.BOOLEAN, ColumnKind.TEXT


@pytest.mark.parametrize(
    ("kind", "raw", "text"),
    [
        (TEXT, " 007 ", " 007 "),
        (INTEGER, "007", "7"),
        (INTEGER, "+7", "7"),
        (INTEGER, "-0", "0"),
        (INTEGER, "-0012", "-12"),
        (INTEGER, "9223372036854775807", "9223372036854775807"),
        (INTEGER, "-9223372036854775808", "-9223372036854775808"),
        (DECIMAL, "1.50", "1.5"),
        (DECIMAL, "-00.250", "-0.25"),
        (DECIMAL, "10.", "10"),
        (DECIMAL, ".5", "0.5"),
        (DECIMAL, "-0.0", "0"),
        (DECIMAL, "1e3", "1000"),
        (DECIMAL, "12.5e-3", "0.0125"),
        (DECIMAL, "0e99", "0"),
        (DECIMAL, "0.10000000000000000000000001", "0.10000000000000000000000001"),
        (FLOAT, "0.1", "0.1"),
        (FLOAT, "0.10000000000000000000000001", "0.1"),
        (FLOAT, "1e23", "100000000000000000000000"),
        (FLOAT, "-0.0", "0"),
        (BOOLEAN, "TRUE", "true"),
        (BOOLEAN, "1", "true"),
        (BOOLEAN, "yes", "true"),
        (BOOLEAN, "f", "false"),
        (BOOLEAN, "No", "false"),
        (BOOLEAN, "0", "false"),
    ],
)
def test_a_value_has_one_text(kind: ColumnKind, raw: str, text: str) -> None:
    assert canonical(raw, kind) == text
    assert canonical(text, kind) == text


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (INTEGER, ""),
        (INTEGER, " 7"),
        (INTEGER, "7.0"),
        (INTEGER, "1_000"),
        (INTEGER, "--1"),
        (INTEGER, "٣"),
        (INTEGER, "9223372036854775808"),
        (INTEGER, "-9223372036854775809"),
        (INTEGER, "9" * 5000),
        (INTEGER, "0" * 1_000_000 + "x"),
        (DECIMAL, "."),
        (DECIMAL, "1,5"),
        (DECIMAL, "e5"),
        (DECIMAL, "NaN"),
        (DECIMAL, "Infinity"),
        (DECIMAL, "1e9999"),
        (DECIMAL, "1e-9999"),
        (FLOAT, "1e399"),
        (FLOAT, "inf"),
        (BOOLEAN, "maybe"),
        (BOOLEAN, "2"),
        (BOOLEAN, ""),
    ],
)
def test_what_is_no_value_of_the_kind_is_refused(kind: ColumnKind, raw: str) -> None:
    with pytest.raises(Unconvertible) as refused:
        canonical(raw, kind)
    assert kind in str(refused.value)
    assert len(str(refused.value)) < 120


def test_text_without_null_needs_no_work() -> None:
    assert reader(TEXT) is None


def test_empty_is_empty_text_in_text_and_null_elsewhere() -> None:
    text, integer = reader(TEXT, ["NULL"]), reader(INTEGER)
    assert text is not None
    assert integer is not None
    assert text("") == ""
    assert text("NULL") is None
    assert text("null") == "null"
    assert integer("") is None
    assert integer("01") == "1"


def test_a_listed_null_is_null_in_every_kind() -> None:
    for kind in ColumnKind:
        read = reader(kind, ["\\N", "0"])
        assert read is not None
        assert read("\\N") is None
        assert read("0") is None


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6))
def test_decimals_of_one_value_have_one_text(value: Decimal) -> None:
    texts = {canonical(f"{value:{style}}", DECIMAL) for style in ("f", "e", "060f")}
    (text,) = texts
    assert Decimal(text) == value
    assert "." not in text or not text.endswith(("0", "."))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float_reads_back_as_it(value: float) -> None:
    text = float_text(value)
    assert float(text) == value
    assert "e" not in text
    assert canonical(text, FLOAT) == text


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 5))
def test_padding_of_an_integer_does_not_matter(value: int, zeros: int) -> None:
    sign, digits = ("-", str(-value)) if value < 0 else ("", str(value))
    assert canonical(sign + "0" * zeros + digits, INTEGER) == str(value)
