from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.fakes import FakeClock

from reconcile.core.config import CommandConfig, Job
from reconcile.core.model import Kind, Put, State
from reconcile.core.operations.look import look
from reconcile.core.record_fields import to_text
from reconcile.core.records import IntervalRecord, JobRecord
from reconcile.stores.memory import MemoryServer

AT = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)
JOB = Job("j", Path("reconcile.toml"), None, CommandConfig(("true",), "/"))


@pytest.mark.parametrize("seconds", [0.0, 0.4, 1.0, 1.4, 1.999, 2.0, 61.5])
@pytest.mark.parametrize("state", [State.PENDING, State.UNFINISHED])
def test_an_open_interval_is_seen_whatever_part_of_a_second_has_passed_since(
    state: State, seconds: float
) -> None:
    """What is read in two parts meets at a second, and the record of that very one is in one."""
    now = AT + timedelta(seconds=seconds)
    store = MemoryServer(FakeClock(now), "store-1").connect()
    open_ = IntervalRecord("x", AT, state, runs=int(state is State.UNFINISHED))
    settled = JobRecord(AT, [[to_text(AT), None, "UTC"]], settled_at=now)
    store.note(
        [
            Put(Kind.JOB, JOB.name, "", settled.to_json()),
            Put(Kind.INTERVAL, JOB.name, open_.interval("j").key, open_.to_json(), tag=open_.tag),
        ]
    )
    (due,) = look(store, JOB, now).decision.due
    assert due.interval.scheduled_at == AT
