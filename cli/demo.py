"""The files that `reconcile init` writes, and the data of its demo.

The demo's rows follow from account numbers alone, so that everybody who types
`init --demo` sees the same figures: a night that grants 212, revokes 63 and updates 9.
Which account gets what is scattered by a CRC, never by chance. `MADE` fixes the first four
changes, which are what a dry run shows.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

from ..core.errors import AccessDenied, TargetUnreachable, UsageError
from .whole_files import holds, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date
    from pathlib import Path

Key: TypeAlias = "tuple[str, str]"
"""Account and entitlement."""

SOURCE = "export.csv"
TARGET = "app.db"

GRANTS = 212
REVOKES = 63
UPDATES = 9
ROWS = 6020

_NUMBERS = range(1, 2413)
_CLOSED = 201  # every such number is an account that only the target still has
_NEW = 2353  # from this number on the target does not have the account yet
_LEVELS = ("10", "10", "10", "25", "25", "50")
_EXTRAS = {"api": "true", "audit": "true", "exports": "true", "sso": "true", "support": "priority"}
MADE: tuple[Key, ...] = (
    ("acct-0007", "seats"),
    ("acct-0007", "sso"),
    ("acct-0012", "exports"),
    ("acct-0031", "seats"),
)

TEMPLATE = """\
# What `reconcile` does, and when. Check it with: reconcile run JOB --dry-run
# Relative paths are relative to this file's folder. Durations: "90s", "10m", "6h", "3d".

# [store]
# url = "reconcile.db"            # leases, checkpoints and records; SQLite, made at first use

# Bring what each account has (the target) into line with what it should have (the
# source), every night at 02:30 UTC. Take away the leading "# " to have this job.
#
# [jobs.entitlements]
# schedule = "30 2 * * *"         # five cron fields, in UTC; cron itself only knocks
# source = "exports/{date}.csv"   # or .jsonl; a name without {date} tells of now
# target = "app.db"               # a SQLite file with a table named as the job
# max_attempts = 5                # runs without progress until an interval has failed
#
# [jobs.entitlements.guards]
# max_revoke = "10%"              # more than that waits until a person approves
"""

_DEMO = """\
# A job to try `reconcile` with. Delete the folder when you are done.
# Relative paths are relative to this file's folder.

[store]
url = "reconcile.db"             # leases, checkpoints and records; made at first use

[jobs.entitlements]
schedule = "0 0 * * *"           # five cron fields, in UTC; cron itself only knocks
start = {start}               # the first night, which is due at once
source = "{source}"            # what accounts should have
target = "{target}"                # what they have: the table named as the job
range_size = 500                 # accounts that are compared and committed as one

[jobs.entitlements.guards]
max_revoke = "10%"               # more than that waits until a person approves
"""


@dataclass(frozen=True, slots=True)
class DemoFacts:
    """What `make_demo` wrote: accounts and rows of the source, rows of the target."""

    accounts: int
    source_rows: int
    target_rows: int


def make_config(path: Path) -> None:
    """Write a configuration whose only job is commented out.

    Raises `UsageError` where the file exists, `AccessDenied` and `TargetUnreachable` where
    it cannot be written.
    """
    with _refusals(path):
        write_whole(path, TEMPLATE.encode())


def make_demo(config: Path, today: date) -> DemoFacts:
    """Write a configuration and, beside it, a source and a target that differ.

    The job's first interval is midnight UTC of `today`. Nothing that exists is touched;
    raises as `make_config`, having written nothing. A source and a target that are exactly
    the demo's are what a call has left that was killed, and are taken.
    """
    wanted, found = demo_rows()
    # The configuration comes last: with it there, everything is.
    contents = {
        config.with_name(SOURCE): _source(wanted),
        config.with_name(TARGET): _target(found),
        config: _DEMO.format(start=today, source=SOURCE, target=TARGET).encode(),
    }
    there = [path for path in contents if os.path.lexists(path)]
    for path in there:
        if path == config or not holds(path, contents[path]):
            raise _exists(path)
    made: list[Path] = []
    try:
        for path, content in contents.items():
            if path not in there:
                with _refusals(path):
                    write_whole(path, content)
                made.append(path)
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        raise
    return DemoFacts(len({account for account, _ in wanted}), len(wanted), len(found))


def demo_rows() -> tuple[dict[Key, str], dict[Key, str]]:
    """What accounts should have, and what they have; levels by account and entitlement."""
    numbers = [number for number in _NUMBERS if number % _CLOSED]
    seats = {(_account(n), "seats"): _LEVELS[_scatter(n, "seats") % 6] for n in numbers}
    seats |= {("acct-0007", "seats"): "25", ("acct-0031", "seats"): "50"}
    ranked = sorted(
        ((_account(n), extra) for n in numbers for extra in _EXTRAS),
        key=lambda key: (key not in MADE, crc32("/".join(key).encode())),
    )
    ranked.remove(MADE[2])
    given = ROWS - len(seats)
    wanted = seats | {key: _EXTRAS[key[1]] for key in ranked[:given]}

    closed = [(_account(n), "seats") for n in _NUMBERS if not n % _CLOSED]
    stale = [MADE[2], *closed, *_late(ranked[given:])][:REVOKES]
    fresh = [key for key in wanted if key[0] >= _account(_NEW)]
    granted = [*MADE[:2], *fresh, *_late(ranked[:given])][:GRANTS]
    updated = [MADE[3], *_late([key for key in seats if key[0] < _account(_NEW)])][:UPDATES]

    found = {key: level for key, level in wanted.items() if key not in set(granted)}
    found |= {key: _EXTRAS.get(key[1], "10") for key in stale}
    found |= {key: "25" if wanted[key] == "10" else "10" for key in updated}
    return wanted, found


def _account(number: int) -> str:
    return f"acct-{number:04d}"


def _scatter(number: int, salt: str) -> int:
    return crc32(f"{number}/{salt}".encode())


def _late(keys: Sequence[Key]) -> list[Key]:
    """Those after the accounts of `MADE`, scattered over all that are not new."""
    between = [key for key in keys if MADE[-1][0] < key[0] < _account(_NEW)]
    return sorted(between, key=lambda key: crc32("?".join(key).encode()))


def _source(rows: dict[Key, str]) -> bytes:
    lines = [f"{','.join(key)},{level}\n" for key, level in sorted(rows.items())]
    return "".join(["account_id,entitlement,level\n", *lines]).encode()


def _target(rows: dict[Key, str]) -> bytes:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    try:
        with connection:
            connection.execute(
                "CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
                " level TEXT NOT NULL, PRIMARY KEY (account_id, entitlement))"
            )
            connection.executemany(
                "INSERT INTO entitlements VALUES (?, ?, ?)",
                ((*key, level) for key, level in sorted(rows.items())),
            )
        return connection.serialize()
    finally:
        connection.close()


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise _exists(path) from None
    except PermissionError as error:
        message = f"{path} cannot be written: {error.strerror}"
        raise AccessDenied(message, hint="choose a folder that you may write to") from error
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise TargetUnreachable(message, hint="mend that, or choose another folder") from error


def _exists(path: Path) -> UsageError:
    return UsageError(
        f"{path} exists; init never overwrites",
        hint="edit that file, or choose another folder",
    )
