"""Clocks and time zone data, as `doctor` judges them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.fakes import holder

from reconcile.core.findings import Level, size_text
from reconcile.core.operations.doctor.clocks import Asked, clock, zones
from reconcile.core.operations.doctor.premises import ZoneData

NOW = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)


def asked(ahead: float, took: float = 0.0) -> Asked:
    """A store whose clock is so much ahead, and whose answer took so long."""
    after = NOW + timedelta(seconds=took)
    return Asked(NOW, NOW + timedelta(seconds=ahead + took / 2), after)


@pytest.mark.parametrize(
    ("ahead", "took", "level", "text"),
    [
        (0.002, 0.0, Level.OK, "0.002 s from the store's"),
        (-0.9, 0.0, Level.OK, "0.900 s"),
        (3.0, 0.0, Level.WARN, "3.000 s behind the store's"),
        (-3.0, 0.0, Level.WARN, "3.000 s ahead of the store's"),
        (60.0, 0.0, Level.FAIL, "60.000 s behind"),
        (3.0, 6.0, Level.OK, "±3.000"),  # so slow an answer says no more than that
    ],
)
def test_a_host_that_is_out_is_told_by_how_much(
    ahead: float, took: float, level: Level, text: str
) -> None:
    (found,) = clock(asked(ahead, took), shared=True, holder=holder("a"))
    assert found.level is level
    assert text in found.text
    assert bool(found.mend) == (level is not Level.OK)


def test_a_store_of_one_host_has_no_clock_to_compare() -> None:
    (found,) = clock(asked(60.0), shared=False, holder=holder("a"))
    assert found.level is Level.OK


@pytest.mark.parametrize(("lacks", "level"), [("boot_id", Level.FAIL), ("machine_id", Level.WARN)])
def test_a_host_without_an_identity_is_told_of(lacks: str, level: Level) -> None:
    found = list(clock(asked(0), shared=False, holder=holder("a")._replace(**{lacks: ""})))
    assert [one.level for one in found] == [Level.OK, level]
    assert found[1].mend


@pytest.mark.parametrize(
    ("data", "level", "text"),
    [
        (ZoneData("2026b", "2026a", "/z"), Level.OK, "2026b"),
        (ZoneData("2025b", "2026a", "/z"), Level.WARN, "2025b in /z goes before 2026a"),
        (ZoneData(None, "2026a"), Level.OK, "2026a, of the package tzdata"),
        (ZoneData("", "2026a", "/z"), Level.OK, "in /z, of an unknown release"),
        (ZoneData(None, None), Level.WARN, "no time zone data"),
    ],
)
def test_the_time_zone_data_that_is_used_is_named(data: ZoneData, level: Level, text: str) -> None:
    (found,) = zones(data, ())
    assert found.level is level
    assert text in found.text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (1_234_567, "1.2 MB"), (68e9, "68 GB")],
)
def test_sizes_are_told_as_people_read_them(size: float, text: str) -> None:
    assert size_text(int(size)) == text
