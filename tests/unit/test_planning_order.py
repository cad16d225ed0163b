"""What holds newer intervals up, and times that no clock has shown."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from time import perf_counter

import pytest
from support.deciding import DAY, NIGHTLY, decided, due, job, record, skipped, utc

from reconcile.core.calendars import Dst
from reconcile.core.model import State, Trigger, instant_key
from reconcile.core.records import to_text
from reconcile.core.schedule import Schedule

NOW = "2026-11-30T12:00"
SINCE = "2026-11-27"
FAILED = record("2026-11-28T02:30", State.FAILED, reason="attempts", runs=5)
FAILURE = {"text": "x", "at": to_text(utc("2026-11-30T11:59"))}
RETRYING = record("2026-11-28T02:30", failure=FAILURE, attempts=1)
ASKS = record("2026-11-28T02:30", waiting={"hash": "x"})


class TestOnFailed:
    def test_by_default_newer_ones_go_on(self) -> None:
        for one in (RETRYING, ASKS, FAILED):
            found = decided(job(), one, now=NOW, since=SINCE, failed=FAILED)
            assert due(found) == ["2026-11-27", "2026-11-29", "2026-11-30"]
            assert found.blocked is None

    @pytest.mark.parametrize("one", [RETRYING, ASKS])
    def test_block_holds_newer_ones_while_an_older_one_is_unfinished(self, one: object) -> None:
        found = decided(job(on_failed="block"), one, now=NOW, since=SINCE)  # type: ignore[arg-type]
        assert due(found) == ["2026-11-27"]
        assert found.blocked is not None
        assert (len(found.blocked.held), found.blocked.failed) == (2, False)
        assert found.backlog == 4, "they are still owed"

    def test_block_holds_newer_ones_after_one_that_failed_for_good(self) -> None:
        found = decided(job(on_failed="block"), FAILED, now=NOW, since=SINCE, failed=FAILED)
        assert due(found) == ["2026-11-27"]
        assert found.blocked is not None
        assert (found.blocked.record.id, found.blocked.failed) == ("2026-11-28", True)

    def test_in_one_trigger_too(self) -> None:
        tried = [instant_key(utc("2026-11-28T02:30"))]
        found = decided(job(on_failed="block"), RETRYING, now=NOW, since=SINCE, tried=tried)
        assert due(found) == ["2026-11-27"]

    def test_what_was_begun_goes_on_and_comes_first(self) -> None:
        begun = record("2026-11-28T02:30")
        found = decided(job(on_failed="block"), begun, now=NOW, since=SINCE)
        assert due(found) == ["2026-11-28", "2026-11-27"]

    @pytest.mark.parametrize(
        "by_hand", [{"trigger": Trigger.MANUAL}, {"trigger": Trigger.RERUN, "rerun": 1}]
    )
    def test_what_a_person_began_holds_nothing_up(self, by_hand: dict[str, object]) -> None:
        one = replace(RETRYING, **by_hand)  # type: ignore[arg-type]
        found = decided(job(on_failed="block"), one, now=NOW, since=SINCE)
        assert due(found) == ["2026-11-27", "2026-11-29", "2026-11-30"]

    def test_skips_are_decided_all_the_same(self) -> None:
        one = job("latest", on_failed="block")
        found = decided(one, FAILED, now=NOW, since=SINCE, failed=FAILED)
        assert skipped(found) == [("2026-11-27", "superseded", 1), ("2026-11-29", "superseded", 1)]
        assert due(found) == []


class TestTimesLeftOut:
    BERLIN = Schedule("30 2 * * *", "Europe/Berlin", Dst("skip", "first"))

    def test_it_is_on_record_as_skipped_once(self) -> None:
        """In Berlin half past two was left out on 29 March 2026."""
        one = job()
        found = decided(one, now="2026-03-30T12:00", since="2026-03-28", schedule=self.BERLIN)
        assert due(found) == ["2026-03-28", "2026-03-30"]
        assert skipped(found) == [("2026-03-29", "dst_gap", 1)]
        known = record(found.skips[0].interval.scheduled_at, State.SKIPPED, reason="dst_gap")
        again = decided(one, known, now="2026-03-30T12:00", since="2026-03-28",
                        schedule=self.BERLIN)  # fmt: skip
        assert skipped(again) == []
        assert due(again) == ["2026-03-28", "2026-03-30"]

    @pytest.mark.parametrize("policy", ["all", "latest", "none"])
    def test_whatever_the_policy_its_cause_is_the_clock(self, policy: str) -> None:
        one = job(policy)
        found = decided(one, now="2026-06-30T12:00", since="2026-03-01", schedule=self.BERLIN)
        left_out = [found for found in found.skips if found.reason == "dst_gap"]
        assert [skip.interval.id for skip in left_out] == ["2026-03-29"]
        total = sum(skip.span for skip in found.skips) + found.backlog
        assert total == self.BERLIN.count(utc("2026-03-01"), utc("2026-06-30T12:00")) + 1

    def test_in_utc_there_are_none(self) -> None:
        assert not list(NIGHTLY.gaps(utc("1990-01-01"), utc("2040-01-01")))


def test_two_weeks_of_a_job_of_every_five_seconds_are_decided_as_a_few_spans() -> None:
    """242,000 instants, in bounded time and memory, and on record as one span each."""
    schedule = Schedule("*:*:0/5")
    since, now = "2026-11-16T12:00", "2026-11-30T12:00"
    total = 14 * 24 * 720 + 1
    for policy, eligible in (("all", 720 * 24 + 1), ("latest", 1)):
        one = job(policy, DAY, schedule="*:*:0/5")
        begun = perf_counter()
        tracemalloc.start()
        found = decided(one, now=now, since=since, schedule=schedule)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert perf_counter() - begun < 2
        assert peak < 2_000_000
        assert found.backlog == eligible
        assert sum(skip.span for skip in found.skips) == total - eligible
        assert len(found.skips) <= 2
