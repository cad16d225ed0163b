"""Nothing is called completed unless all ranges are there and every one of them agrees."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from reconcile.core.checksum import Checksum
from reconcile.core.model import Interval, Kind, Proof, Record, Unproved
from reconcile.core.records import PlanRecord, RangeRecord, range_key
from reconcile.core.work.entitlements.prove import prove

NOW = datetime(2026, 11, 29, tzinfo=UTC)
INTERVAL = Interval("entitlements", NOW, "2026-11-29")
PLAN = PlanRecord("p", INTERVAL.key, 0, "", 2, NOW, ranges=4, complete=True)


def good() -> list[RangeRecord]:
    bounds = [None, "b", "d", "f", None]
    return [
        RangeRecord(
            number=n + 1,
            desired=Checksum(2, n),
            observed=Checksum(2, n),
            lower=bounds[n],
            upper=bounds[n + 1],
        )
        for n in range(4)
    ]


class Records:
    """Serves ranges as a store does."""

    def __init__(self, ranges: list[RangeRecord]) -> None:
        self._records = [
            Record(Kind.RANGE, "entitlements", range_key("p", r.number), r.to_json(), 1, NOW)
            for r in ranges
        ]

    def scan(self, kind: Kind, job: str, *, prefix: str, after: str, limit: int) -> list[Record]:
        return [r for r in self._records if r.key > after][:limit]


def judged(ranges: list[RangeRecord]) -> Proof | Unproved:
    order: Any = SimpleNamespace(
        records=Records(ranges), interval=INTERVAL, record=SimpleNamespace(rerun=0)
    )
    return prove(order, PLAN)


def test_ranges_that_tile_and_agree_are_a_proof_with_both_sums() -> None:
    proof = judged(good())
    assert isinstance(proof, Proof)
    assert proof.desired == proof.observed == Checksum(8, 6)


@pytest.mark.parametrize("missing", range(4))
def test_a_resume_that_skipped_a_range_is_caught(missing: int) -> None:
    ranges = good()
    del ranges[missing]
    assert isinstance(judged(ranges), Unproved)


def test_ranges_whose_bounds_leave_a_gap_are_caught() -> None:
    ranges = good()
    ranges[2] = replace(ranges[2], lower="e")
    assert isinstance(judged(ranges), Unproved)


def test_a_range_that_was_planned_and_never_applied_is_caught() -> None:
    ranges = good()
    ranges[1] = replace(ranges[1], desired=Checksum(3, 1), grant=1)
    found = judged(ranges)
    assert isinstance(found, Unproved)
    assert "range 2" in found.reason


def test_a_range_that_was_applied_and_holds_something_else_is_caught() -> None:
    ranges = good()
    ranges[1] = replace(ranges[1], applied=Checksum(2, 99), grant=1)
    assert isinstance(judged(ranges), Unproved)


def test_quarantined_accounts_are_counted_and_prevent_completion() -> None:
    ranges = good()
    ranges[1] = replace(
        ranges[1],
        observed=Checksum(3, 5),
        left=Checksum(1, 4),
        quarantined={"c": "no number"},
    )
    found = judged(ranges)
    assert isinstance(found, Unproved)
    assert found.accounts == {"c": "no number"}
    assert "c (no number)" in found.reason


def test_no_ranges_at_all_prove_nothing() -> None:
    assert isinstance(judged([]), Unproved)
