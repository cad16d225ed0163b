"""The guards trip on what would be revoked or updated, and on nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.checksum import Checksum
from reconcile.core.config import GuardsConfig
from reconcile.core.records import PlanRecord
from reconcile.core.work.entitlements.judge import Totals, judge, judge_counts


def plan(rows: int = 100, **facts: object) -> PlanRecord:
    return PlanRecord(
        id="p",
        interval="i",
        rerun=0,
        fingerprint="",
        range_size=1,
        begun_at=datetime(2026, 11, 29, tzinfo=UTC),
        desired=Checksum(rows, 1),
        **facts,  # type: ignore[arg-type]
    )


def guard_of(found: PlanRecord, totals: Totals, guards: GuardsConfig | None = None) -> str | None:
    trip = judge(found, guards or GuardsConfig(), totals)
    return trip.guard if trip is not None else None


@pytest.mark.parametrize(
    ("revoke", "base", "guard"),
    [
        (100, 1000, None),
        (101, 1000, "max_revoke"),
        (10, 20, None),
        (11, 20, "max_revoke"),
        (19_892, 175_554, "max_revoke"),
        (17_555, 175_554, None),
        (17_556, 175_554, "max_revoke"),
        (10, 0, None),
    ],
)
def test_revokes_beyond_the_share_of_the_target_trip(
    revoke: int, base: int, guard: str | None
) -> None:
    assert guard_of(plan(), Totals(revoke, 0, base)) == guard


def test_updates_beyond_half_of_the_target_trip() -> None:
    assert guard_of(plan(), Totals(0, 500, 1000)) is None
    assert guard_of(plan(), Totals(0, 501, 1000)) == "max_update"


def test_an_empty_source_trips_unless_the_target_is_empty_too() -> None:
    assert guard_of(plan(rows=0), Totals(5, 0, 5)) == "empty_source"
    assert guard_of(plan(rows=0), Totals(0, 0, 0)) is None


def test_too_few_rows_and_a_missing_account_trip() -> None:
    guards = GuardsConfig(min_rows=101, must_contain=("acct-1",))
    assert guard_of(plan(100), Totals(0, 0, 100), guards) == "min_rows"
    assert guard_of(plan(101, missing=["acct-1"]), Totals(0, 0, 100), guards) == "must_contain"
    assert guard_of(plan(101), Totals(0, 0, 100), guards) is None


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6))
def test_no_other_figure_lets_revokes_past_the_limit(
    revoke: int, update: int, base: int, grants: int
) -> None:
    guards = GuardsConfig()
    tripped = judge(plan(grant=grants), guards, Totals(revoke, update, base))
    too_many = revoke > max(0.10 * base, 10)
    assert (tripped is not None and tripped.guard == "max_revoke") == too_many
    if too_many:
        assert judge_counts(guards, Totals(revoke, update, base)) is not None
