"""Who is told what, and how often, of nights that hang, fail or wait; and what monitoring sees.

Real operations on a small night, with a pager in the place of the alert command.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser as prometheus
from prometheus_client.openmetrics import parser as openmetrics
from support.cli import Cli, Shown
from support.listening import serving
from support.pager import Pager
from support.small import HAS, SHOULD, write_source, write_target

from reconcile.cli import wiring
from reconcile.cli.configuration import load
from reconcile.cli.render.watcher import AnyWatcher
from reconcile.core.errors import TargetLocked
from reconcile.core.model import Holder, Kind, LeaseKey, RunId
from reconcile.core.operations import comparing
from reconcile.core.operations.alerting import ALL
from reconcile.stores.sqlite import SqliteStore

DAY = 86400
HOUR = 3600
RUN = ("run", "entitlements")
LIVE = """
[alerts]
command = ["page"]
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-30
source = "export.csv"
target = "app.db"
range_size = 8
deadline = "6h"
retry_delay = "5d"
max_attempts = 3
catch_up = { policy = "all" }
"""
MEASURES = {
    ("reconcile_run_delay_seconds", "gauge"),
    ("reconcile_duplicate_attempts", "counter"),
    ("reconcile_lease_losses", "counter"),
    ("reconcile_backlog_age_seconds", "gauge"),
    ("reconcile_time_to_consistent_seconds", "gauge"),
}
OTHER = """
[jobs.other]
schedule = "0 3 * * *"
start = 2026-11-30
source = "other.csv"
target = { url = "app.db", table = "others" }
deadline = "1h"
"""


@pytest.fixture
def pager(monkeypatch: pytest.MonkeyPatch) -> Pager:
    found = Pager()
    monkeypatch.setattr(wiring, "_notifier", lambda call, config: found)
    return found


@pytest.fixture
def night(cli: Cli, pager: Pager) -> Cli:
    """Nightly from now on, from a live source, which waits five days after a failure."""
    write_target(cli.folder / "app.db")
    write_source(cli.folder / "export.csv")
    cli.configure(LIVE)
    return cli


def store(cli: Cli) -> SqliteStore:
    path = cli.folder / "reconcile.db"
    return SqliteStore(path, clock=cli.clock, boot_id="b", new_id=lambda: "x")


def written(cli: Cli) -> list[Any]:
    """Every record and lease that there is."""
    opened = store(cli)
    try:
        return [
            *opened._file.read("SELECT kind, job, key, version, value FROM record"),
            *opened._file.read("SELECT job, generation, seq FROM lease"),
        ]
    finally:
        opened.close()


def killed(cli: Cli, step: str, count: int = 1, call: tuple[str, ...] = RUN) -> None:
    """A call that is gone at that step and has given nothing back."""
    left = count

    def reached(self: Any, name: str) -> None:
        nonlocal left
        left -= name == step
        if left == 0:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnyWatcher, "reached", reached)
        assert cli(*call).code == 130
    cli.clock.advance(120)


def check(cli: Cli, *more: str) -> Shown:
    return cli("status", *more, "--check")


def fails_once(cli: Cli) -> None:
    """The first night fails: its source is of another kind for a moment."""
    (cli.folder / "export.csv").rename(cli.folder / "away.csv")
    assert cli(*RUN).code == 69
    (cli.folder / "away.csv").rename(cli.folder / "export.csv")


def test_a_night_that_hangs_stays_alerting_while_later_ones_succeed_until_it_ends(
    night: Cli, pager: Pager
) -> None:
    fails_once(night)
    assert pager.told() == []
    assert check(night).code == 1
    night.clock.advance(6 * HOUR + 1)
    assert night(*RUN).code == 1
    assert pager.told() == [("2026-11-30", "overdue", "raised")]
    for day in range(1, 5):
        night.clock.advance(DAY)
        write_source(night.folder / "export.csv", SHOULD[: len(SHOULD) - day])
        shown = night(*RUN, "--json")
        outcomes = {one["interval"]: one["outcome"] for one in json.loads(shown.data)["intervals"]}
        assert outcomes[f"2026-12-0{day}"] == "completed"
        found = check(night)
        assert found.code == 2
        age = day * DAY + 6 * HOUR + 1
        assert f"backlog=1 oldest_unfinished={age}s;;21600 unrecorded=0" in found.data
        assert "CRITICAL: entitlements 2026-11-30 is " in found.data
    # An old night that is done again says nothing of the one that hangs.
    assert night("rerun", "entitlements", "2026-12-02", "-m", "again").code == 0
    assert pager.told() == []
    assert night("resume", "entitlements", "2026-11-30").code == 0
    assert pager.told() == [("2026-11-30", "overdue", "cleared")]
    found = check(night)
    assert found.code == 0
    assert found.data == (
        "RECONCILE OK: 1 job, nothing unfinished | backlog=0 oldest_unfinished=0s;;21600"
        " unrecorded=0\n"
    )
    night.clock.advance(HOUR)
    assert night(*RUN).code == 0
    assert pager.told() == []


def test_a_night_that_nobody_came_for_is_overdue_and_told_by_whoever_comes(
    night: Cli, pager: Pager
) -> None:
    assert night(*RUN).code == 0
    night.clock.advance(DAY + 7 * HOUR)
    found = check(night)
    assert found.code == 2
    assert "CRITICAL: entitlements 2026-12-01 is 1h past its deadline (6h): " in found.data
    assert "no run of it has begun" in found.data
    # It is late, and done before anybody is told.
    assert night(*RUN).code == 0
    assert pager.told() == []
    night.clock.advance(DAY)
    (night.folder / "export.csv").unlink()
    assert night(*RUN).code == 69
    (alert,) = [alert for _, alert in pager.got]
    begins = "entitlements 2026-12-02 is 1h past its deadline (6h): "
    assert alert["text"] == f"{begins}{night.folder}/export.csv does not exist"
    assert alert["next"] == "reconcile status entitlements 2026-12-02"
    assert alert["since"] == "2026-12-02T08:30:00Z"
    assert (alert["schema"], alert["age_seconds"], alert["host"]) == (1, HOUR, "db1")
    assert alert["id"] == "entitlements/2026-12-02/overdue"


def test_a_busy_call_judges_too_and_is_counted(night: Cli, pager: Pager) -> None:
    """The holder is on another host, and silent for a while: nobody may take it over yet."""
    night.configure(LIVE + '[jobs.entitlements.lease]\nttl = "9h"\nprogress_deadline = "9h"\n')
    left = [1]

    def reached(self: Any, name: str) -> None:
        left[0] -= name == "range_planned"
        if left[0] == 0:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnyWatcher, "reached", reached)
        patch.setattr("support.fakes.FakeHost.abort", lambda *args: None)
        assert night(*RUN).code == 130
    night.clock.advance(6 * HOUR + 60)
    for _ in range(3):
        assert night(*RUN).code == 75
    assert pager.told() == [("2026-11-30", "overdue", "raised")]
    metrics = night("status", "--metrics").data
    assert 'reconcile_duplicate_attempts_total{how="turned_away",job="entitlements"} 3.0' in metrics
    assert 'reconcile_intervals{job="entitlements",reason="attempts"' not in metrics


def test_a_guard_is_told_once_for_each_time_that_it_trips(night: Cli, pager: Pager) -> None:
    write_source(night.folder / "export.csv", HAS[:60])
    shown = night(*RUN, "--json")
    assert shown.code == 4
    (alert,) = [alert for _, alert in pager.got]
    assert alert["text"] == (
        "entitlements 2026-11-30 waits for an approval: guard max_revoke; planned 0 grants,"
        " 60 revokes (50.0%), 0 updates; nothing was changed"
    )
    assert pager.told() == [("2026-11-30", "needs_approval", "raised")]
    night.clock.advance(600)
    assert night(*RUN).code == 4
    assert pager.told() == []
    assert check(night).code == 1
    plan = json.loads(shown.data)["guard"]["hash"]
    done = night(
        "resume", "entitlements", "2026-11-30", "--approve", plan, "-m", "cancelled", "--json"
    )
    assert done.code == 0
    assert pager.told() == [("2026-11-30", "needs_approval", "cleared")]
    assert check(night).code == 0


def test_a_night_that_fails_for_good_is_told_until_somebody_makes_it_good(
    night: Cli, pager: Pager
) -> None:
    night.configure(LIVE.replace('"5d"', '"60s"').replace("max_attempts = 3", "max_attempts = 1"))
    source = night.folder / "export.csv"
    source.write_text("account_id,entitlement\nacct-0001,seats\n")
    assert night(*RUN).code == 65
    assert pager.told() == [("2026-11-30", "failed", "raised")]
    assert check(night).code == 2
    write_source(source)
    night.clock.advance(DAY)
    assert night(*RUN).code == 0
    assert pager.told() == []
    assert check(night).code == 2, "a later success is nothing to the night that failed"
    metrics = night("status", "--metrics").data
    assert 'reconcile_alerts{job="entitlements",kind="failed"} 1.0' in metrics
    assert night("resume", "entitlements", "2026-11-30").code == 0
    assert pager.told() == [("2026-11-30", "failed", "cleared")]
    assert check(night).code == 0


def test_nights_that_are_held_up_by_an_older_one_are_owed_all_the_same(
    night: Cli, pager: Pager
) -> None:
    once = LIVE.replace("max_attempts = 3", 'max_attempts = 1\non_failed = "block"')
    night.configure(once)
    source = night.folder / "export.csv"
    source.write_text("account_id,entitlement\nacct-0001,seats\n")
    assert night(*RUN).code == 65
    write_source(source)
    night.clock.advance(DAY + 7 * HOUR)
    assert night(*RUN).code == 3
    told = pager.told()
    assert told == [("2026-11-30", "failed", "raised"), ("2026-12-01", "overdue", "raised")]
    found = check(night)
    assert (found.code, "backlog=1" in found.data, "unrecorded=0" in found.data) == (2, True, True)
    assert night("skip", "entitlements", "2026-11-30", "-m", "known").code == 0
    assert night(*RUN).code == 0
    assert sorted(pager.told()) == [
        ("2026-11-30", "failed", "cleared"),
        ("2026-12-01", "overdue", "cleared"),
    ]


def test_a_night_that_nothing_can_make_good_is_told_until_somebody_signs_for_it(
    night: Cli, pager: Pager
) -> None:
    """Its source is dated: the next night is completed first, and overtakes it."""
    (night.folder / "exports").mkdir()
    night.configure(LIVE.replace("export.csv", "exports/{date}.csv"))
    assert night(*RUN).code == 69
    night.clock.advance(DAY)
    write_source(night.folder / "exports/2026-12-01.csv")
    assert night(*RUN).code == 0
    assert pager.told() == [("2026-11-30", "failed", "raised")]
    assert check(night).code == 2
    night.clock.advance(HOUR)
    assert night(*RUN).code == 0
    assert pager.told() == []
    assert night("skip", "entitlements", "2026-11-30", "-m", "no export").code == 0
    again = night("skip", "entitlements", "2026-11-30", "-m", "no export")
    assert (again.code, "is failed: there is nothing to skip" in again.words) == (2, True)
    assert check(night).code == 0
    assert night(*RUN).code == 0
    assert pager.told() == [("2026-11-30", "failed", "cleared")]
    shown = night("status", "entitlements", "2026-11-30")
    assert 'svc-rec signed for it, failed (overtaken): "no export"' in shown.words
    state = json.loads(night("status", "entitlements", "2026-11-30", "--json").data)
    assert state["intervals"][0]["state"] == "failed"


def test_a_range_that_kills_every_run_is_named_and_told(night: Cli, pager: Pager) -> None:
    for _ in range(3):
        killed(night, "range_committed")
    assert pager.told() == []
    assert check(night).code == 1
    killed(night, "run_opened")  # it counts the third kill, and dies too
    assert night(*RUN).code == 1
    assert pager.told() == [("2026-11-30", "stalled", "raised")]
    found = check(night)
    assert found.code == 2
    assert "was killed 3 times in applying range 1, without progress" in found.data
    night.clock.advance(6 * DAY)
    assert night(*RUN).code == 0
    assert pager.told() == [("2026-11-30", "stalled", "cleared")]
    metrics = night("status", "--metrics").data
    assert 'reconcile_lease_losses_total{how="silent",job="entitlements"} 4.0' in metrics
    assert 'reconcile_ranges_repeated_total{job="entitlements"} 4.0' in metrics
    assert 'reconcile_attempts_total{job="entitlements"} 11.0' in metrics
    assert 'reconcile_duplicate_attempts_total{how="again",job="entitlements"} 4.0' in metrics


def test_a_pass_that_is_begun_again_and_again_is_warned_of_and_earlier_passes_are_not_counted(
    night: Cli,
) -> None:
    night.configure(LIVE.replace("max_attempts = 3", "max_attempts = 2"))
    assert night(*RUN).code == 0
    rerun = ("rerun", "entitlements", "2026-11-30", "-m", "again")
    assert [night(*rerun).code for _ in range(2)] == [0, 0]
    killed(night, "run_opened", call=rerun)
    assert (check(night).code, "begun" in check(night).data) == (0, False)
    killed(night, "checkpoint_saved")
    assert "begun" not in check(night).data
    killed(night, "checkpoint_saved")
    shown = check(night)
    assert (shown.code, "2026-11-30 was begun 3 times" in shown.data) == (1, True)


def left_to_triggers(cli: Cli) -> None:
    """A backfill of three nights."""
    cli.configure(LIVE.replace("export.csv", "exports/{date}.csv"))
    write_target(cli.folder / "app.db")
    (cli.folder / "exports").mkdir()
    for night in ("2026-11-20", "2026-11-21", "2026-11-22", "2026-11-30"):
        write_source(cli.folder / f"exports/{night}.csv")
    cli.stop.reason = "SIGTERM"  # it is asked for, and left to triggers
    span = ("--from", "2026-11-20", "--to", "2026-11-22", "--rate", "1/h")
    cli("backfill", "entitlements", *span, "-m", "OPS-9", "--actor", "alice")
    cli.stop.reason = None


def test_a_backfill_does_not_stand_still_while_its_job_is_paused(cli: Cli, pager: Pager) -> None:
    left_to_triggers(cli)
    assert cli("pause", "entitlements", "-m", "failover").code == 0
    cli.clock.advance(10 * HOUR)
    assert cli("unpause", "entitlements", "-m", "done").code == 0
    assert cli(*RUN).code == 0
    assert [one for one in pager.told() if one[1] == "stalled"] == []


def test_a_backfill_that_stands_still_is_told_of_until_it_gets_further(
    cli: Cli, pager: Pager
) -> None:
    left_to_triggers(cli)
    hangs = store(cli)
    holder = Holder("elsewhere", "m", "b", "n", 1, 1, "t")
    lease = hangs.acquire(
        LeaseKey("entitlements"), RunId("x"), holder, timedelta(days=8), interval="x"
    )
    for hours, stands in ((6, False), (2, True)):
        cli.clock.advance(hours * HOUR)
        assert cli(*RUN).code == 75
        texts = [alert["text"] for _, alert in pager.got]
        told = [text for text in texts if "backfill #1 has begun nothing for 8h" in text]
        assert len(told) == stands, texts
        assert (("2026-11-20", "stalled", "raised") in pager.told()) == stands
    assert told[0].endswith(": 3 left, the next is 2026-11-20")
    hangs.release(lease.fence, 1, None)
    hangs.close()
    assert cli(*RUN).code == 0
    assert ("2026-11-20", "stalled", "cleared") in pager.told()


def test_an_alert_is_sent_again_under_its_id_where_a_call_died_while_it_was_sent(
    night: Cli, pager: Pager
) -> None:
    fails_once(night)
    night.clock.advance(7 * HOUR)

    def dies(channel: str, alert: Any) -> None:
        pager.got.append((channel, alert))
        raise KeyboardInterrupt

    pager.before = dies
    assert night(*RUN).code == 130
    ((_, first),) = pager.got
    pager.before = lambda channel, alert: None
    assert night(*RUN).code == 1
    assert len(pager.got) == 1, "whoever claimed it may still be sending it"
    night.clock.advance(121)
    assert night(*RUN).code == 1
    (_, (_, second)) = pager.got
    assert second["id"] == first["id"]
    assert night(*RUN).code == 1
    assert len(pager.got) == 2


def test_only_what_was_not_delivered_is_sent_again_and_no_run_fails_for_it(
    night: Cli, pager: Pager
) -> None:
    pager.channels = ("command", "notify 1")
    pager.broken = {"notify 1"}
    fails_once(night)
    night.clock.advance(7 * HOUR)
    shown = night("-q", *RUN)
    assert shown.code == 1
    warnings = [line for line in shown.words.splitlines() if "warning" in line]
    assert warnings == [
        "2026-11-30T09:30:00Z entitlements warning: alert entitlements/2026-11-30/overdue not"
        " delivered: notify 1 is out of order"
    ]
    assert [channel for channel, _ in pager.got] == ["command"]
    assert "warning" not in night("-q", *RUN).words, "a mail has told of it"
    assert (
        "entitlements 2026-11-30: its alert (overdue) could not be delivered" in check(night).data
    )
    undelivered = 'reconcile_alerts_undelivered{job="entitlements"}'
    assert f"{undelivered} 1.0" in night("status", "--metrics").data
    assert "warning" in night(*RUN).words
    pager.broken = set()
    assert night(*RUN).code == 1
    assert [channel for channel, _ in pager.got] == ["command", "notify 1"]
    assert night(*RUN).code == 1
    assert len(pager.got) == 2
    assert f"{undelivered} 0.0" in night("status", "--metrics").data


def test_a_call_that_is_refused_judges_too(
    night: Cli, pager: Pager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*args: Any, **options: Any) -> None:
        raise TargetLocked("somebody has locked it")

    fails_once(night)
    night.clock.advance(6 * DAY)
    monkeypatch.setattr(comparing, "compare", locked)
    assert night(*RUN).code == 69
    assert pager.told() == [("2026-11-30", "overdue", "raised")]


def test_a_call_with_nothing_due_and_nothing_to_tell_writes_nothing(
    night: Cli, pager: Pager
) -> None:
    assert night(*RUN).code == 0
    before = written(night)
    night.clock.advance(60)
    assert night(*RUN).code == 0
    assert written(night) == before
    assert pager.told() == []


def test_one_call_a_minute_looks_at_all_jobs(night: Cli, pager: Pager) -> None:
    night.configure(LIVE + OTHER)
    assert night(*RUN).code == 0
    assert pager.told() == []
    night.clock.advance(2 * HOUR)
    assert night(*RUN).code == 0
    assert pager.told() == [("2026-11-30", "overdue", "raised")]
    stamped = [row for row in written(night) if row[1] == ALL]
    night.clock.advance(59)
    assert night(*RUN).code == 0
    assert [row for row in written(night) if row[1] == ALL] == stamped
    night.clock.advance(1)
    assert night(*RUN).code == 0
    assert [row for row in written(night) if row[1] == ALL] != stamped
    assert pager.told() == []


def test_one_line_of_cron_for_all_jobs_judges_those_that_have_nothing_due(
    night: Cli, pager: Pager
) -> None:
    fails_once(night)
    night.clock.advance(6 * HOUR - 600)
    assert night(*RUN).code == 1
    night.clock.advance(601)
    assert pager.told() == []
    assert night("run", "--all").code == 1
    assert pager.told() == [("2026-11-30", "overdue", "raised")]


def test_figures_are_published_by_whoever_worked_and_once_a_minute(
    night: Cli, pager: Pager
) -> None:
    pager.wants_figures = True
    assert night(*RUN).code == 0
    assert len(pager.published) == 1
    assert night(*RUN).code == 0
    assert len(pager.published) == 1
    night.clock.advance(60)
    pager.broken = {"figures"}
    assert "warning: the metrics file cannot be written" in night("-q", *RUN).words
    night.clock.advance(60)
    assert "warning" not in night("-q", *RUN).words
    night.clock.advance(60)
    pager.broken = set()
    assert night(*RUN).code == 0
    assert len(pager.published) == 2
    night.clock.advance(60)
    pager.broken = {"figures"}
    assert "warning" in night("-q", *RUN).words


def test_the_trail_tells_what_was_told(night: Cli, pager: Pager) -> None:
    fails_once(night)
    night.clock.advance(7 * HOUR)
    night(*RUN)
    assert night("resume", "entitlements", "2026-11-30").code == 0
    trail = " ".join(night("status", "entitlements", "2026-11-30").words.split())
    assert "alert raised: entitlements 2026-11-30 is 1h past its deadline (6h)" in trail
    assert "alert cleared: entitlements 2026-11-30 is no longer past its deadline" in trail


@pytest.fixture
def missing(night: Cli) -> Cli:
    """Five nights are done, and a disk has lost the record of the third."""
    for _ in range(5):
        assert night(*RUN).code == 0
        night.clock.advance(DAY)
    opened = store(night)
    opened._file.write(
        lambda db: db.execute(
            "DELETE FROM record WHERE kind = 'interval' AND key = '2026-12-02T02:30:00Z'"
        )
    )
    opened.close()
    assert night(*RUN).code == 0
    return night


def test_a_scheduled_interval_without_a_record_is_critical(missing: Cli) -> None:
    found = check(missing)
    assert found.code == 2
    assert "entitlements: 1 scheduled intervals have no record" in found.data
    assert "unrecorded=1" in found.data
    words = " ".join(missing("status", "entitlements").words.split())
    assert "5 of 6 intervals since 2026-11-30 00:00Z; 1 have no record and are not due" in words
    told = json.loads(missing("status", "entitlements", "--json").data)["jobs"][0]["recorded"]
    since = "2026-11-30T00:00:00Z"
    assert told == {"since": since, "intended": 6, "recorded": 5, "missing": 1}


def test_a_store_that_cannot_be_read_is_unknown(night: Cli) -> None:
    (night.folder / "reconcile.db").write_bytes(b"not a database, and long enough" * 99)
    found = check(night)
    assert found.code == 3
    assert found.data.startswith("RECONCILE UNKNOWN: ")
    assert (found.data.count("\n"), "|" in found.data, found.words) == (1, False, "")
    night.configure("[jobs.x]")
    assert check(night).code == 3
    assert check(night, "nobody").code == 3


def test_check_and_metrics_take_nothing_that_is_about_one_interval(night: Cli) -> None:
    assert night("status", "entitlements", "latest", "--check").code == 2
    assert night("status", "--check", "--metrics").code == 2


def test_figures_by_reason_are_those_of_the_records(night: Cli, pager: Pager) -> None:
    """Skips one by one, a span, a skip by hand and one that is taken back, done and failed."""
    text = LIVE.replace("30 2 * * *", "* * * * *").replace("start = 2026-11-30\n", "")
    night.configure(text.replace('{ policy = "all" }', '{ policy = "latest", window = "2h" }'))
    assert night(*RUN).code == 0
    night.clock.advance(5 * 60)
    assert night(*RUN).code == 0
    night.clock.advance(10 * HOUR)
    assert night(*RUN).code == 0
    night.clock.advance(60)
    assert night("skip", "entitlements", "oldest", "-m", "no").code == 0
    night.clock.advance(60)
    assert night("skip", "entitlements", "oldest", "-m", "no").code == 0
    assert night("rerun", "entitlements", "2026-11-30T12:37Z", "-m", "yes").code == 0
    opened = store(night)
    records = [one.value for one in opened.scan(Kind.INTERVAL, "entitlements")]
    events = [one.value for one in opened.scan(Kind.EVENT, "entitlements", limit=10**6)]
    opened.close()
    counted: dict[tuple[str, str], int] = {}
    for record in records:
        key = (record["state"], record.get("reason", ""))
        counted[key] = counted.get(key, 0) + record.get("span", 1)
    metrics = night("status", "--metrics").data
    for (state, reason), number in counted.items():
        line = f'reconcile_intervals{{job="entitlements",reason="{reason}",state="{state}"}}'
        assert f"{line} {float(number)}\n" in metrics
    skipped = [event for event in events if event["type"] == "skipped"]
    # One event for each record: two by hand, of which one was taken back.
    total = sum(record["state"] == "skipped" for record in records)
    assert len(skipped) == total + 1
    assert all(event["reason"] for event in skipped)
    assert any(record.get("span", 1) > 100 for record in records)
    assert "unrecorded=0" in check(night).data


def test_a_secret_of_an_address_is_shown_nowhere(cli: Cli, tmp_path: Path) -> None:
    write_target(cli.folder / "app.db")
    write_source(cli.folder / "export.csv")
    cli.configure(
        LIVE.replace(
            'command = ["page"]', 'notify = ["mailto://user:hunter2-Zq9x@h/hunter2-Zq9x"]'
        ).replace("deadline", 'heartbeat = "http://127.0.0.1:9/hunter2-Zq9x"\ndeadline')
    )
    for argv in (("config",), ("config", "--json"), RUN, ("status",), ("status", "--metrics")):
        shown = cli(*argv)
        assert shown.code == 0
        assert "hunter2" not in shown.data + shown.words
    assert 'notify = ["mailto://***"]' in cli("config").data
    assert 'heartbeat = "http://127.0.0.1:9/***"' in cli("config").data
    (cli.folder / "notify.txt").write_text("# mail\nmailto://hunter2@h\n\njson://hunter2\n")
    (cli.folder / "ping.txt").write_text("http://127.0.0.1:9/hunter2-Zq9x\n")
    files = LIVE.replace('command = ["page"]', 'notify_file = "notify.txt"')
    cli.configure(files.replace("deadline", 'heartbeat_file = "ping.txt"\ndeadline'))
    shown = cli("config")
    assert 'notify_file = "notify.txt"' in shown.data
    assert 'heartbeat_file = "ping.txt"' in shown.data
    assert "hunter2" not in shown.data
    found = load(None, environ={}, cwd=cli.folder)
    assert found.alerts.notify == ("mailto://hunter2@h", "json://hunter2")
    assert found.jobs["entitlements"].heartbeat == "http://127.0.0.1:9/hunter2-Zq9x"
    (cli.folder / "notify.txt").rename(cli.folder / "gone.txt")
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.suffix not in {".toml", ".txt"}:
            assert b"hunter2" not in path.read_bytes(), path


def test_from_the_configuration_to_the_command_the_switch_and_the_file(cli: Cli) -> None:
    """Nothing is in the place of anything here."""
    write_target(cli.folder / "app.db")
    write_source(cli.folder / "export.csv")
    page = cli.folder / "page"
    page.write_text('#!/bin/sh\ncat >> "$1"\n')
    page.chmod(0o755)
    with serving() as server:
        switch = f"http://127.0.0.1:{server.server_port}/ping"
        text = LIVE.replace('["page"]', '["./page", "got"]\nmetrics_file = "m.prom"')
        cli.configure(text.replace("deadline", f'heartbeat = "{switch}"\ndeadline'))
        assert cli(*RUN).code == 0
        (cli.folder / "export.csv").rename(cli.folder / "away.csv")
        cli.clock.advance(DAY + 7 * HOUR)
        assert cli(*RUN).code == 69
        paths = [path.partition("?")[0] for _, path, _ in server.asked]
        rids = [path.partition("rid=")[2] for _, path, _ in server.asked]
    assert paths == ["/ping/start", "/ping", "/ping/start", "/ping/fail"]
    assert rids[0] == rids[1] != rids[2] == rids[3]
    (alert,) = [json.loads(line) for line in (cli.folder / "got").read_text().splitlines()]
    assert (alert["kind"], alert["state"]) == ("overdue", "raised")
    figures = (cli.folder / "m.prom").read_text()
    by_openmetrics = {
        (one.name, one.type) for one in openmetrics.text_string_to_metric_families(figures)
    }
    assert by_openmetrics >= MEASURES
    # node_exporter's textfile collector reads the older format.
    samples = {
        s.name for one in prometheus.text_string_to_metric_families(figures) for s in one.samples
    }
    assert {f"{name}_total" if kind == "counter" else name for name, kind in MEASURES} <= samples
    assert 'reconcile_backlog_age_seconds{job="entitlements"} 25200.0' in figures
    assert figures == cli("status", "--metrics").data
