"""Values as drivers give them, as canonical texts."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.canonical import Unconvertible
from reconcile.core.rows import ColumnKind
from reconcile.core.sources.sql.values import value_reader

K = ColumnKind
REF = UUID("00112233-4455-6677-8899-aabbccddeeff")
EAST = timezone(timedelta(hours=5, minutes=45))


def text(value: Any, kind: ColumnKind, *null: str) -> str | None:
    return value_reader(kind, null)(value)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, K.TEXT, None),
        ("", K.TEXT, ""),
        ("", K.INTEGER, None),
        (" é ", K.TEXT, " é "),
        (True, K.BOOLEAN, "true"),
        (0, K.BOOLEAN, "false"),
        (True, K.INTEGER, "1"),
        (False, K.TEXT, "false"),
        (-(2**63), K.INTEGER, "-9223372036854775808"),
        (2**64 - 1, K.DECIMAL, "18446744073709551615"),
        (Decimal("12.00"), K.INTEGER, "12"),
        (Decimal("1.50"), K.DECIMAL, "1.5"),
        (Decimal("1.50"), K.TEXT, "1.50"),
        (Decimal("1E+3"), K.DECIMAL, "1000"),
        (3.0, K.INTEGER, "3"),
        (0.1, K.FLOAT, "0.1"),
        (1e22, K.TEXT, "10000000000000000000000"),
        (date(2026, 11, 30), K.DATE, "2026-11-30"),
        (datetime(2026, 11, 30), K.DATE, "2026-11-30"),  # noqa: DTZ001  as a driver gives it
        (datetime(2026, 11, 30, 1, 2, 3, 4), K.TIMESTAMP, "2026-11-30T01:02:03.000004"),  # noqa: DTZ001
        (datetime(2026, 11, 30, tzinfo=EAST), K.INSTANT, "2026-11-29T18:15:00.000000Z"),
        (time(1, 2), K.TEXT, "01:02:00"),
        (REF, K.UUID, str(REF)),
        (REF.bytes, K.UUID, str(REF)),
        (REF.hex.upper(), K.UUID, str(REF)),
        (memoryview(b"\0\xff"), K.BYTES, "\\x00ff"),
        ('{"bb": 1.10, "a": 9007199254740993}', K.JSON, '{"a": 9007199254740993, "bb": 1.10}'),
    ],
)
def test_a_value_keeps_all_that_it_is(value: Any, kind: ColumnKind, expected: str | None) -> None:
    assert text(value, kind) == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1.5, K.INTEGER),
        (Decimal("1.5"), K.INTEGER),
        (2**63, K.INTEGER),
        (Decimal("NaN"), K.DECIMAL),
        (float("inf"), K.FLOAT),
        (b"ab", K.TEXT),
        (b"ab", K.UUID),
        (b"{}", K.JSON),
        ([1], K.TEXT),
        ({"a": 1.10}, K.JSON),
        (timedelta(hours=1), K.TEXT),
        (datetime(2026, 11, 30, 1), K.DATE),  # noqa: DTZ001  as a driver gives it
        (datetime(2026, 11, 30), K.INSTANT),  # noqa: DTZ001
        (datetime(2026, 11, 30, tzinfo=UTC), K.TIMESTAMP),
        ("0000-00-00 00:00:00", K.TIMESTAMP),
        ("infinity", K.INSTANT),
    ],
)
def test_what_would_be_less_or_another_is_refused(value: Any, kind: ColumnKind) -> None:
    with pytest.raises(Unconvertible):
        text(value, kind)


def test_texts_that_mean_null_are_null_in_any_column() -> None:
    assert text("n/a", K.TEXT, "n/a") is None
    assert text("n/a", K.INTEGER, "n/a") is None


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_a_decimal_is_the_very_same_number(value: Decimal) -> None:
    found = text(value, K.DECIMAL)
    assert found is not None
    assert "E" not in found
    assert Decimal(found) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_reads_back_as_itself(value: float) -> None:
    found = text(value, K.FLOAT)
    assert found is not None
    assert float(found) == value
