"""A plain account of what was promised, kept beside stores and targets and held against every
request that they accept or refuse.

It shares no rule with the core: sums are recounted, ranges are looked at in the table itself,
and what a store or a target may accept follows from the grants alone. What it knows of a
store or a target goes back with it when a copy is put in its place (`StoreStory`,
`TargetStory`); what has happened in the world does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from reconcile.core.model import Ending, Fence, Kind, Put, State
from reconcile.core.records import IntervalRecord, PlanRecord, RangeRecord, RunRecord
from reconcile.core.rows import KeySpan
from reconcile.core.work.entitlements.compare import unpack

from .sides import JOB, Table, inside, recount
from .signatures import Signatures, events_of

MAX_REVOKE, MAX_REVOKE_MIN = 0.10, 2
"""The guard that all jobs of these tests have."""


@dataclass
class StoreStory:
    """What one store has accepted. `ends` is the boot time at which the lease expires."""

    newest: Fence | None = None
    holder: str = ""
    ends: float = 0.0
    released: bool = False
    applied: int = 0
    plans: dict[str, PlanRecord] = field(default_factory=dict)
    planned: dict[tuple[str, int], tuple[KeySpan, Table]] = field(default_factory=dict)
    bases: dict[tuple[str, int], int] = field(default_factory=dict)
    revoked: dict[tuple[str, int], int] = field(default_factory=dict)
    approved: dict[str, set[Any]] = field(default_factory=dict)
    reruns: dict[str, int] = field(default_factory=dict)
    touched: set[tuple[str, int]] = field(default_factory=set)


@dataclass
class TargetStory:
    """What one target has accepted. `log` is the length of its change log."""

    fence: Fence | None = None
    log: int = 0
    committed: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    held: dict[tuple[str, KeySpan], Table] = field(default_factory=dict)
    revoked: dict[tuple[str, int], int] = field(default_factory=dict)
    completed: tuple[str, int] | None = None
    touched: set[tuple[str, int]] = field(default_factory=set)


class Promises(Signatures):
    """Carries out requests and checks what they did. `world` is what they happen in."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self.store = StoreStory()
        self.target = TargetStory()
        self.raised: dict[str, int] = {}
        """By run id: the generation that a target was fenced at."""
        self.fences: list[Fence] = []
        self.proved: set[tuple[str, int, str]] = set()
        self.fingerprints: dict[str, str] = {}
        """By plan id: of which truth it is."""
        self.ever_committed: set[tuple[str, KeySpan]] = set()
        self.writes: list[str] = []
        """Who changed the target's table: the key of an interval, or "somebody"."""
        self.begun: dict[str, int] = {}
        """By plan id: how many such writes there were before it."""
        self.cuts = 0
        """How often a source said something that cannot be true."""

    # --- stores

    def ask_store(self, do: Callable[[], Any], name: str, args: Any, process: Any) -> Any:
        """One request to a store; what it answers or raises."""
        before = {}
        if name in ("commit", "note"):
            before = self._standing(args[-1])
            self._note_plans(args[-1], process)
        answer = do()
        check = getattr(self, f"_store_{name}", None)
        if check is not None:
            check(answer, *args, before=before, process=process)
        return answer

    def _note_plans(self, writes: Any, process: Any) -> None:
        for write in writes:
            if isinstance(write, Put) and write.kind is Kind.PLAN:
                self.fingerprints[write.key] = str(write.value["fingerprint"])
                self.begun.setdefault(write.key, process.looked_at)

    def _standing(self, writes: Any) -> dict[Any, Any]:
        peek = self.world.store.peek()
        found = {}
        for write in writes:
            if isinstance(write, Put) and write.kind in (Kind.INTERVAL, Kind.RUN):
                found[write.kind, write.key] = peek.get(write.kind, JOB, write.key)
        return found

    def _store_acquire(self, lease: Any, call: Any, *, before: Any, process: Any) -> None:
        story, now = self.store, self.world.boot
        if lease.fence == story.newest:
            return  # asked again, or late
        assert lease.fence.run == call["run"]
        if story.newest is not None:
            assert lease.fence.generation > story.newest.generation, "promise 1: it grows"
            live = not story.released and now < story.ends
            assert not live or call["replaces"] == story.newest.run, "promise 1: one holder"
            if live and story.holder != call["holder"].token:
                forced = self._is_forced(lease.previous, process)
                assert forced or self.world.is_dead(story.holder), "promise 1: only the dead"
        story.newest, story.holder = lease.fence, call["holder"].token
        story.ends = now + call["ttl"].total_seconds()
        story.released, story.applied = False, 0
        self.fences.append(lease.fence)

    def _store_renew(self, lease: Any, fence: Fence, *_: Any, before: Any, process: Any) -> None:
        assert fence == self.store.newest, "promise 2: renewed by an old fence"
        assert not self.store.released
        self.store.ends = self.world.boot + lease.ttl.total_seconds()

    def _store_release(
        self, _: Any, fence: Fence, seq: int, seen: int | None, *, before: Any, process: Any
    ) -> None:
        process.released_unseen = seen is None
        assert fence == self.store.newest, "promise 2: released by an old fence"
        if seq > self.store.applied:
            self.store.released = True

    def _store_commit(
        self, applied: bool, fence: Fence, seq: int, writes: Any, *, before: Any, process: Any
    ) -> None:
        story = self.store
        assert fence == story.newest, "promise 2: written by an old fence"
        if not applied:
            assert seq <= story.applied
            return
        assert not story.released
        assert seq > story.applied, "promise 2: a late or doubled write was applied again"
        story.applied = seq
        self._written(writes, before, process)

    def _store_note(self, _: Any, writes: Any, *, before: Any, process: Any) -> None:
        assert process.by_hand, "promise 2: a trigger wrote without a fence"
        self._note_is_signed(writes)
        self._written(writes, before, process)

    def _written(self, writes: Any, before: Any, process: Any) -> None:
        for write in writes:
            if not isinstance(write, Put):
                continue
            standing = before.get((write.kind, write.key))
            if write.kind is Kind.RUN:
                self._run(RunRecord.from_json(write.value), standing)
            elif write.kind is Kind.INTERVAL:
                record = IntervalRecord.from_json(write.value)
                self._signed(record, standing, events_of(write.key, writes), before)
                self._interval(write, record, standing)
            elif write.kind is Kind.PLAN:
                self._plan(PlanRecord.from_json(write.value), before)
            elif write.kind is Kind.RANGE:
                plan, _, _ = write.key.partition("/")
                self._range(plan, RangeRecord.from_json(write.value), process)

    def _run(self, run: RunRecord, standing: Any) -> None:
        if standing is not None:
            was = RunRecord.from_json(standing.value)
            assert was.run_id == run.run_id, "a run's number is given once"
            if was.ending is not None:
                # It may only be told what it, or one before it, was killed before it could tell.
                counted = replace(was, revoked=run.revoked, revoked_at=run.revoked_at)
                assert run == counted, "a run is closed once"
                return
        if run.ending in (Ending.ABANDONED, Ending.FENCED_OUT):
            self.seen.add(run.ending)
            above = max(self.raised.values(), default=0)
            assert above > run.generation, "promise 3: closed before the target was fenced"
        elif run.ending is None:
            assert self.raised.get(run.run_id) == run.generation, "promise 3: fence first"

    def _interval(self, write: Put, record: IntervalRecord, standing: Any) -> None:
        was = IntervalRecord.from_json(standing.value) if standing is not None else None
        if was is not None and was.state.is_final:
            taken_back = record.reason == "recovered" or record.state is State.PENDING
            reopened = was.state is State.FAILED and record.state is State.UNFINISHED
            new = record.rerun > max(was.rerun, self.store.reruns.get(write.key, 0))
            by = {"signed_off": record.signed_off, "repair_owner": record.repair_owner}
            signed = not was.is_signed and record == replace(was, **by)
            assert new or taken_back or reopened or signed, "promise 5: a final state was left"
        last = self.store.reruns.get(write.key, 0)
        self.store.reruns[write.key] = max(last, record.rerun)
        if record.reason == "operator":
            which = (record.id, record.rerun)
            applied = which in self.store.touched & self.target.touched
            assert not applied, "promise 5: skipped, and something was applied"
        if was is not None and record.state is State.PENDING:
            # Worked under a clock that was ahead: it begins anew, and so does its allowance.
            self.store.revoked.pop((write.key, record.rerun), None)
            self.store.bases.pop((write.key, record.rerun), None)
        if record.approval and (was is None or was.approval != record.approval):
            # Who approves is shown what was applied already, too.
            self.store.approved[record.id] = self._waiting_changes(record)
            self.store.revoked[write.key, record.rerun] = 0
        if record.reason == "attempts":
            assert self.cuts >= 5, "promise 5: given up, and only surroundings were at fault"
        if record.state is not State.COMPLETED:
            return
        self.seen.add(f"completed {record.reason or 'by proof'}")
        if was is not None and was.earlier is not None and was.rerun != record.rerun:
            return  # the rerun was given up: the earlier completion stands again
        if record.reason != "recovered":
            done = (record.id, record.rerun, str(record.checksum))
            assert done in self.proved, "promise 6: completed without proof in the target"

    def _waiting_changes(self, record: IntervalRecord) -> set[Any]:
        """What was approved: the changes of the plan that the interval waits with."""
        assert record.cursor is not None
        prefix = f"{record.cursor['plan']}/"
        found = self.world.store.peek().scan(Kind.CHANGES, JOB, prefix=prefix)
        self.seen.add("approved")
        return {change for stored in found for change in unpack(stored.blob)}

    def _plan(self, plan: PlanRecord, before: Any) -> None:
        """Promise 4: what is planned is not planned again while it holds."""
        story = self.store
        if plan.id not in story.plans:
            same = (plan.interval, plan.rerun, plan.fingerprint)
            stands = any(
                (p.interval, p.rerun, p.fingerprint) == same
                and set(self.writes[self.begun[p.id] :]) <= {plan.interval}
                for p in story.plans.values()
            )
            interval = before.get((Kind.INTERVAL, plan.interval))
            cursor = interval.value.get("cursor") if interval is not None else None
            holds = cursor and "void" not in cursor and cursor.get("plan") in story.plans
            assert not (stands and holds), "promise 4: planned again from the start"
        story.plans[plan.id] = plan

    def _range(self, plan: str, found: RangeRecord, process: Any) -> None:
        story = self.store
        key, span = (plan, found.number), KeySpan(found.lower, found.upper)
        if found.applied is not None:
            held = self.target.held.get((plan, span))
            assert held is None or str(found.applied) == recount(held), "promise 6: what it holds"
            return
        assert key not in story.planned, "promise 4: a range was planned again"
        looked = process.looked[span.lower, span.upper]
        desired = inside(self.world.truth(story.plans[plan].fingerprint), span)
        assert str(found.observed) == recount(looked), "promise 6: what was observed"
        assert str(found.desired) == recount(desired), "promise 6: what is desired"
        story.planned[key] = (span, looked)
        if found.upper is None:
            whole = sum(len(table) for (of, _), (_, table) in story.planned.items() if of == plan)
            of = story.plans[plan]
            story.bases.setdefault((of.interval, of.rerun), whole)

    # --- targets

    def ask_target(self, do: Callable[[], Any], name: str, args: Any, process: Any) -> Any:
        """One request to a target; what it answers or raises."""
        side = self.world.target
        rows = side.rows()
        try:
            answer = do()
        except BaseException:
            assert side.rows() == rows, "promise 2: a refused write was applied"
            assert not side.log(self.target.log), "promise 2: a refused write was logged"
            raise
        check = getattr(self, f"_target_{name}", None)
        if check is not None:
            check(answer, *args, rows=rows, process=process)
        return answer

    def _target_lines(self, _: Any, span: KeySpan, *, rows: Table, process: Any) -> None:
        process.looked[span.lower, span.upper] = inside(rows, span)
        process.looked_at = len(self.writes)

    def _target_raise_fence(self, _: Any, fence: Fence, *__: Any, rows: Table, **___: Any) -> None:
        newest = self.target.fence
        if fence == newest:
            return
        if newest is not None:
            assert fence.generation > newest.generation, "promise 1: the target's fence grows"
        self.target.fence = fence
        self.raised[fence.run] = fence.generation

    def _target_commit(
        self, done: Any, fence: Fence, part: Any, by: float, *, rows: Table, process: Any
    ) -> None:
        story, now = self.target, self.world.target.rows()
        key = (part.plan, part.number)
        logged = self.world.target.log(story.log)
        assert fence == story.fence, "promise 2: the target took an old fence"
        if key in story.committed:
            assert not logged, "promise 4: a change was applied twice"
            assert rows == now
            self.seen.add("found its marker")
            return
        assert self.world.boot < by, "promise 8: committed after the trust window"
        story.log += len(logged)
        story.committed[key] = (part.interval, part.rerun)
        self.ever_committed.add((part.plan, part.span))
        self.writes.append(self.world.key_of(part.interval))
        held = story.held[part.plan, part.span] = inside(now, part.span)
        self._real_changes(logged, rows, now)
        if logged:
            self.target.touched.add((part.interval, part.rerun))
        if logged and process.lineage == self.world.lineage:
            self.store.touched.add((part.interval, part.rerun))
        truth = inside(self.world.truth(self.fingerprints[part.plan]), part.span)
        mine, wanted = (
            {key: level for key, level in table.items() if key[0] not in part.apart}
            for table in (held, truth)
        )
        assert str(done.checksum) == recount(mine)
        assert mine == wanted, "promises 6 and 9: a range is not as its source"
        assert all(row[:4] == (part.interval, part.rerun, fence.run, fence.generation)
                   for row in logged)  # fmt: skip
        self._not_old((part.interval, part.rerun))
        if process.lineage == self.world.lineage:
            self._guard(part, logged)

    def _not_old(self, which: tuple[str, int]) -> None:
        """What was completed says nothing while the clock is set to before it."""
        newest = self.target.completed
        if newest is not None and not self.world.is_future(newest[0]):
            assert which >= newest, "promise 11: old over new"

    @staticmethod
    def _real_changes(logged: Any, rows: Table, now: Table) -> None:
        """The log says what changed, all of it, and nothing else."""
        table = dict(rows)
        for *_, before, after in logged:
            row = after or before
            key = row[0], row[1]
            assert (before and before[2]) == table.get(key), "promise 11: not its before-image"
            assert before != after, "promise 4: no real change"
            if after is None:
                del table[key]
            else:
                table[key] = after[2]
        assert table == now, "promise 4: the log is not what changed"
        keys = [(after or before)[:2] for *_, before, after in logged]
        assert len(keys) == len(set(keys)), "promise 4: a change is logged twice"

    def _guard(self, part: Any, logged: Any) -> None:
        """Promise 13, by what the store's records could know."""
        approved = self.store.approved.get(part.interval, set())
        revokes = [
            before
            for *_, before, after in logged
            if after is None and not any(c.before == before and not c.after for c in approved)
        ]
        which = (self.world.key_of(part.interval), part.rerun)
        for story in (self.store, self.target):
            story.revoked[which] = story.revoked.get(which, 0) + len(revokes)
        base = self.store.bases.get(which)
        if revokes and base is not None:
            self.seen.add("revoked")
            total = min(self.store.revoked[which], self.target.revoked[which])
            assert total <= max(MAX_REVOKE * base, MAX_REVOKE_MIN), "promise 13: the guard"

    def _target_complete(
        self, _: Any, fence: Fence, proof: Any, *, rows: Table, process: Any
    ) -> None:
        story = self.target
        assert fence == story.fence, "promise 2: the target took an old fence"
        which = (proof.interval.id, proof.rerun)
        self._not_old(which)
        story.completed = which
        # Markers of other intervals go; what they say is in the rows' before-images too.
        story.committed = {key: of for key, of in story.committed.items() if of == which}
        plan = process.proving
        truth = self.world.truth(self.fingerprints[plan])
        assert str(proof.desired) == str(proof.observed) == recount(truth), "promise 6: the proof"
        self.proved.add((*which, str(proof.observed)))
        if "somebody" not in self.writes[self.begun.get(plan, 0) :]:
            assert rows == truth, "promise 6: completed, and the target is not as the source"
        if process.lineage == self.world.lineage:
            self._tiles(plan, truth)

    def _tiles(self, plan: str, truth: Table) -> None:
        """Every range, as it was when it was compared or committed, was as its source."""
        tiles = {n: tile for (of, n), tile in self.store.planned.items() if of == plan}
        upper = None
        for number in range(1, len(tiles) + 1):
            span, looked = tiles[number]
            assert span.lower == upper, "promise 6: ranges tile the key space"
            upper = span.upper
            desired = inside(truth, span)
            if (plan, span) in self.ever_committed:
                continue  # it was as its source when it was committed
            assert looked == desired, "promise 6: a range is not as its source"
        assert upper is None, "promise 6: ranges tile the key space"
