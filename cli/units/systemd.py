"""A service and a timer, which systemd 252 and later take as they stand.

The service is `Type=notify`: a oneshot service has no watchdog, for it counts as starting until
it ends. So `systemctl start` comes back when the call has begun; `--wait` waits for its end.
The watchdog hears of a call for as long as renewal's rule of progress holds
(`cli/delivery/manager.py`), and is as patient as the lease: when it ends a process, others may
have its work already. It ends it by SIGKILL, which leaves an interval that is gone on with.

A knock that comes while the service is active is none: systemd keeps one of each unit. Busy (75)
is what a call on another host, or by hand, makes of one.

Words of `ExecStart=` are quoted, with a backslash before what is special within quotes; `%`
begins a specifier and is doubled; `$` begins a variable, unless a `:` stands before the program.
Lists of paths are quoted likewise.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ...core.errors import UsageError
from ...core.toml_values import show_duration
from ..exit_codes import ExitCode
from .hardening import hardened
from .plan import HOUR, MINUTE, often

if TYPE_CHECKING:
    from pathlib import Path

    from .plan import Plan

SUCCESS = (ExitCode.BUSY, ExitCode.OUT_OF_TIME, ExitCode.SIGTERM)
"""Busy, out of time with the checkpoint saved, and stopped as asked are no failures."""
LEAST_STOP = timedelta(seconds=90)
LEAST_WATCH = timedelta(minutes=3)
TELLING = timedelta(seconds=30)
"""So long may telling one channel of alerts take, when there is no lease any more."""
_IN_PROGRAMS = "'\"\\"
"""What systemd takes in no program's path."""


def service(plan: Plan, *, on_failure: str | None) -> str:
    """The unit that calls it once. Raises `UsageError` where systemd cannot say it."""
    needs = plan.needs
    touched = {*needs.reads, *needs.writes}
    tops = sorted(path for path in touched if not touched & {*path.parents})
    paths = " ".join(map(path_word, tops))
    unit = [
        f"Description=reconcile: do what is due of {plan.job}",
        f"RequiresMountsFor={paths}",
    ]
    if needs.network:
        unit += ["Wants=network-online.target", "After=network-online.target"]
    if plan.every < MINUTE:
        unit.append("StartLimitIntervalSec=0")
    if on_failure is not None:
        unit += [
            "# At each knock that fails, also while one and the same night waits for its retry or",
            "# for an approval; [alerts] tell of each once.",
            f"OnFailure={on_failure}",
        ]
    stop = max(LEAST_STOP, plan.ttl + plan.kill_after)
    watch = max(LEAST_WATCH, plan.ttl) + plan.channels * TELLING
    called = [
        "Type=notify",
        f"User={plan.user}",
        f"ExecStart={exec_start(plan)}",
        *_variables(plan),
        "# Busy, out of time and stopped, the checkpoint saved: no failures.",
        f"SuccessExitStatus={' '.join(str(int(code)) for code in SUCCESS)}",
        "# Asked to stop, it ends at a checkpoint; who takes longer is gone on with from there.",
        "KillMode=mixed",
        f"TimeoutStopSec={show_duration(stop)}",
        "# It hears of a call for as long as the lease is renewed, which needs progress.",
        f"WatchdogSec={show_duration(watch)}",
        "WatchdogSignal=SIGKILL",
        *hardened(plan),
    ]
    return "\n".join(["[Unit]", *unit, "", "[Service]", *called, ""])


def timer(plan: Plan) -> str:
    """The unit that knocks. A knock that was missed while the machine was off is made up."""
    return "\n".join(
        [
            "[Unit]",
            f"Description=Knock for {plan.unit}.service {often(plan.every)}",
            "",
            "[Timer]",
            f"# {plan.job} is due {plan.due}; what is due is looked up at each knock.",
            f"OnCalendar={on_calendar(plan)}",
            "AccuracySec=1s",
            "Persistent=true",
            "",
            "[Install]",
            "WantedBy=timers.target",
            "",
        ]
    )


def on_calendar(plan: Plan) -> str:
    """A calendar event that comes so often; in UTC where the host's zone would shift it away
    from scheduled minutes."""
    every = plan.every
    hour, minute = divmod(plan.offset // MINUTE, 60)
    if every < MINUTE:
        event = f"*:*:0/{int(every.total_seconds())}"
    elif every < HOUR:
        minutes = every // MINUTE
        event = "*:*" if minutes == 1 else f"*:{minute}/{minutes}"
    elif every == HOUR:
        event = f"*:{minute:02}"
    elif every == 24 * HOUR:
        event = f"{hour:02}:{minute:02}"
    else:
        event = f"{hour}/{every // HOUR}:{minute:02}"
    return f"{event} UTC" if plan.shift % every else event


def exec_start(plan: Plan) -> str:
    """The command line."""
    program, *rest = plan.argv
    if any(mark in program for mark in _IN_PROGRAMS):
        raise UsageError(
            f"systemd starts no program with a quote or a backslash in its path: {program}",
            hint="link it under another name, and call that",
        )
    literal = ":" if any("$" in word for word in plan.argv) else ""
    return " ".join([literal + word_of(program), *map(word_of, rest)])


def word_of(text: str) -> str:
    """One word of a command line, or of a list of paths, as systemd reads it back."""
    if not text.isprintable():
        raise UsageError(f"{text!r} cannot stand in a unit", hint="give that path another name")
    text = text.replace("%", "%%")
    if text and not set(text) & set(" \t'\"\\;"):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def path_word(path: Path, mark: str = "") -> str:
    """A path in a list of them; `mark` is what systemd wants before it."""
    return word_of(f"{mark}{path}")


def _variables(plan: Plan) -> list[str]:
    """A unit has none of the variables that whoever prints it has."""
    if not plan.variables:
        return []
    names = ", ".join(plan.variables)
    return [
        f"# {plan.origin.name} reads {names}: NAME=value, a line each, in a file of mode 0600.",
        f"EnvironmentFile=/etc/reconcile/{plan.job}.env",
    ]
