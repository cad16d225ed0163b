"""What a command finds: its environment, and the file that may add to it.

It gets the caller's environment, over it what `env_file` says, over that `env`, and over all of
them the variables in which it is told what it is called for::

    RECONCILE_JOB  RECONCILE_INTERVAL  RECONCILE_TRIGGER  RECONCILE_RUN_ID  RECONCILE_GENERATION
    RECONCILE_SCHEDULED_AT   the instant in UTC, RFC 3339
    RECONCILE_CURSOR         JSON of the last checkpoint; empty where there is none
    RECONCILE_RANGE, RECONCILE_RANGES   which call this is, and of how many; 1 of 1 without ranges
    RECONCILE_PROGRESS_FD    where its checkpoints are written to (see `progress`); the supervisor's
"""

from __future__ import annotations

import os
import re
from stat import S_ISFIFO
from typing import TYPE_CHECKING

from ...errors import CommandDenied, CommandNotStarted, CommandUnusable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...ports import WorkOrder
    from .progress import Standing

_LINE = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII)
_LARGEST = 1 << 20
"""Bytes of a file of variables; a program's environment has no room for more."""


def variables(order: WorkOrder, stands: Standing, number: int) -> dict[str, str]:
    """What tells a command what it is called for; `number` is the range's."""
    interval = order.interval
    return {
        "RECONCILE_JOB": interval.job,
        "RECONCILE_INTERVAL": interval.id,
        "RECONCILE_SCHEDULED_AT": interval.scheduled_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "RECONCILE_RUN_ID": order.fence.run,
        "RECONCILE_TRIGGER": order.trigger.value,
        "RECONCILE_GENERATION": str(order.fence.generation),
        "RECONCILE_CURSOR": stands.cursor,
        "RECONCILE_RANGE": str(number),
        "RECONCILE_RANGES": str(stands.ranges or 1),
    }


def read_env_file(path: str) -> Mapping[str, str]:
    """The variables of a file: NAME=VALUE a line, as systemd and docker read them.

    Blank lines and those that begin with # are remarks, `export` before a name is left out, and
    one pair of quotes around a value is not part of it. Nothing is filled in. Raises
    `CommandNotStarted`, `CommandDenied` and `CommandUnusable`, none of which quotes a value.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise CommandUnusable(
                    f"env_file {path} is a pipe, which has no lines until somebody writes",
                    hint="write NAME=VALUE, one a line, into a file",
                )
            data = file.read(_LARGEST + 1)
    except PermissionError as error:
        raise CommandDenied(
            f"env_file {path} may not be read by this user", hint="chown it to whom the job runs as"
        ) from error
    except OSError as error:
        raise CommandNotStarted(
            f"env_file {path} cannot be read: {error.strerror}",
            hint="put it there, or mend the key",
        ) from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CommandUnusable(f"env_file {path} is not UTF-8", hint="write it anew") from error
    if len(data) > _LARGEST or "\0" in text:
        raise CommandUnusable(
            f"env_file {path} is no file of variables", hint="write NAME=VALUE, one a line"
        )
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            raise CommandUnusable(
                f"env_file {path} line {number} is no NAME=VALUE",
                hint="write NAME=VALUE, one a line; # begins a remark",
            )
        found[match[1]] = _unquoted(match[2])
    return found


def _without_waiting(path: str, flags: int) -> int:
    """Opening a pipe would wait for who writes into it, which no signal ends."""
    return os.open(path, flags | os.O_NONBLOCK)


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value
