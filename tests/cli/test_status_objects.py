"""What `status --json` tells programs."""

from __future__ import annotations

import json
from dataclasses import replace

from support.cli import Cli
from support.status_reports import (
    ALL,
    ONE,
    PROOF,
    THIRD,
    stands,
    unfinished,
)


def test_all_jobs_as_an_object(cli: Cli) -> None:
    cli.status_answers(ALL)
    shown = cli("status", "--json")
    value = json.loads(shown.data)
    assert (shown.code, shown.words, value["schema"]) == (0, "", 1)
    assert "intervals" not in value
    assert value["jobs"][2] == {
        "job": "ldap-groups",
        "state": "running",
        "next_due": "2026-12-01T02:30:00Z",
        "lease": {
            "holder": "db1:4711:a",
            "host": "db1",
            "pid": 4711,
            "generation": 9,
            "interval": "2026-11-30",
            "since": "2026-11-30T02:30:04Z",
            "expires_at": "2026-11-30T03:41:50Z",
            "progress_at": "2026-11-30T03:40:58Z",
        },
        "backlog": 1,
        "pause": None,
        "backfill": None,
        "oldest_unfinished": None,
        "last_completed": "2026-11-30",
        "last_completed_at": "2026-11-30T02:41:09Z",
        "problems": [],
    }


def test_the_oldest_unfinished_interval_has_an_age(cli: Cli) -> None:
    behind = stands(
        "invoices", "overdue", oldest_unfinished=unfinished(28, "overdue"), oldest_overdue=True
    )
    cli.status_answers(replace(ALL, jobs=[behind]))
    assert json.loads(cli("status", "--json").data)["jobs"][0]["oldest_unfinished"] == {
        "interval": "2026-11-28",
        "age_seconds": 177_060.0,
        "overdue": True,
    }


def test_one_job_as_an_object_has_its_intervals(cli: Cli) -> None:
    cli.status_answers(ONE)
    intervals = json.loads(cli("status", "entitlements", "--json").data)["intervals"]
    assert len(intervals) == 6
    first = intervals[1]
    assert first["interval"] == "2026-11-29"
    assert (first["state"], first["shows"], first["rerun"], first["runs"]) == (
        "completed",
        "completed",
        1,
        2,
    )
    assert first["ranges"] == {"done": 69, "total": 69}
    assert first["changes"] == {"grant": 511, "revoke": 97, "update": 1}
    assert (first["count"], first["checksum"]) == (170_964, PROOF)
    assert (first["phase"], first["seconds"]) == ("applying", 665.0)
    assert first["completed_at"] == "2026-11-29T02:41:09Z"
    assert (intervals[0]["state"], intervals[0]["shows"]) == ("unfinished", "running")
    assert (intervals[4]["span"], intervals[4]["reason"]) == (7, "catch_up_window")


def test_one_interval_as_an_object_has_runs_ranges_and_events(cli: Cli) -> None:
    cli.status_answers(THIRD)
    value = json.loads(cli("status", "entitlements", "2026-11-29", "--json").data)
    assert [one["interval"] for one in value["intervals"]] == ["2026-11-29"]
    assert value["runs"][0]["ending"] == "needs approval"
    assert value["runs"][0]["holder"]["pid"] == 4711
    assert value["runs"][2]["ended_at"] is None
    assert value["ranges"][0]["quarantined"] == {"acct-1": "level is empty"}
    assert value["quarantined"] == {"acct-1": "level is empty"}
    assert value["events"][0] == {"at": "2026-11-29T02:30:00Z", "type": "due"}
    assert value["desired"] == value["observed"] == PROOF
