"""Rehearsals of one holder: many knocks at once, and a kill between two commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...model import RunId
from .findings import Broke, Finding, NotRehearsed, Verdict
from .scratch import CHANGES_PER_RANGE

if TYPE_CHECKING:
    from .rehearsal import Proved, Rehearsal

CROWD = 20
AFTER = 17
RANGES = 24
COMPLETED, BUSY, KILLED = 0, 75, -9


def one_holder(at: Rehearsal) -> tuple[Finding, list[Proved]]:
    """Twenty processes are started together, and one of them works.

    Whoever has the lease stops in the write of its second line, until the others have ended; so
    that none of them comes so late that nothing is due any more.
    """
    before = _first_generation(at)
    actors = [at.scene.start() for _ in range(CROWD)]

    def holder() -> int | None:
        lease = at.store.lease(at.key)
        if lease is not None and lease.live:
            return lease.holder.pid
        if all(one.ended() is not None for one in actors):
            raise NotRehearsed(f"none was granted the lease: {actors[0].last_words()}")
        return None

    pid = at.until(holder, "a lease")
    first = next((one for one in actors if one.pid == pid), None)
    if first is None:
        raise NotRehearsed(f"pid {pid} has the lease, which is none of those started")
    others = [one for one in actors if one is not first]
    for one in others:
        one.let_go()
    codes = [at.end(one) for one in others]
    codes.append(at.end(first))
    worked, busy = codes.count(COMPLETED), codes.count(BUSY)
    lease = at.store.lease(at.key)
    assert lease is not None, "it was granted"
    runs, granted = at.runs(), lease.fence.generation - before
    evidence = (
        f"{CROWD} started together: {worked} worked, {busy} said {BUSY},"
        f" {granted} generation{'s' * (granted != 1)}"
    )
    figures = {
        "started": CROWD,
        "worked": worked,
        "busy": busy,
        "generations": granted,
        "runs": len(runs),
    }
    if worked > 1 or granted > 1 or len(runs) > 1:
        raise Broke(1, f"{evidence}, {len(runs)} runs")
    odd = sorted(set(codes) - {COMPLETED, BUSY})
    if odd or worked != 1:
        words = next((one.last_words() for one in actors if one.ended() in odd), "")
        raise NotRehearsed(f"{evidence}; {CROWD - worked - busy} ended otherwise: {odd} {words}")
    found = Finding("one holder", 1, Verdict.HOLDS, evidence, figures)
    return found, [at.proved(at.interval())]


def _first_generation(at: Rehearsal) -> int:
    """That of a grant of our own, given back at once, so that all later ones can be counted."""
    run = RunId(at.runtime.entropy.token())
    holder = at.runtime.host.holder()
    lease = at.store.acquire(at.key, run, holder, at.script.ttl, interval="")
    at.store.release(lease.fence, 1, None)
    return lease.fence.generation


def killed(at: Rehearsal) -> tuple[Finding, list[Proved]]:
    """A process is killed with range 18 in the target and its checkpoint not in the store: of all
    instants after range 17 the one at which most could be done twice.

    It is exact: once the line of range 17's commit is read, the process saves that checkpoint,
    commits range 18 and stops in the write that says so.
    """
    first = at.scene.start()
    at.hear(first, "range_committed", AFTER)
    at.until(lambda: at.committed() == AFTER + 1, f"range {AFTER + 1} in the target")
    record = at.interval()
    if record.ranges_done != AFTER:
        raise NotRehearsed(
            f"the store says {record.ranges_done} ranges, and the target {AFTER + 1}"
        )
    first.kill()
    if first.ended() != KILLED:
        raise NotRehearsed(f"it ended with {first.ended()} before it was killed")
    second = at.scene.start()
    code = at.end(second)
    record = at.interval()
    runs = at.runs()
    if code != COMPLETED or len(runs) != 2 or record.ranges_total is None:
        raise Broke(4, f"the next run ended with {code}: {second.last_words()}")
    resumed = runs[1].first_range or 0
    own = at.scene.ask(f"SELECT count(*) FROM reconcile_ranges WHERE run_id = '{runs[1].run_id}'")[
        0
    ][0]
    steps = list(second.steps)
    twice = steps.count("range_planned") + steps.count("range_committed") - own
    logged, single = at.scene.ask(
        'SELECT count(*), count(DISTINCT action || "key") FROM reconcile_changes'
    )[0]
    evidence = (
        f"resumed at {resumed}; {twice} range{'s' * (twice != 1)} read twice,"
        f" {logged - single} changes twice"
    )
    figures = {
        "killed_after": AFTER,
        "resumed_at": resumed,
        "ranges": record.ranges_total,
        "ranges_twice": twice,
        "changes": logged,
        "changes_twice": logged - single,
    }
    right = sorted(at.script.source) == sorted(at.table())
    if not right or logged != single or logged != RANGES * CHANGES_PER_RANGE:
        raise Broke(
            4, f"{evidence}; {logged} changes logged, and {RANGES * CHANGES_PER_RANGE} were"
        )
    if resumed != AFTER + 1 or twice > 1:
        raise Broke(4, evidence)
    name = f"killed at range {AFTER}"
    return Finding(name, 4, Verdict.HOLDS, evidence, figures), [at.proved(record)]
