"""`resume`: what it asks for, who signs, and what several jobs come to."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from support.cli import Cli

from reconcile.core.events import IntervalReport, RunReport
from reconcile.core.model import Outcome, Trigger

AT = datetime(2026, 11, 30, 2, 41, 9, tzinfo=UTC)


def fared(job: str, outcome: Outcome, day: int) -> IntervalReport:
    return IntervalReport(
        job=job,
        interval=f"2026-11-{day}",
        scheduled_at=datetime(2026, 11, day, 2, 30, tzinfo=UTC),
        outcome=outcome,
        trigger=Trigger.RESUME,
        generation=9,
        at=AT,
    )


def ended(job: str, outcome: Outcome, day: int) -> RunReport:
    return RunReport(job, outcome, AT, [fared(job, outcome, day)])


DONE = ended("entitlements", Outcome.COMPLETED, 28)
WAITS = ended("backup", Outcome.NEEDS_APPROVAL, 27)
FAILED = ended("vacuum", Outcome.FAILED, 29)


def test_an_approval_is_signed_with_name_and_reason(cli: Cli) -> None:
    cli.resume_answers(DONE)
    (request,) = cli(
        *("resume", "entitlements", "2026-11-28", "--approve", "4e1f9c2ab0d3"),
        *("-m", " cancelled plans, OPS-12 ", "--actor", "alice"),
    ).requests
    assert (request.job, request.interval) == ("entitlements", "2026-11-28")
    assert (request.approve, request.actor) == ("4e1f9c2ab0d3", "alice")
    assert request.reason == "cancelled plans, OPS-12"


def test_a_person_at_a_terminal_is_asked_why(cli: Cli) -> None:
    cli.resume_answers(DONE)
    cli.terminal, cli.typed = True, "OPS-12\n"
    shown = cli("resume", "entitlements", "latest", "--approve", "4e1f")
    assert shown.words.startswith("Why (--approve)? ")
    assert shown.requests[0].reason == "OPS-12"


@pytest.mark.parametrize(("terminal", "typed"), [(True, "\n"), (True, ""), (False, "OPS-12\n")])
def test_an_approval_without_a_reason_is_refused(cli: Cli, terminal: bool, typed: str) -> None:
    cli.resume_answers(DONE)
    cli.terminal, cli.typed = terminal, typed
    shown = cli("resume", "entitlements", "latest", "--approve", "4e1f")
    assert (shown.code, shown.requests) == (2, ())
    assert shown.words.endswith(
        'reconcile: --approve needs a reason, which is kept on record\n  add -m "why"\n'
    )
    assert cli("resume", "entitlements", "latest", "--approve", "4e1f", "-m", "  ").code == 2


@pytest.mark.parametrize("named", [(), ("entitlements",)])
def test_an_approval_names_what_it_approves(cli: Cli, named: tuple[str, ...]) -> None:
    shown = cli("resume", *named, "--approve", "4e1f", "-m", "OPS-12")
    assert shown.code == 2
    assert "--approve needs the job and the interval" in shown.words


def test_going_on_needs_no_reason(cli: Cli) -> None:
    cli.resume_answers(DONE)
    (request,) = cli("resume", "entitlements").requests
    assert (request.job, request.interval, request.approve) == ("entitlements", None, None)
    assert (request.actor, request.reason) == ("svc-rec", "")


def test_nothing_to_resume_is_said(cli: Cli) -> None:
    cli.resume_answers()
    assert str(cli("resume")) == "$ reconcile resume\n2> nothing is unfinished\nexit 0\n"
    assert cli("resume", "-q").words == ""
    assert json.loads(cli("resume", "--json").data) == {"schema": 1, "exit": 0, "jobs": []}


def test_of_several_jobs_the_oldest_unfinished_interval_decides(cli: Cli) -> None:
    cli.resume_answers(DONE, FAILED, WAITS)
    shown = cli("resume")
    assert shown.code == 4
    assert [line.split()[1] for line in shown.words.splitlines()] == [
        "entitlements",
        "vacuum",
        "backup",
    ]


def test_several_jobs_are_one_object(cli: Cli) -> None:
    cli.resume_answers(DONE, FAILED)
    value = json.loads(cli("resume", "--json").data)
    assert (value["exit"], [job["exit"] for job in value["jobs"]]) == (1, [0, 1])
    assert [job["job"] for job in value["jobs"]] == ["entitlements", "vacuum"]


def test_one_job_is_the_object_that_run_prints(cli: Cli) -> None:
    cli.resume_answers(DONE)
    value = json.loads(cli("resume", "entitlements", "--json").data)
    assert (value["job"], value["outcome"], value["exit"]) == ("entitlements", "completed", 0)
    assert value["intervals"][0]["trigger"] == "resume"
