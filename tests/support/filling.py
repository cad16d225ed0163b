"""People who ask a `Life` for backfills, and what each of them must come to.

A backfill intends the scheduled instants within its inclusive bounds. What it *owes* is known when
it is asked for: those before the job's start that nobody has worked, and those that have ended
without being completed; with `rerun_completed` the completed ones too. What is unfinished then,
or due anyway, is left to the job's triggers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from reconcile.core.backfills import BackfillRecord
from reconcile.core.errors import OldOverNew, UsageError
from reconcile.core.model import Kind, State, instant_key
from reconcile.core.operations.application import Application, BackfillRequest
from reconcile.core.operations.backfill import asking, waiting
from reconcile.core.records import IntervalRecord

from .backfills import most_in
from .lives import ATTEMPTS, DAY, HOUR, START, Life, Worked
from .sides import JOB

RATES = [None, "0", "2/h", "20/h"]


@dataclass
class Asked:
    """One backfill, as it was asked for."""

    number: int
    request: BackfillRequest
    at: datetime
    instants: list[datetime]
    owed: set[datetime] = field(default_factory=set)
    standing: set[datetime] = field(default_factory=set)
    """Completed when it was asked for."""
    opened: set[datetime] = field(default_factory=set)
    cancels: bool = False
    """Whether somebody has asked for its end."""
    promised: bool = False
    """Whether he was told that it would end."""


class Filling:
    """The backfills of a life, asked for at random."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self.asked: list[Asked] = []
        self.rate: str | None = None
        """Of the one that runs; `0` holds it up."""
        self._knock = life.knock
        life.knock = self.knock  # type: ignore[method-assign]
        life.more = {
            self.ask: 4, self.stay: 2, self.ask_again: 3, self.change: 4, self.cancel: 2,
        }  # fmt: skip

    # --- what people do

    def ask(self) -> None:
        """And leave it to triggers."""
        if (chosen := self._chosen()) is not None:
            self._ask(*chosen)

    def stay(self) -> None:
        """Ask for one, or for the one that runs, and stay until it is over, which works it while
        the job is paused, too."""
        runs, life = self.running, self._life
        chosen = self._chosen() if runs is None else (runs.request, runs.instants)
        if chosen is None:
            return
        rate = self.rate if runs is not None else None
        rate = rate if chosen[0].rate is None else chosen[0].rate
        begins, process = life.now, life.started + 1
        if self._ask(*chosen, stays=True) is None and life.started < process:
            return
        assert life.started == process
        own = len(self.asked)
        worked = [
            (at, one) for at, works in life.works.items() for one in works if one.process == process
        ]
        starts = [one.at for _, one in worked if (one.what, one.backfill) == ("begun", own)]
        if rate is not None:
            most = int(rate.removesuffix("/h"))
            assert most_in(HOUR, starts) <= most, "it waits for its rate"
        pauses = [one for one in life.pauses if one.at <= begins and one.lasts(life.now)]
        if pauses:
            assert {one.backfill for _, one in worked} <= {own}, "the job is paused"
            life.seen["stayed in a pause"] += bool(worked)
        life.seen["stayed"] += bool(starts)

    def _chosen(self) -> tuple[BackfillRequest, list[datetime]] | None:
        life, rng = self._life, self._life.rng
        if not life.versions:
            return None
        days = rng.choice([2, 2, 40]) * DAY
        end = rng.choice([START + DAY, life.now])
        found = [*life.scheduled(end - days, min(end, life.now))]
        if not found:
            return None
        first = rng.randrange(len(found))
        last = min(len(found) - 1, first + (rng.randrange(10) if days < 3 * DAY else 120))
        request = BackfillRequest(
            JOB, spelled(found[first]), spelled(found[last]), rng.choice(RATES),
            rng.random() < 0.3, "alice", f"OPS-{len(life.works)}",
        )  # fmt: skip
        return request, found[first : last + 1]

    def ask_again(self) -> None:
        """The very same words, as a client does that has lost its answer."""
        if self.asked:
            newest, was_over = self.asked[-1], self.running is None
            report = self._ask(newest.request, newest.instants)
            if report is None:
                return
            completes = newest.request.rerun_completed
            if was_over and completes and not self.stored(newest.number).cancelled:
                assert report.did == "finished_before"
            assert was_over or (report.did == "goes_on" and self.asked[-1] is newest)
            self._life.seen[f"again: {report.did}"] += 1

    def _ask(
        self, request: BackfillRequest, instants: list[datetime], *, stays: bool = False
    ) -> Any:
        life, before = self._life, self.running
        wanted = self._as_it_stands(request, instants)

        def ask(app: Application) -> Any:
            with closing(app.open_store()) as store:
                report = asking.ask(app, store, request)
                if stays and report.did == "goes_on":
                    waiting.wait_for(app, store, report)
                return report

        another = before is not None and span_of(request) != span_of(before.request)
        try:
            within = 600 if stays else 60
            report = life.call(ask, dies=life.rng.random() < 0.3, within=within)
        except (UsageError, OldOverNew) as error:
            if isinstance(error, OldOverNew):
                assert life.truth == "one"
            elif life.truth != "live":
                assert before is not None
                assert another or before.cancels
            assert self.numbers() == [one.number for one in self.asked], "it was refused"
            raise
        assert report is None or not another, "one at a time"
        if len(self.numbers()) > len(self.asked):
            assert before is None
            self.asked.append(wanted)
        if report is None or report.did == "goes_on":
            self._set_rate(request.rate, certain=report is not None and request.rate is not None)
        assert self.numbers() == [one.number for one in self.asked], "asked for once"
        return report

    def change(self) -> None:
        life = self._life
        rate = life.rng.choice(RATES[1:])
        self._say(asking.change, rate, "changed")

    def _say(self, act: Callable[..., Any], rate: str | None, did: str) -> None:
        life, runs = self._life, self.running
        if runs is None:
            return
        request = BackfillRequest(JOB, rate=rate, actor="bob", reason="OPS-2")

        def said(app: Application) -> Any:
            with closing(app.open_store()) as store:
                return act(app, store, request)

        report = life.call(said, dies=life.rng.random() < 0.3)
        if report is None or report.did == did:
            self._set_rate(rate, certain=report is not None)

    def cancel(self) -> None:
        life, runs = self._life, self.running
        if runs is None:
            return
        request = BackfillRequest(JOB, actor="bob", reason="OPS-3")
        runs.cancels = True
        report = life.call(lambda app: asking.cancel(app, request), dies=life.rng.random() < 0.3)
        runs.promised |= report is not None
        if report is None and not (self.said or {}).get("cancelled"):
            runs.cancels = self.stored(runs.number).cancelled

    def knock(self) -> None:
        """As any; but while the rate is 0 nothing of the one that runs is worked, and else no more
        than it lets begin."""
        life, runs = self._life, self.running
        before = self._begun(runs)
        self._knock()
        begun = self._begun(runs)
        if runs is None or len(begun) == len(before):
            return
        assert not runs.promised or not (self.said or {}).get("cancelled"), "it is over"
        assert self.rate != "0", "it was held up"
        if self.rate is not None:
            most = int(self.rate.removesuffix("/h"))
            assert len(begun) - len(before) <= most, "the rate lets no more begin at once"
        life.seen["backfilled"] += 1

    # --- how it stands

    @property
    def said(self) -> dict[str, Any] | None:
        found = self._life.store.get(Kind.JOB, JOB, "")
        return None if found is None else found.value.get("backfill")  # type: ignore[return-value]

    @property
    def running(self) -> Asked | None:
        said = self.said
        if said is None:
            return None
        assert said["number"] == len(self.asked)
        return self.asked[-1]

    def numbers(self) -> list[int]:
        return [
            int(one.key) for one in self._life.store.scan(Kind.BACKFILL, JOB) if one.key.isdigit()
        ]

    def stored(self, number: int) -> BackfillRecord:
        found = self._life.store.get(Kind.BACKFILL, JOB, f"{number:06d}")
        assert found is not None
        return BackfillRecord.from_json(found.value)

    def _set_rate(self, rate: str | None, *, certain: bool) -> None:
        """A killed act was done, or it was not; else it was."""
        said = self.said
        if said is None:
            return
        shown = "0" if said.get("paused") else said.get("rate")
        assert not certain or shown == (None if rate is None else rate)
        self.rate = shown

    def _begun(self, runs: Asked | None) -> list[datetime]:
        if runs is None:
            return []
        works = [one for at in runs.instants for one in self._life.works.get(at, ())]
        return [one.at for one in works if (one.what, one.backfill) == ("begun", runs.number)]

    def _as_it_stands(self, request: BackfillRequest, instants: list[datetime]) -> Asked:
        asked = Asked(len(self.asked) + 1, request, self._life.now, instants)
        for at in instants:
            record = self._record(at)
            if record is None:
                if at < START:
                    asked.owed.add(at)
            elif not record.state.is_final:
                asked.opened.add(at)
            elif record.state is not State.COMPLETED:
                asked.owed.add(at)
            else:
                asked.standing.add(at)
                if request.rerun_completed:
                    asked.owed.add(at)
        return asked

    def _record(self, at: datetime) -> IntervalRecord | None:
        """The record of an instant, or of the span that it lies in."""
        found = self._life.store.scan(
            Kind.INTERVAL, JOB, before=f"{instant_key(at)}~", limit=1, newest_first=True
        )
        if not found:
            return None
        record = IntervalRecord.from_json(found[0].value)
        return record if at <= (record.until_at or record.scheduled_at) else None

    # --- what it must come to

    def settle(self) -> None:
        """The one that runs is let go on; triggers come until it is over."""
        life = self._life
        life.trouble = False
        while (runs := self.running) is not None and not runs.cancels and self.rate != "20/h":
            self._say(asking.change, "20/h", "changed")
        for _ in range(100):
            life.settle()
            if self.running is None:
                return
        raise AssertionError("a backfill is never over")

    def past(self) -> set[datetime]:
        """What was intended by backfills alone."""
        return {at for one in self.asked for at in one.instants if at < START}

    def given_up(self, at: datetime) -> bool:
        return any(one.cancels and at in one.instants for one in self.asked)

    def check(self) -> None:
        """Each backfill did what it owed, and nothing twice."""
        life = self._life
        for asked in self.asked:
            record = self.stored(asked.number)
            assert record.ended_at is not None
            assert record.next_at is None
            assert (record.first_at, record.last_at) == (asked.instants[0], asked.instants[-1])
            counts = record.total, record.standing, record.opened
            assert counts == (len(asked.instants), len(asked.standing), len(asked.opened))
            assert record.cancelled <= asked.cancels
            assert record.cancelled or not asked.promised
            for at in asked.instants:
                own = [one for one in life.works.get(at, ()) if one.backfill == asked.number]
                assert len({one.rerun for one in own}) <= 1, f"{at} was begun anew"
                touched = at in life.touched
                if at in asked.owed and not record.cancelled:
                    done = own or touched or life.is_overtaken(at, record.ended_at)
                    assert done, f"{at} was left out of #{asked.number}"
                if at in asked.standing - asked.owed:
                    assert not own or touched, f"{at} was completed before #{asked.number}"
                    if not record.cancelled:
                        life.seen["left alone"] += 1
            life.seen["cancelled" if record.cancelled else "filled in"] += 1
        for at, works in life.works.items():
            given_up = at not in life.touched and begun_when_given_up(works, life.died)
            assert not given_up, f"{at} was begun although its attempts were used up"
            done: dict[int, int] = {}
            for one in works:
                if one.what == "done":
                    done[one.rerun] = one.process
                elif one.rerun in done:
                    assert done[one.rerun] in life.died, f"{at} was worked twice"


def begun_when_given_up(works: list[Worked], died: set[int]) -> bool:
    """Whether a pass goes on in which all attempts since a checkpoint have failed. Of a failure
    that killed its process, nobody may know."""
    for _, of_pass in groupby(works, key=lambda one: one.rerun):
        failed = 0
        for one in of_pass:
            if one.what == "begun" and failed >= ATTEMPTS:
                return True
            if one.what == "saved":
                failed = 0
            failed += one.what == "failed" and one.process not in died
    return False


def spelled(at: datetime) -> str:
    """The id of an instant, in UTC."""
    return at.strftime("%Y-%m-%dT%H:%MZ")


def span_of(request: BackfillRequest) -> tuple[str | None, str | None, bool]:
    """What tells one backfill from another; the rate of the one that runs may be changed."""
    return request.first, request.last, request.rerun_completed
