"""How often what happened: running totals, written in the very batch that makes them true.

Counters for a monitoring system must not be kept in a process (there is none that lives on)
and must not be counted from the history at each knock (it grows for ever). So each job has two
small records of totals, and whoever writes that an interval ended, or a run began or was found
dead, writes the totals with it: one batch, one fence, one sequence number. A batch that is
refused counts nothing, one that is sent twice counts once, and a restart loses nothing.

Two records, because there are two kinds of writers. `FENCED` is written under the lease, where
nobody else can write it; `BY_HAND` by acts without a lease, under the version it was read at,
and read again where somebody else was faster. Figures are the sums of both.

What a batch means is read off the batch itself (`_Count`), not told by its author: an interval
record that becomes or leaves a final state, a run record that gets its ending, an event of the
trail. So no author can forget it. Checkpoints of a range have none of these, and cost nothing.

What is under way is not in the totals: changes of an open interval are in its own record, and
move over when it ends. A reader adds both, and so sees a counter that never falls. Totals begin
with the first write of a version that keeps them, and stay when old records are pruned.

An interval that fails for good also gets its alert here (`alert_records.owed`), in the same batch:
however the caller ends afterwards, the next knock finds it and sends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import WriteConflict
from .model import ABSENT, Append, Kind, Put, State
from .records import from_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .model import (
        JsonObject,
        Record,
        Write,
    )
    from .ports import Reader, Store

FENCED = "fenced"
BY_HAND = "by hand"
_KEYS = (FENCED, BY_HAND)
_TRIES = 5
_CHANGES = ("grant", "revoke", "update")
_LOST = {"abandoned": "silent", "fenced out": "forced"}
"""Endings that a run is given by others, and how it lost its lease."""

Totals = dict[str, Any]
"""Numbers by name: `intervals:STATE[:REASON]`, `changes:KIND`, `attempts`, `repeated` (attempts
beyond the first of a pass), `turned_away`, `lost:HOW`, `ranges_saved` and `ranges_repeated`,
`backfill:NUMBER:STATE`; the
newest interval's `run_delay` and `consistent` in seconds, each with the interval's key."""


def totals(reader: Reader, job: str) -> Totals:
    """All that was counted of a job."""
    found: Totals = {}
    for key in _KEYS:
        record = reader.get(Kind.TALLY, job, key)
        for name, value in _numbers(record).items():
            if isinstance(value, (int, float)) and name not in ("run_delay", "consistent"):
                found[name] = found.get(name, 0) + value
            else:
                found[name] = value
    return found


def note_turned_away(store: Store, job: str) -> None:
    """Count a trigger that found the lease busy."""
    _add_by_hand(store, job, [], lambda numbers: _add(numbers, "turned_away", 1))


def label(record: JsonObject) -> str:
    """What an interval record in a final state counts as: `skipped:paused`."""
    reason = record.get("reason")
    return f"intervals:{record['state']}" + (f":{reason}" if reason else "")


def fenced(reader: Reader, job: str, writes: Sequence[Write], *, alerts: bool) -> Sequence[Write]:
    """A batch that is written under the lease, with the totals that it makes true."""
    if not tells(writes):
        return writes
    count = _Count(reader, job, writes, alerts=alerts)
    if count.is_empty:
        return writes
    numbers = _numbers(reader.get(Kind.TALLY, job, FENCED))
    count.into(numbers)
    return [*writes, *count.owed, Put(Kind.TALLY, job, FENCED, numbers)]


def note(store: Store, writes: Sequence[Write], *, alerts: bool) -> None:
    """Write a batch without a lease, with the totals that it makes true."""
    if not tells(writes):
        store.note(writes)
        return
    job = writes[0].job
    count = _Count(store, job, writes, alerts=alerts)
    if count.is_empty:
        store.note(writes)
        return
    _add_by_hand(store, job, [*writes, *count.owed], count.into)


def _numbers(record: Record | None) -> Totals:
    return {} if record is None else dict(record.value)


def _add(numbers: Totals, name: str, more: int) -> None:
    numbers[name] = numbers.get(name, 0) + more


def _add_by_hand(
    store: Store, job: str, writes: Sequence[Write], add: Callable[[Totals], None]
) -> None:
    """Write a batch with its totals; again where only the totals were changed meanwhile."""
    for tries in range(1, _TRIES + 1):
        stored = store.get(Kind.TALLY, job, BY_HAND)
        version = ABSENT if stored is None else stored.version
        numbers = _numbers(stored)
        add(numbers)
        try:
            store.note([*writes, Put(Kind.TALLY, job, BY_HAND, numbers, expect=version)])
        except WriteConflict:
            now = store.get(Kind.TALLY, job, BY_HAND)
            if tries == _TRIES or (ABSENT if now is None else now.version) == version:
                raise
        else:
            return


def tells(writes: Sequence[Write]) -> bool:
    """Whether a batch has anything in it that is counted: all that is, is on a trail."""
    events = (w.value for w in writes if isinstance(w, Append) and w.kind is Kind.EVENT)
    return any(event.get("type") != "alert" for event in events)


class _Count:
    """What one batch adds to the totals, seen beside the records that it will replace."""

    def __init__(self, reader: Reader, job: str, writes: Sequence[Write], *, alerts: bool) -> None:
        self._reader = reader
        self._job = job
        self._steps: list[tuple[str, int]] = []
        self._newest: dict[str, tuple[str, float]] = {}
        self.owed: list[Write] = []
        """Alerts that go with the batch."""
        events = [w for w in writes if isinstance(w, Append) and w.kind is Kind.EVENT]
        failed: list[Put] = []
        for put in (w for w in writes if isinstance(w, Put)):
            if put.kind is Kind.INTERVAL:
                before = self._before(put)
                self._interval(put.key, before, put.value, events)
                if _fails(put.value):
                    failed.append(put)
            elif put.kind is Kind.RUN:
                self._run(put, events)
        if alerts and failed:
            from .alert_records import owed

            self.owed += owed(reader, job, failed)

    @property
    def is_empty(self) -> bool:
        """Whether the totals stay as they are."""
        return not (any(more for _, more in self._steps) or self._newest)

    def into(self, numbers: Totals) -> None:
        """Add to the totals."""
        for name, more in self._steps:
            _add(numbers, name, more)
        for name, (key, seconds) in self._newest.items():
            if key >= numbers.get(f"{name}_of", ""):
                numbers |= {name: seconds, f"{name}_of": key}

    def _before(self, put: Put) -> JsonObject | None:
        stored = self._reader.get(put.kind, self._job, put.key)
        return None if stored is None else stored.value

    def _interval(
        self, key: str, before: JsonObject | None, after: JsonObject, events: Sequence[Append]
    ) -> None:
        was, ends = before is not None and _is_final(before), _is_final(after)
        if before is not None and was:
            self._steps.append((label(before), -_number(before, "span", 1)))
        if ends:
            self._steps.append((label(after), _number(after, "span", 1)))
        self._backfilled(before, after)
        same = before is not None and before.get("rerun", 0) == after.get("rerun", 0)
        if was and not ends and same:
            self._changes(after, -1)  # it is reopened, and goes on counting for itself
        elif ends and not was:
            self._changes(after if same or before is None else before, 1)
        if ends and not was and after.get("completed_at") and not after.get("rerun"):
            self._newest["consistent"] = (key, _seconds(after, "completed_at"))
        for event in events:
            if event.prefix == key and event.value.get("type") == "run_started":
                self._attempt(key, before, after, event.value)

    def _backfilled(self, before: JsonObject | None, after: JsonObject) -> None:
        """Those that a backfill has begun, or given up, count for it when they end."""
        was, ends = before is not None and _is_final(before), _is_final(after)
        if ends and not was and after.get("backfill") is not None:
            state = after["state"]
            if before is not None and _number(before, "rerun") > _number(after, "rerun"):
                state = State.FAILED  # and stays completed under its earlier number
            span = _number(after, "span", 1)
            self._steps.append((f"backfill:{after['backfill']}:{state}", span))
        elif before is not None and was and not ends and after.get("backfill") is not None:
            same = before.get("backfill") == after["backfill"]
            self._steps.append((f"backfill:{after['backfill']}:{before['state']}", -int(same)))

    def _changes(self, record: JsonObject, sign: int) -> None:
        self._steps += [(f"changes:{kind}", sign * _number(record, kind)) for kind in _CHANGES]

    def _attempt(
        self, key: str, before: JsonObject | None, after: JsonObject, event: JsonObject
    ) -> None:
        again = before is not None and before.get("started_at") is not None
        self._steps += [("attempts", 1), ("repeated", int(again))]
        self._steps.append(("ranges_saved", max(0, _number(event, "at_range", 1) - 1)))
        if not again and not after.get("rerun"):
            self._newest["run_delay"] = (key, _seconds(after, "started_at"))

    def _run(self, put: Put, events: Sequence[Append]) -> None:
        """A run that somebody else closes had lost its lease."""
        ending = put.value.get("ending")
        how = _LOST.get(str(ending))
        before = self._before(put) if how is not None else None
        if how is None or before is None or before.get("ending") is not None:
            return
        interval, _, _ = put.key.rpartition("/")
        for event in events:
            value = event.value
            if event.prefix == interval and value.get("type") == "taken_over":
                how = "killed" if value.get("dead") else how
                # Whatever range was under way is begun again.
                self._steps.append(("ranges_repeated", 1))
        self._steps.append((f"lost:{how}", 1))


def _is_final(record: JsonObject) -> bool:
    return State(str(record["state"])).is_final


def _fails(record: JsonObject) -> bool:
    """Whether an interval has failed for good, and nobody has signed for it."""
    signed = record.get("reason") == "cancelled" or record.get("signed_off") is not None
    return record["state"] == State.FAILED and not signed


def _number(record: JsonObject, name: str, default: int = 0) -> int:
    value = record.get(name, default)
    return value if isinstance(value, int) else default


def _seconds(record: JsonObject, until: str) -> float:
    """From the scheduled instant on; never below zero."""
    at, due = from_text(str(record[until])), from_text(str(record["scheduled_at"]))
    return round(max(0.0, (at - due).total_seconds()), 3)
