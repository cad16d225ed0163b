"""Who calls a job: read from crontabs and timers as their own daemons read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reconcile.cli.premises import LinuxPremises
from reconcile.core.operations.doctor import crontabs, timers
from reconcile.core.operations.doctor.premises import Called, Crontab, Timer

NOW = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)
READ = LinuxPremises({}).called
TEN = timedelta(minutes=10)
SERVICE = "[Service]\nType=oneshot\nExecStart=/usr/bin/reconcile -q run night\n"


def called(line: str, user: str | None = "ops") -> list[tuple[Called, timedelta | None]]:
    found = crontabs.calls_of(Crontab("crontab of ops", line, user), READ, NOW)
    return [(call.called, call.gap) for call in found]


def by_timer(text: str, service: str = SERVICE, **more: object) -> list[tuple[str | None, object]]:
    timer = Timer("night.timer", text, service, **{"enabled": True, **more})  # type: ignore[arg-type]
    return [(call.called.job, call.gap) for call in timers.calls_of(timer, READ, NOW)]


@pytest.mark.parametrize(
    ("line", "job", "config"),
    [
        ("*/10 * * * * reconcile run night", "night", None),
        (
            "*/10 * * * * cd /srv && /usr/bin/reconcile -q -c /srv/a.toml run night",
            "night",
            "/srv/a.toml",
        ),
        (
            "*/10 * * * * /usr/bin/reconcile run --config=a.toml night >/dev/null 2>&1",
            "night",
            "a.toml",
        ),
        ("*/10 * * * * reconcile run -E 0 --max-runtime 2h night; echo", "night", None),
        ("*/10 * * * * nice -n 5 reconcile run --all -q", None, None),
        ("*/10 * * * * python3 -m reconcile run night", "night", None),
        ("*/10 * * * * /opt/my\\ dir/reconcile run 'two words'", "two words", None),
        ("*/10 * * * * reconcile run night%standard input", "night", None),
    ],
)
def test_a_line_of_cron_tells_which_job_it_calls(
    line: str, job: str | None, config: str | None
) -> None:
    assert called(line) == [(Called(job, config), TEN)]


@pytest.mark.parametrize(
    "line",
    [
        "# */10 * * * * reconcile run night",
        "MAILTO=reconcile",
        "*/10 * * * * echo reconcile",
        "*/10 * * * * reconcile status night",
        "*/10 * * * * reconcile run",
        "*/10 * * * * reconcile run night extra words",
        "*/10 * * * * /usr/bin/reconcile-other run night",
        "*/10 * * * * unbalanced 'quote",
    ],
)
def test_what_calls_no_job_is_not_taken_for_a_call(line: str) -> None:
    assert called(line) == []


def test_a_system_table_names_the_user_before_the_command() -> None:
    line = "30 2 * * * svc-rec reconcile run night"
    assert called(line, None) == [(Called("night", None), timedelta(days=1))]


@pytest.mark.parametrize(
    ("expression", "gap"),
    [
        ("@hourly", timedelta(hours=1)),
        ("30 2 * * *", timedelta(days=1)),
        ("0 8-18 * * 1-5", timedelta(days=2, hours=14)),
        ("0 0 1 1 *", timedelta(days=366)),
        ("@reboot", None),
        ("61 * * * *", None),
    ],
)
def test_the_longest_time_between_two_calls_counts(expression: str, gap: timedelta | None) -> None:
    assert called(f"{expression} reconcile run night") == [(Called("night", None), gap)]


@pytest.mark.parametrize(
    ("setting", "gap"),
    [
        ("OnCalendar=*:0/10", TEN),
        ("OnCalendar=hourly", timedelta(hours=1)),
        ("OnUnitActiveSec=1h 30min", timedelta(minutes=90)),
        ("OnUnitInactiveSec=600", TEN),
        ("OnCalendar=daily\nOnUnitActiveSec=10min", TEN),
        ("OnCalendar=*:0/10\nOnCalendar=\nOnCalendar=daily", timedelta(days=1)),
        ("OnBootSec=5min", None),
    ],
)
def test_a_timer_tells_how_often_it_elapses(setting: str, gap: timedelta | None) -> None:
    assert by_timer(f"[Timer]\n{setting}\n") == [("night", gap)]


def test_a_template_calls_the_job_that_is_its_instance() -> None:
    service = "[Service]\nExecStart=-/bin/sh -c 'exec reconcile run %i'\n"
    assert by_timer("OnCalendar=*:0/10", service, instance="night") == [("night", TEN)]


@pytest.mark.parametrize(
    ("more", "off"),
    [
        ({"enabled": True}, ""),
        ({"enabled": False}, "systemctl enable --now night.timer"),
        ({"enabled": False, "active": True}, ""),
        ({"enabled": True, "active": False}, "systemctl start night.timer"),
        ({"enabled": False, "by_user": True}, "systemctl --user enable --now night.timer"),
    ],
)
def test_a_timer_that_is_off_says_how_it_is_switched_on(more: dict[str, bool], off: str) -> None:
    timer = Timer("night.timer", "OnCalendar=*:0/10", SERVICE, **{"enabled": True, **more})
    assert [call.off for call in timers.calls_of(timer, READ, NOW)] == [off]
