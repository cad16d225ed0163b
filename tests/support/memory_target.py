"""A fenced target in memory: what `core.endpoints.Target` says, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from reconcile.core.checksum import checksum, encode_rows
from reconcile.core.endpoints import Committed
from reconcile.core.errors import (
    ChangedMeanwhile,
    FencedOut,
    FenceIsHigher,
    LeaseLapsed,
    OldOverNew,
)
from reconcile.core.model import Fence, FenceRow, LeaseKey, Newest, PlanId, Proof
from reconcile.core.ports import Clock
from reconcile.core.rows import Action, Change, Column, ColumnKind, KeySpan, RangeChanges, Schema

from .sides import Table, inside


@dataclass
class Contents:
    """All that a target in memory keeps; `log` is [interval, rerun, run, generation, change]."""

    rows: Table = field(default_factory=dict)
    fence: FenceRow | None = None
    markers: dict[tuple[str, int], tuple[Committed, str, int]] = field(default_factory=dict)
    log: list[tuple[Any, ...]] = field(default_factory=list)


class MemoryTarget:
    """One connection to a `MemoryTargetSide`. See `core.ports.Target`."""

    fenced = True

    def __init__(self, side: MemoryTargetSide, clock: Clock) -> None:
        self._side = side
        self._clock = clock
        self._interrupted = False

    def _contents(self) -> Contents:
        if self._interrupted:
            raise LeaseLapsed("broken off")
        return self._side.contents

    def _own(self, fence: Fence) -> Contents:
        contents = self._contents()
        row = contents.fence
        if row is None or (row.generation, row.run) != (fence.generation, fence.run):
            raise FencedOut(f"the fence row is {row}, not of {fence}")
        return contents

    def describe(self) -> str:
        return "memory"

    def schema(self) -> Schema:
        names = ("account_id", "entitlement", "level")
        columns = tuple(Column(name, ColumnKind.TEXT, nullable=False) for name in names)
        return Schema(columns, (0, 1))

    def floor(self, key: LeaseKey) -> FenceRow | None:
        return self._contents().fence

    def raise_fence(self, fence: Fence, store_id: str, wait: timedelta) -> FenceRow:
        contents = self._contents()
        before = contents.fence
        if before is not None and before.generation >= fence.generation:
            if (before.generation, before.run) != (fence.generation, fence.run):
                raise FenceIsHigher(before)
            return before
        newest = before.newest if before is not None else None
        contents.fence = FenceRow(store_id, fence.generation, fence.run, newest)
        return before or contents.fence

    def bound(self, span: KeySpan, rows: int) -> str | None:
        accounts = sorted(account for account, _ in inside(self._contents().rows, span))
        found = accounts[rows] if rows < len(accounts) else None
        return None if found == span.upper else found

    def lines(self, span: KeySpan) -> list[bytes]:
        rows = inside(self._contents().rows, span)
        return encode_rows([(*key, level) for key, level in rows.items()])

    def commit(self, fence: Fence, part: RangeChanges, by: float) -> Committed:
        contents = self._own(fence)
        standing = contents.markers.get((part.plan, part.number))
        if standing is not None:
            return standing[0]
        rows = dict(contents.rows)
        changed = []
        for change in part.changes:
            key = (str(change.row[0]), str(change.row[1]))
            before = None if change.before is None else change.before[2]
            if rows.get(key) != before:
                changed.append(key[0])
            elif change.after is None:
                del rows[key]
            else:
                rows[key] = str(change.after[2])
        if changed:
            raise ChangedMeanwhile(changed)
        held = inside(rows, part.span).items()
        after = [(*key, level) for key, level in held if key[0] not in part.apart]
        counts = dict.fromkeys(Action, 0)
        for change in part.changes:
            counts[change.action] += 1
        done = Committed(checksum(encode_rows(after)), counts)
        if done.checksum != part.expected:
            raise ChangedMeanwhile(())
        if self._clock.boot() >= by:
            raise LeaseLapsed("too late to commit")
        contents.rows = rows
        contents.markers[part.plan, part.number] = (done, part.interval, part.rerun)
        facts = (part.interval, part.rerun, fence.run, fence.generation)
        contents.log += [(*facts, change) for change in part.changes]
        return done

    def marker(self, plan: PlanId, number: int) -> Committed | None:
        found = self._contents().markers.get((plan, number))
        return None if found is None else found[0]

    def complete(self, fence: Fence, proof: Proof) -> None:
        contents = self._own(fence)
        assert contents.fence is not None
        newest = contents.fence.newest
        ours = (proof.interval.scheduled_at, proof.rerun)
        ahead = newest is not None and newest.scheduled_at > self._clock.now()
        if newest is not None and not ahead and (newest.scheduled_at, newest.rerun) > ours:
            raise OldOverNew("a newer one is completed")
        contents.fence = contents.fence._replace(
            newest=Newest(ours[0], proof.interval.id, proof.rerun, proof.observed),
        )
        contents.markers = {
            key: marker
            for key, marker in contents.markers.items()
            if marker[1:] == (proof.interval.id, proof.rerun)
        }

    def changes(
        self, *, interval: str | None = None, account: str | None = None
    ) -> Iterator[tuple[dict[str, Any], Change]]:
        for its_interval, rerun, *_, change in self._contents().log:
            if interval in (None, its_interval) and account in (None, change.row[0]):
                yield {"interval": its_interval, "rerun": rerun}, change

    def interrupt(self) -> None:
        self._interrupted = True

    def close(self) -> None:
        pass


class MemoryTargetSide:
    """A fenced target in memory."""

    def __init__(self) -> None:
        self.contents = Contents()

    def connect(self, clock: Clock) -> MemoryTarget:
        return MemoryTarget(self, clock)

    def rows(self) -> Table:
        return dict(self.contents.rows)

    def write(self, key: tuple[str, str], level: str | None) -> None:
        if level is None:
            self.contents.rows.pop(key, None)
        else:
            self.contents.rows[key] = level

    def log(self, after: int) -> list[tuple[Any, ...]]:
        return [(f, r, run, g, c.before, c.after) for f, r, run, g, c in self.contents.log[after:]]

    def snapshot(self) -> Any:
        now = self.contents
        return Contents(dict(now.rows), now.fence, dict(now.markers), list(now.log))

    def restore(self, snapshot: Any) -> None:
        then = snapshot
        self.contents = Contents(dict(then.rows), then.fence, dict(then.markers), list(then.log))

    def close(self) -> None:
        pass
