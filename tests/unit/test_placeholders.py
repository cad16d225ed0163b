from __future__ import annotations

from datetime import UTC, datetime

import pytest

from reconcile.core.errors import ConfigError
from reconcile.core.model import Interval
from reconcile.core.placeholders import check, fill, is_dated

NIGHT = Interval("j", datetime(2026, 3, 1, 2, 30, tzinfo=UTC), "2026-03-01")


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("exports/{date}.csv", "exports/2026-03-01.csv"),
        ("exports/{yesterday}.csv", "exports/2026-02-28.csv"),
        ("exports/{interval}.csv", "exports/2026-03-01.csv"),
        ("{date:%Y/%m/%d}/{yesterday:%d%%}.csv", "2026/03/01/28%.csv"),
        ("{interval:%Y%m%dT%H%M%S}.csv", "20260301T023000.csv"),
        ("100%Y.csv", "100%Y.csv"),
    ],
)
def test_placeholders_are_filled_in(template: str, path: str) -> None:
    check(template)
    assert fill(template, NIGHT) == path


def test_the_date_is_that_of_the_zone() -> None:
    late = Interval("j", datetime(2026, 3, 1, 23, 30, tzinfo=UTC), "2026-03-01", "Asia/Tokyo")
    assert fill("{date}", late) == "2026-03-02"
    assert fill("{yesterday}", late) == "2026-03-01"
    assert fill("{interval}", late) == "2026-03-01"
    assert fill("{interval:%H%M}", late) == "0830"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{dat}.csv", "no placeholder"),
        ("{}.csv", "no placeholder"),
        ("{date }.csv", "no placeholder"),
        ("{date.csv", "single brace"),
        ("date}.csv", "single brace"),
        ("{{date}}.csv", "single brace"),
        ("{date:%Q}", "%Q"),
        ("{date:%}", "unknown strftime mark"),
        ("{date:%-d}", "%-"),
        ("{date:latest}", "no strftime mark"),
        ("{date:}", "no strftime mark"),
        ("{date:%%}", "no strftime mark"),
    ],
)
def test_what_would_name_no_file_of_the_interval_is_refused(template: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        check(template)
    assert refused.value.hint
    with pytest.raises(ConfigError):
        fill(template, NIGHT)


@pytest.mark.parametrize(
    ("template", "dated"),
    [("export.csv", False), ("{date}.csv", True), ("{interval:%H}.csv", True), ("%Y.csv", False)],
)
def test_a_template_that_names_its_interval_is_dated(template: str, dated: bool) -> None:
    assert is_dated(template) is dated
