"""Rehearsals of holders that stop moving: one that is stopped, and one that makes no progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...checksum import Checksum, checksum
from ...errors import FencedOut, FenceIsHigher
from ...model import Append, Ending, Kind, PlanId, Proof
from ...rows import KeySpan, RangeChanges
from .findings import Broke, Finding, NotRehearsed, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...model import Fence, Lease
    from .rehearsal import Proved, Rehearsal
    from .stage import Actor

HEARD = 2
"""So many ranges are heard to be committed before the holder stops, with one more behind them."""
RANGES = 6
COMPLETED, FAILED, FENCED_OUT = 0, 1, 80
KILLED = -9
"""It was ended by the one that took over, as a stopped process that has a lock may be."""
LATE = 1 << 40
"""A sequence number above all that a run gets to."""
SLACK = 3.0
"""Seconds that a busy machine may take more for what should take none."""


def stalled(at: Rehearsal) -> tuple[Finding, list[Proved]]:
    """A holder is stopped until another has taken over, and then goes on.

    It is stopped when all is done but to complete the night. That is what it goes on with, unless
    its renewal wakes up first: of the writes of a run the one before which no clock is asked, so
    that the target's fence alone stands against it. The one that takes over is stopped too, right
    after it has raised the fence: there the target must refuse the old generation, and the old
    run must not be called closed yet. Further late writes, of each kind, are made by the drill,
    by the program's own code under the old holder's fence.
    """
    old = at.scene.start()
    at.hear(old, "range_committed", RANGES)
    at.until(lambda: at.interval().ranges_done == RANGES, "the last checkpoint")
    lease = _just_renewed(at)
    old.freeze()
    at.until(lambda: _is_over(at), "the end of the stopped holder's lease", _ttl(at) + SLACK)
    new = at.scene.start()
    at.hear(new, "lease_acquired")
    generation = lease.fence.generation
    at.until(lambda: at.fenced_at() > generation or new.ended() is not None, "a raised fence")
    runs = at.runs()
    if new.ended() is not None or len(runs) != 1 or runs[0].ending is not None:
        raise Broke(3, "the old run was closed before the target's fence was raised")
    if at.end(new) != COMPLETED:
        raise NotRehearsed(f"the run that took over did not complete: {new.last_words()}")
    runs = at.runs()
    if [run.ending for run in runs] != [Ending.ABANDONED, Ending.COMPLETED]:
        raise Broke(3, f"the runs ended as {', '.join(str(run.ending) for run in runs)}")
    before = at.everything()
    accepted, refused = _late_writes(at, lease)
    old.let_go()  # before it wakes, or its renewal would be the first to know
    old.thaw()
    code = at.end(old)
    newer = runs[1].generation
    if accepted:
        raise Broke(
            2, f"a write of generation {generation} was accepted after {newer}: {accepted[0]}"
        )
    if at.everything() != before:
        raise Broke(2, f"generation {generation}, woken, changed something after {newer}")
    if code not in {FENCED_OUT, KILLED}:
        raise Broke(2, f"the old holder, woken, ended with {code}: {old.last_words()}")
    tried = len(refused) + len(accepted)
    evidence = f"fenced before it was closed; {tried} late writes, {len(refused)} refused"
    figures = {
        "generation": generation,
        "newer": newer,
        "late_writes": tried,
        "refused": len(refused),
        "exit_of_the_old": code,
    }
    record = at.interval()
    return Finding("stalled holder", 2, Verdict.HOLDS, evidence, figures), [at.proved(record)]


def no_progress(at: Rehearsal) -> tuple[Finding, list[Proved]]:
    """A holder lives, and its work hangs: in a write that nobody reads.

    It must stop renewing at its progress deadline and end before its lease does; the next knock
    then takes over.
    """
    old = at.scene.start()
    lease = _working(at, old)
    begun = last = at.clock()
    deadline = at.script.progress_deadline.total_seconds()
    ends, ended_at = lease.expires_at, None
    while not _is_over(at):
        standing = at.store.lease(at.key)
        if standing is not None and standing.expires_at > ends:
            ends, last = standing.expires_at, at.clock()
        if ended_at is None and old.ended() is not None:
            ended_at = at.clock()
        if at.clock() - begun > deadline + _ttl(at) + SLACK:
            raise Broke(
                7,
                f"still renewed {last - begun:.1f} s after it moved last;"
                f" lease.progress_deadline is {deadline:.0f} s",
            )
        _pause(at)
    over = at.clock()
    if ended_at is None and old.ended() is None:
        raise Broke(8, f"it still lived when its lease was over, {over - begun:.1f} s on")
    if last == begun or old.ended() != FAILED:
        old.let_go()
        raise NotRehearsed(
            "it did not renew while it hung"
            if last == begun
            else f"it ended with {old.ended()}: {old.last_words()}"
        )
    next_one = at.scene.start()
    generation = lease.fence.generation
    at.until(lambda: _generation(at) > generation, "a takeover")
    taken = at.clock()
    if at.end(next_one) != COMPLETED:
        raise NotRehearsed(f"the run that took over did not complete: {next_one.last_words()}")
    stopped, took = last - begun, taken - begun
    evidence = f"renewal stopped at {stopped:.1f} s; taken over at {took:.1f} s"
    figures = {
        "progress_deadline_seconds": deadline,
        "last_renewal_seconds": round(stopped, 3),
        "ended_seconds": round((ended_at or over) - begun, 3),
        "lease_over_seconds": round(over - begun, 3),
        "taken_over_seconds": round(took, 3),
        "exit_of_the_old": old.ended(),
    }
    record = at.interval()
    return Finding("no progress", 7, Verdict.HOLDS, evidence, figures), [at.proved(record)]


# --- parts


def _working(at: Rehearsal, actor: Actor) -> Lease:
    """Have it stop in the write that comes after a commit; its lease."""
    at.hear(actor, "range_committed", HEARD)
    at.until(lambda: at.committed() == HEARD + 1, f"range {HEARD + 1} in the target")
    lease = at.store.lease(at.key)
    assert lease is not None, "it works under it"
    return lease


def _just_renewed(at: Rehearsal) -> Lease:
    """The lease, right after it was renewed for the second time from now: so its holder is
    stopped in no transaction of the store's, which would keep all others waiting."""
    seen: list[Lease] = []

    def twice() -> bool:
        lease = at.store.lease(at.key)
        if lease is not None and all(lease.expires_at != one.expires_at for one in seen):
            seen.append(lease)
        return len(seen) > 2

    at.until(twice, "a renewal")
    return seen[-1]


def _ttl(at: Rehearsal) -> float:
    return at.script.ttl.total_seconds()


def _is_over(at: Rehearsal) -> bool:
    lease = at.store.lease(at.key)
    return lease is None or not lease.live


def _generation(at: Rehearsal) -> int:
    lease = at.store.lease(at.key)
    return 0 if lease is None else lease.fence.generation


def _pause(at: Rehearsal) -> None:
    looked: list[bool] = []

    def second() -> bool:
        looked.append(True)
        return len(looked) > 1

    at.until(second, "a moment")


def _late_writes(at: Rehearsal, lease: Lease) -> tuple[list[str], list[str]]:
    """Try each write under an old fence; names of those that were accepted, and refused."""
    accepted: list[str] = []
    refused: list[str] = []
    for name, write in _writes(at, lease.fence).items():
        try:
            write()
        except (FencedOut, FenceIsHigher):
            refused.append(name)
        else:
            accepted.append(name)
    return accepted, refused


def _writes(at: Rehearsal, fence: Fence) -> Mapping[str, Callable[[], object]]:
    record = at.interval()
    interval = record.interval(at.script.job)
    target = at.scene.target()
    every = KeySpan()

    def commit() -> None:
        target.schema()
        held = checksum(target.lines(every))
        plan = PlanId("late")
        part = RangeChanges(at.script.job, interval.id, 0, plan, 1, every, (), held)
        target.commit(fence, part, at.clock() + _ttl(at))

    def complete() -> None:
        held = record.checksum or Checksum()
        target.complete(fence, Proof(interval, record.rerun, held, held))

    event = Append(Kind.EVENT, at.script.job, interval.key, {"kind": "late"})
    return {
        "a range into the target": commit,
        "a completion into the target": complete,
        "a fence into the target": lambda: target.raise_fence(
            fence, at.store.facts().id, at.script.ttl
        ),
        "a checkpoint into the store": lambda: at.store.commit(fence, LATE, [event]),
        "a renewal": lambda: at.store.renew(fence, LATE),
        "a release": lambda: at.store.release(fence, LATE + 1, None),
    }
