"""`drill`: what the promises say is tried out, on the user's own store, with real processes.

Each rehearsal has a scratch job (`area`), a scratch source and target in a folder that goes
away, and processes that are the real `reconcile run`: killed, stopped and started together.
What they print and promise is not believed. The evidence is what the store's records and plain
SQL in the target say afterwards, and what a clock here measured.

How a process is caught at an exact point. No hook of the program is used, and no sleep. It
runs with `-v`, which prints each step once that is done, into a pipe with room for one line
(`stage`). A process whose second line is not read stops in that write: between two steps, with
no transaction open. So "after range 17" is not a race: the drill reads line 17, looks until
the target has what comes next, and knows that nothing more will happen until it reads on, kills
or stops the process. The same write that nobody reads is how work hangs in `no_progress`.

The rehearsals go on at the same time, in three rows; in each of the first two a lease has to
run out, so that the third has the processor meanwhile. One that cannot be brought to where its
promise is at stake has not shown that it holds: it is *not rehearsed*, and the drill fails.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ...errors import ConfigError, ReconcileError
from .area import Area
from .findings import CUT_OFF, Broke, DrillReport, Finding, Interrupted, NotRehearsed, Verdict
from .holders import RANGES as MANY
from .holders import killed, one_holder
from .nights import MISSED, WHOLE, half_a_source, missed
from .recount import proof
from .rehearsal import Rehearsal
from .scratch import ACCOUNTS, HASTY, SEATS, STILL, script
from .stalls import RANGES as FEW
from .stalls import no_progress, stalled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ..application import Application
    from .rehearsal import Proved
    from .stage import Script, Stage

__all__ = ["NAMES", "drill"]


class Part(NamedTuple):
    """A rehearsal before it begins: what it is called, the promise it is about, its script."""

    name: str
    promise: int
    rehearse: Callable[[Rehearsal], tuple[Finding, list[Proved]]]
    script: Script


NAMES = (
    "one holder",
    "killed at range 17",
    "stalled holder",
    "no progress",
    "three nights down",
    "half a source",
    "proof",
)
"""All rehearsals, in the order in which they are told."""

MOST_SECONDS = 60.0
"""A drill takes less than half of that, unless something hangs, or the machine is very busy."""


def drill(
    app: Application,
    stage: Stage,
    only: Sequence[str] = NAMES,
    begins: Callable[[], None] = lambda: None,
) -> DrillReport:
    """Rehearse on the configured store, and leave nothing behind but released generations.

    `only` names the rehearsals; of the proof, one that completes a night has to be among them.
    `begins` is called once the scratch area is taken.
    Raises `DrillBusy`, `ConfigError` for a store in memory, errors of the store, and
    `Interrupted` when a signal came, with what could then not be removed. The scratch area is
    cleared in any case.
    """
    begun = app.runtime.clock.boot()
    if app.config.store.url.startswith("memory:"):
        raise ConfigError(
            "a store in memory is of one process alone, so there is nothing to rehearse",
            hint='write another url in [store], or name one: --store "sqlite:////path"',
        )
    with closing(app.open_store()) as store:
        facts = store.facts()
        area = Area.take(app, store)
        findings: list[Finding] = []
        leftovers, interrupted = 0, False
        try:
            begins()
            leftovers = area.clear()
            with stage:
                findings = _rehearse(app, stage, facts.now, only)
        except Interrupted:
            interrupted = True
        finally:
            left = _cleared(area)
    if interrupted:
        raise Interrupted(left or "")
    seconds = app.runtime.clock.boot() - begun
    return DrillReport(facts.location, findings, seconds, left, leftovers)


def _cleared(area: Area) -> str | None:
    """Remove all, and let others drill; what could not be done, None where all was."""
    try:
        area.clear()
        again = area.clear()
        area.give_back()
    except ReconcileError as error:
        return str(error)
    return f"{again} records came back" if again else None


def _rows(now: datetime) -> list[list[Part]]:
    """What goes on at the same time, a row for each thread."""
    half = script("half", now, WHOLE // ACCOUNTS)
    whole = [row for row in half.target if row[1] == SEATS]
    half = half._replace(source=whole[: WHOLE // 2], target=whole, range_size=WHOLE // 4)
    still = script("still", now, FEW, ttl=HASTY, progress_deadline=STILL)
    return [
        [Part("no progress", 7, no_progress, still)],
        [Part("stalled holder", 2, stalled, script("stalled", now, FEW, ttl=HASTY))],
        [
            Part("killed at range 17", 4, killed, script("killed", now, MANY)),
            Part("three nights down", 5, missed, script("nights", now, 2, nights=MISSED)),
            Part("half a source", CUT_OFF, half_a_source, half),
            Part("one holder", 1, one_holder, script("crowd", now, FEW)),
        ],
    ]


def _rehearse(app: Application, stage: Stage, now: datetime, only: Sequence[str]) -> list[Finding]:
    findings: list[Finding] = []
    nights: list[Proved] = []

    ends = app.runtime.clock.boot() + MOST_SECONDS

    def play(row: list[Part]) -> None:
        # Each thread has a connection of its own.
        with closing(app.open_store()) as store:
            for one in row:
                made: list[Proved] = []

                def rehearse(one: Part = one, made: list[Proved] = made) -> Finding:
                    at = Rehearsal(app.runtime, store, stage, one.script, now, ends)
                    found, proved = one.rehearse(at)
                    made += proved
                    return found

                findings.append(_judged(one.name, one.promise, rehearse))
                nights.extend(made)

    rows = [[one for one in row if one.name in only] for row in _rows(now)]
    with ThreadPoolExecutor(max(1, len(rows))) as pool:
        for done in [pool.submit(play, row) for row in rows if row]:
            done.result()
    if "proof" in only:
        findings.append(_judged("proof", 6, lambda: proof(nights)))
    return sorted(findings, key=lambda one: NAMES.index(one.name))


def _judged(name: str, promise: int, rehearse: Callable[[], Finding]) -> Finding:
    try:
        return rehearse()
    except Broke as broke:
        return Finding(name, broke.promise, Verdict.FAILED, str(broke))
    except NotRehearsed as other:
        return Finding(name, promise, Verdict.NOT_REHEARSED, str(other))
    except ReconcileError as error:
        return Finding(name, promise, Verdict.NOT_REHEARSED, str(error))
