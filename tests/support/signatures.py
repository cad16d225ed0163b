"""What people do by hand is signed: who, when and why, on the trail of the interval."""

from __future__ import annotations

from typing import Any

from reconcile.core.model import Append, Kind, Put
from reconcile.core.records import IntervalRecord, RunRecord

from .sides import JOB

OPERATOR = "ops"
REASON = "OPS-12: it is right"


def is_signed(event: Any) -> bool:
    """Whether it says who did it, and why."""
    return bool(event.get("actor") == OPERATOR and event.get("reason") == REASON)


def events_of(interval: str, writes: Any) -> list[Any]:
    """What a batch adds to the trail of an interval (its key)."""
    return [w.value for w in writes if isinstance(w, Append) and w.prefix == interval]


class Signatures:
    """Promise 12, as a part of `Promises`."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.forced: set[str] = set()
        """Holders that an operator has fenced out, who cannot know it before they ask."""
        self.seen: set[str] = set()
        """What has happened at least once, to see that the examples are not idle."""

    def _is_forced(self, replaced: Any, process: Any) -> bool:
        """Whether an operator takes the lease, and has signed that before."""
        if not process.forces:
            return False
        signed = process.was_busy or self._trail(replaced.interval, "stop_asked")
        assert signed, "promise 12: fenced out, and nobody signed it"
        self.forced.add(replaced.holder.token)
        self.seen.add("fenced out by force")
        return True

    def _trail(self, interval: str, type_: str) -> list[Any]:
        """The signed events of a kind on the trail of an interval (its key)."""
        found = self.world.store.peek().scan(Kind.EVENT, JOB, prefix=f"{interval}/")
        return [one.value for one in found if one.value["type"] == type_ and is_signed(one.value)]

    def _store_ask_stop(
        self, asked: bool, key: Any, generation: int, *_: Any, before: Any, process: Any
    ) -> None:
        lease = self.world.store.peek().lease(key)
        if asked:
            self.seen.add("asked to stop")
            assert lease.fence.generation == generation
            assert self._trail(lease.interval, "stop_asked"), "promise 12: nobody signed the stop"

    def _note_is_signed(self, writes: Any) -> None:
        """What is written without a fence is an act by hand, and on the trail."""
        for write in writes:
            signed = isinstance(write, Append) and write.kind is Kind.EVENT
            assert not signed or is_signed(write.value), "promise 12: an event nobody signed"
            if isinstance(write, Put):
                key = write.key
                if write.kind is Kind.RUN:
                    # With a skip: what the run revoked and was killed before it could tell.
                    key, _, _ = key.rpartition("/")
                    assert RunRecord.from_json(write.value).ending is not None
                    assert isinstance(write.expect, int), "promise 2: whatever stands there"
                    assert write.expect > 0, "promise 2: whatever stands there"
                else:
                    assert write.kind is Kind.INTERVAL, "promise 2: written without a fence"
                assert events_of(key, writes), "promise 12: an act that is not on the trail"

    def _is_divided(self, record: IntervalRecord, by_hand: set[str], before: Any) -> None:
        """What is left of a span of which one is worked is what it was, and nobody's."""
        spans = [
            one
            for (kind, _), found in before.items()
            if kind is Kind.INTERVAL and found is not None
            for one in [IntervalRecord.from_json(found.value)]
            if one.until_at and one.scheduled_at <= record.scheduled_at <= one.until_at
        ]
        assert len(spans) == 1, "promise 5: divided, and there was no span"
        (span,) = spans
        assert by_hand == {"divided"}, "promise 12: two acts at once"
        assert record.state.is_final, "promise 5: the rest of a span is begun"
        assert (record.state, record.reason) == (span.state, span.reason), "promise 5: another end"
        assert record.span < span.span, "promise 5: a span that does not shrink"
        assert (record.until_at or record.scheduled_at) <= span.until_at, "promise 5: it grew"

    def _signed(
        self, record: IntervalRecord, standing: Any, events: list[Any], before: Any
    ) -> None:
        """Promise 12: what people do to an interval stands on its trail, in the same step."""
        was = IntervalRecord.from_json(standing.value) if standing is not None else None
        by_hand = {event["type"] for event in events if is_signed(event)}
        self.seen |= by_hand
        if "divided" in by_hand:
            self._is_divided(record, by_hand, before)
            return
        left_final = was is not None and was.state.is_final and not record.state.is_final
        if left_final and not by_hand & {"rerun", "reopened"}:
            alone = [event["type"] for event in events if event.get("actor") == "reconcile"]
            assert set(alone) & {"target_rewound", "clock_stepped"}, "promise 12: nobody signed"
        if record.reason in ("operator", "cancelled") and (was is None or was.reason is None):
            assert "skipped" in by_hand, "promise 12: nobody signed the skip"
        if record.signed_off and (was is None or was.signed_off is None):
            assert "signed_off" in by_hand, "promise 12: nobody signed for the failure"
        stands_again = was is not None and was.earlier is not None and record.rerun < was.rerun
        if (
            record.approval
            and not stands_again
            and (was is None or was.approval != record.approval)
        ):
            assert "approved" in by_hand, "promise 12: nobody signed the approval"
        if by_hand:
            assert record.repair_owner == OPERATOR, "promise 12: not who took it over"
        for event in events:
            if event["type"] in ("rerun", "target_rewound") and "rerun" in event:
                assert event["rerun"] == record.rerun
