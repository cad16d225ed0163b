"""`reconcile add`: a job from a command that cron has called so far."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, NamedTuple

from ...core.errors import ConfigError, UsageError
from ..exit_codes import ExitCode
from ..options import Argument, Call, Option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from ...core.config import Config
    from ..adding.command import Adopted

NameArgument = Annotated[str, Argument("NAME", "The new job's name.")]
CommandArgument = Annotated[
    list[str], Argument("COMMAND…", "The command, after --; or a crontab line, in quotes.")
]
ScheduleOption = Annotated[
    str | None,
    Option(("--schedule",), "Five cron fields, @daily, or a calendar event of systemd.", "S"),
]
ZoneOption = Annotated[
    str | None, Option(("--timezone",), "The zone of the schedule; else UTC.", "ZONE")
]
DeadlineOption = Annotated[
    str | None, Option(("--deadline",), "After its time it is overdue: 90m, 6h, 3d.", "D")
]
SHOWN = 3


class _Added(NamedTuple):
    """What was added, and to which file."""

    path: Path
    made: bool
    schedule: str
    adopted: Adopted
    notes: Sequence[str]
    coming: Sequence[datetime]
    line: str | None


def add(
    call: Call,
    name: NameArgument,
    command: CommandArgument,
    schedule: ScheduleOption = None,
    timezone: ZoneOption = None,
    deadline: DeadlineOption = None,
) -> int:
    """Append a job to reconcile.toml, and print its crontab line.

    A `flock …` before the command is left out, because the lease does that. What is in the file
    stays as it is; where there is none it is made here, or where --config says. With a whole
    crontab line in quotes, no --schedule is needed. Exit status: 0 added, 2 a name that is
    taken or a job that cannot be, 69 and 77 a file that cannot be written, 78 a configuration
    that is wrong already.
    """
    from ..adding.command import adopted

    notes: list[str] = []
    if schedule is None:
        schedule, timezone, command = _pasted(call, name, command, timezone, notes)
    elif timezone is None and call.env.zone != "UTC":
        notes.append(
            f"the schedule is in UTC, and this machine in {call.env.zone}: that would be"
            f" --timezone {call.env.zone}"
        )
    values: dict[str, str | tuple[str, ...]] = {"schedule": schedule}
    if timezone is not None:
        values["timezone"] = timezone
    if deadline is not None:
        values["deadline"] = deadline
    found = adopted(command)
    values["command"] = found.command
    added = _append(call, name, values, found, notes)
    _show(call, name, added)
    return ExitCode.OK


def _pasted(
    call: Call, name: str, command: Sequence[str], timezone: str | None, notes: list[str]
) -> tuple[str, str | None, list[str]]:
    """Schedule, time zone and command of a crontab line. cron means the clock on the wall."""
    from ..adding.crontab import crontab_line

    line = crontab_line(command[0]) if len(command) == 1 else None
    if line is None:
        raise UsageError(
            "when? neither --schedule nor a crontab line in quotes says it",
            hint=f'write reconcile add {name} --schedule "30 2 * * *" -- COMMAND …'
            f"\nor reconcile add {name} '30 2 * * * COMMAND …'",
        )
    if line.user is not None:
        notes.append(f"{line.user} is left out: it runs as whoever calls it")
    if timezone is None and call.env.zone != "UTC":
        timezone = call.env.zone
        notes.append(f"cron means this machine's clock: timezone is {timezone}")
    return line.schedule, timezone, [line.command]


def _append(
    call: Call,
    name: str,
    values: dict[str, str | tuple[str, ...]],
    adopted: Adopted,
    notes: list[str],
) -> _Added:
    from ...core.toml import JOB_NAME, NAME_RULE
    from ..adding.table import appended, table, turn, write

    if not JOB_NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a job", hint=NAME_RULE)
    env = call.env
    path = _path(call)
    with turn(path):
        files = _files(call, path) if path.exists() else []
        before = path.read_bytes() if files else None
        if files:
            there = _check(call, files).jobs.get(name)  # what is wrong already is told as always
            if there is not None:
                raise UsageError(
                    f"{name} is a job already, of {there.origin}", hint="choose another name"
                )
        text = table(name, values)
        after = appended(before or b"", text)
        try:
            config = _check(call, [(path, after.decode("utf-8-sig")), *files[1:]])
        except ConfigError as error:
            raise UsageError(
                f"{name} cannot be added: {error}", hint=error.hint or "nothing was written"
            ) from error
        write(path, before, after)
    return _Added(
        path,
        before is None,
        str(values["schedule"]),
        adopted,
        (*notes, *adopted.notes),
        _coming(config, name, env.clock.now()),
        _crontab(call, config, name, path),
    )


def _path(call: Call) -> Path:
    """The configuration that would be read; where there is none, the one to be made."""
    from ..configuration import NAME, VARIABLE, find

    env, explicit = call.env, call.options.config
    named = explicit or env.environ.get(VARIABLE) or None
    if named is not None:
        return env.cwd / named
    try:
        return find(None, environ=env.environ, cwd=env.cwd)
    except ConfigError:
        return env.cwd / NAME


def _files(call: Call, path: Path) -> list[tuple[Path, str]]:
    from ..configuration import read

    return read(path, environ=call.env.environ, cwd=call.env.cwd)


def _check(call: Call, files: Sequence[tuple[Path, str]]) -> Config:
    from ...core.toml import parse
    from ..configuration import read_secret

    env = call.env
    return parse(files, env.environ, cwd=env.cwd, read_secret=read_secret)


def _coming(config: Config, name: str, now: datetime) -> list[datetime]:
    from itertools import islice

    from ...core.effective import LAST
    from ...core.schedule import Schedule

    job = config.jobs[name]
    assert job.schedule is not None, "that is what was given"
    return list(islice(Schedule(job.schedule, job.timezone, job.dst).between(now, LAST), SHOWN))


def _crontab(call: Call, config: Config, name: str, path: Path) -> str | None:
    """The job's line; None where there is no program that cron could call."""
    from ..units.cron import command, fields
    from ..units.plan import plan

    env = call.env
    if not env.installation:
        return None
    made = plan(
        config,
        config.jobs[name],
        (),
        installation=env.installation,
        store=None,
        user=env.login,
        every=None,
        shift=env.ahead,
        local=True,
    )
    return f"{fields(made.every)} {command(made)}"


def _show(call: Call, name: str, added: _Added) -> None:
    from ..render.told import wrapped
    from ..render.words import minute

    if call.options.json:
        _as_object(call, name, added)
        return
    program = shlex.quote(call.env.program)
    if call.options.config is not None:
        program += f" -c {shlex.quote(str(added.path))}"
    if not call.options.quiet:
        what = "made, with job" if added.made else "job"
        lines = [f"  {added.path}  {what} {name}{'' if added.made else ' added'}"]
        lines.append(f"  command   {shlex.join(added.adopted.command)}")
        if added.adopted.dropped is not None:
            lines.append(f"  left out  {added.adopted.dropped}")
            instead = "the lease keeps two runs apart; max_runtime ends one that hangs"
            lines.append(f"            {instead}")
        coming = ", ".join(map(minute, added.coming))
        lines.append(f"  next      {coming}")
        for note in added.notes:
            lines += wrapped(note, call.env.width, "  note      ", " " * 12)
        lines += ["", "Its crontab line, in place of the old one:"]
        call.env.words("".join(f"{line}\n" for line in lines))
    if added.line is not None:
        call.env.data(f"{added.line}\n")
    if not call.options.quiet:
        call.env.words(
            f"Or a timer of systemd's:  {program} units {name} --systemd\n"
            f'To try it now:            {program} run {name} --now -m "first try"\n'
        )


def _as_object(call: Call, name: str, added: _Added) -> None:
    from ..render.objects import line
    from ..render.words import rfc3339

    call.env.data(
        line(
            {
                "schema": 1,
                "job": name,
                "file": str(added.path),
                "made": added.made,
                "schedule": added.schedule,
                "command": list(added.adopted.command),
                "left_out": added.adopted.dropped,
                "notes": list(added.notes),
                "next": [rfc3339(instant) for instant in added.coming],
                "crontab": added.line,
            }
        )
    )
