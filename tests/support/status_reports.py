"""What `status` is told in tests of how it shows it: all jobs, one job, one interval."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support.fakes import holder

from reconcile.core.checksum import Checksum
from reconcile.core.config import EntitlementsConfig, Job, SourceConfig, TargetConfig
from reconcile.core.model import Ending, Fence, Lease, LeaseKey, RunId, State, Trigger
from reconcile.core.records import IntervalRecord, RangeRecord, RunRecord
from reconcile.core.status import (
    EventView,
    IntervalStatus,
    IntervalView,
    JobStatus,
    Problem,
    StatusReport,
)

NOW = datetime(2026, 11, 30, 3, 41, tzinfo=UTC)
LEASE = Lease(
    fence=Fence(LeaseKey("ldap-groups"), 9, RunId("r9")),
    holder=holder("a"),
    interval="2026-11-30T02:30:00Z",
    ttl=timedelta(seconds=60),
    granted_at=datetime(2026, 11, 30, 2, 30, 4, tzinfo=UTC),
    expires_at=NOW + timedelta(seconds=50),
    progress=3,
    progress_at=NOW - timedelta(seconds=2),
    live=True,
)


def night(day: int, hour: int = 2, minute: int = 30, second: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, second, tzinfo=UTC)


def job(name: str = "entitlements", **fields: Any) -> Job:
    source = SourceConfig(type="csv", path="exports/{date}.csv")
    target = TargetConfig(type="sql", url="sqlite:///app.db", table=name)
    return Job(
        name, Path("reconcile.toml"), "30 2 * * *", EntitlementsConfig(source, target), **fields
    )


def completed(day: int, **fields: Any) -> IntervalView:
    record = IntervalRecord(
        id=f"2026-11-{day:02d}",
        scheduled_at=night(day),
        state=State.COMPLETED,
        trigger=Trigger.SCHEDULE,
        runs=1,
        started_at=night(day, second=4),
        last_checkpoint_at=night(day, minute=41),
        completed_at=night(day, minute=41, second=9),
        ranges_done=69,
        ranges_total=69,
        accounts=68_824,
        grant=511,
        revoke=97,
        update=1,
        checksum=Checksum(170_964, 0x7D04B1E2 << 96),
        cursor={"phase": "applying"},
        seconds=665.0,
    )
    record = replace(record, **fields)
    return IntervalView(record, record.state, night(day, 8))


GUARD = {
    "guard": "max_revoke",
    "limit": 0.1,
    "base": 175_554,
    "grant": 15_302,
    "revoke": 19_892,
    "update": 7,
    "hash": "4e1f9c2ab0d3",
    "losing_accounts": 8613,
    "losing_names": ["2to3", "abinit"],
    "revokes_elsewhere": 0,
    "most_revoked": [],
    "source": "exports/2026-11-29.csv",
    "source_rows": 170_964,
}


def unfinished(day: int, shows: str, **fields: Any) -> IntervalView:
    record = IntervalRecord(
        id=f"2026-11-{day:02d}",
        scheduled_at=night(day),
        state=State.UNFINISHED,
        runs=1,
        started_at=night(day, second=4),
        last_checkpoint_at=night(day, second=52),
        seconds=48.0,
    )
    return IntervalView(replace(record, **fields), shows, night(day, 8))


def stands(name: str, state: str, **fields: Any) -> JobStatus:
    status = JobStatus(
        job=job(name),
        state=state,
        next_due=night(30) + timedelta(days=1),
        lease=None,
        backlog=0,
        oldest_unfinished=None,
        oldest_overdue=False,
        last_completed=completed(30).record,
        recent=[completed(30), completed(29)],
    )
    return replace(status, **fields)


ALL = StatusReport(
    now=NOW,
    config="/etc/reconcile/reconcile.toml",
    store="/var/lib/reconcile/state.db",
    notes=["this host's clock is 7s off the store's"],
    jobs=[
        stands(
            "entitlements",
            "needs approval",
            backlog=2,
            last_completed=completed(28).record,
            recent=[
                unfinished(30, "needs approval"),
                unfinished(29, "needs approval"),
                *(completed(day) for day in range(28, 18, -1)),
                IntervalView(
                    IntervalRecord("2026-11-18", night(18), State.SKIPPED, "superseded"),
                    "skipped",
                    None,
                ),
                *(completed(day) for day in range(17, 10, -1)),
            ],
            problems=[
                Problem(
                    "!",
                    "entitlements 2026-11-29: 19,892 revokes (11.3%) wait for somebody's approval",
                    (
                        "reconcile changes entitlements 2026-11-29 --planned",
                        'reconcile resume entitlements 2026-11-29 --approve 4e1f9c2ab0d3 -m "why"',
                    ),
                )
            ],
        ),
        stands("backup", "ok"),
        stands(
            "ldap-groups", "running", backlog=1, lease=LEASE, recent=[unfinished(30, "running")]
        ),
        stands("fresh", "new", last_completed=None, recent=[], next_due=None),
    ],
)


ONE = StatusReport(
    now=NOW,
    config="reconcile.toml",
    store="state.db",
    jobs=[
        stands(
            "entitlements",
            "running",
            lease=LEASE,
            deadline=timedelta(hours=6),
            source="csv exports/{date}.csv",
            target="sqlite app.db, table entitlements",
            usual_seconds=665,
            slowest_seconds=2340,
            timed=30,
            older=23,
            worked=unfinished(30, "running").record,
            recent=[
                unfinished(30, "running", grant=3, started_at=night(30, 2, 31), seconds=0.0),
                completed(29, rerun=1, runs=2),
                completed(28, started_at=night(28, 4, 31), seconds=725.0),
                replace(
                    unfinished(
                        27,
                        "overdue",
                        runs=3,
                        failure={"text": "exports/2026-11-27.csv: no such file"},
                    ),
                    retry_at=night(30, 3, 43),
                ),
                IntervalView(
                    IntervalRecord(
                        "2026-11-20",
                        night(20),
                        State.SKIPPED,
                        "catch_up_window",
                        span=7,
                        until_at=night(26),
                    ),
                    "skipped",
                    None,
                ),
                completed(
                    19,
                    state=State.FAILED,
                    reason="attempts",
                    completed_at=None,
                    failure={"text": "line 3 has 2 fields"},
                ),
            ],
        )
    ],
)

RUN = RunRecord(
    number=1,
    run_id="r1",
    trigger=Trigger.SCHEDULE,
    generation=7,
    holder={"host": "db1", "pid": 4711, "user": "svc-rec"},
    started_at=night(29, second=4),
    ended_at=night(29, second=52),
    ending=Ending.NEEDS_APPROVAL,
    seconds=48.0,
)
PROOF = str(Checksum(170_964, 0x7D04B1E2 << 96))
PLANNING: dict[str, Any] = {"ranges_total": 69, "cursor": {"phase": "planning"}}
INTERVAL = IntervalStatus(
    job=job(),
    view=completed(29, runs=3, repair_owner="alice", completed_at=night(29, 2, 47, 27)),
    runs=[
        RUN,
        replace(
            RUN,
            number=2,
            trigger=Trigger.RESUME,
            generation=8,
            started_at=night(29, 2, 34, 10),
            ending=Ending.ABANDONED,
            first_range=1,
            last_range=17,
            seconds=249.0,
        ),
        replace(RUN, number=3, generation=9, ending=None, ended_at=None, seconds=None),
    ],
    ranges=[
        RangeRecord(1, Checksum(), Checksum(), upper="m", quarantined={"acct-1": "level is empty"})
    ],
    events=[
        EventView(night(29, second=4), {"type": "due", "at": "2026-11-29T02:30:00.000000Z"}),
        EventView(
            night(29, second=4),
            {
                "type": "run_started",
                "run": 1,
                "trigger": "schedule",
                "host": "db1",
                "generation": 7,
            },
        ),
        EventView(
            night(29, second=52),
            {
                "type": "guard",
                "guard": "max_revoke",
                "revoke": 19_892,
                "base": 175_554,
                "hash": "4e1f9c2ab0d3",
            },
        ),
        EventView(
            night(29, 2, 34, 10),
            {
                "type": "approved",
                "hash": "4e1f9c2ab0d3",
                "actor": "alice",
                "reason": "cancelled plans, OPS-12",
            },
        ),
        EventView(
            night(29, 2, 40, 1),
            {
                "type": "taken_over",
                "run": 2,
                "generation": 9,
                "after_range": 17,
                "phase": "planning",
                "silent": 102.0,
                "dead": False,
            },
        ),
        EventView(
            night(29, 2, 40, 1),
            {
                "type": "run_started",
                "run": 3,
                "trigger": "schedule",
                "host": "db1",
                "generation": 9,
                "at_range": 18,
                "phase": "applying",
            },
        ),
        EventView(night(29, 2, 41), {"type": "attempt_failed", "text": "app.db is locked"}),
        EventView(
            night(30), {"type": "completed", "ranges": 69, "count": 170_964, "checksum": PROOF}
        ),
        EventView(night(30), {"type": "of_tomorrow", "what": "ever"}),
    ],
    desired=PROOF,
    observed=PROOF,
)
THIRD = StatusReport(
    now=NOW, config="c", store="s", jobs=[stands("entitlements", "ok")], interval=INTERVAL
)
