"""Two real nights and a third without change, from the command line, checked by hand.

    python benchmarks/two_nights.py FIRST.csv[.gz] SECOND.csv[.gz]

Both files have the columns account_id, entitlement, level and are sorted by account. The
first night fills an empty table; the second may need approval, which is given; the third
has the same file as the second. After each night the table is compared with the file row
for row, the changes with a comparison of the two files, and count and checksum are
computed again: all by the few lines below, which share nothing with the program.

Prints wall time, peak memory, changes and checksum of every call. Exit status 1 when
anything does not agree.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path

RECONCILE = Path(sys.executable).with_name("reconcile")
JOB = "entitlements"
CONFIG = """\
[jobs.entitlements]
schedule = "0 0 * * *"
start = {start}
source = "exports/{{date}}{suffix}"
target = "app.db"
"""

Rows = dict[tuple[str, str], str]


@dataclass
class Call:
    """How one call of the program went. `memory` is its peak, in MiB."""

    code: int
    text: str
    seconds: float
    memory: float


def call(folder: Path, *argv: str) -> Call:
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        pid = os.posix_spawn(
            RECONCILE,
            [str(RECONCILE), "--config", str(folder / "reconcile.toml"), *argv],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), n) for n in (1, 2)],
        )
        _, status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - begun
        output.seek(0)
        text = output.read()
    return Call(os.waitstatus_to_exitcode(status), text, seconds, usage.ru_maxrss / 1024)


def rows_of_file(path: Path) -> Rows:
    opened: Callable[..., object] = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:  # type: ignore[attr-defined]
        return {(row[0], row[1]): row[2] for row in list(csv.reader(file))[1:]}


def rows_of_table(path: Path) -> Rows:
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT account_id, entitlement, level FROM entitlements")
        return {(row[0], row[1]): row[2] for row in found}


def checksum(rows: Rows) -> str:
    total = 0
    for key, level in rows.items():
        line = b"".join(b"%d:%s," % (len(f), f) for f in (v.encode() for v in (*key, level)))
        total += int(hashlib.sha256(line).hexdigest()[:32], 16)
    return f"sha256-sum:{len(rows)}:{total % 2**128:032x}"


def changes(before: Rows, after: Rows) -> dict[str, int]:
    both = before.keys() & after.keys()
    return {
        "grant": len(after.keys() - both),
        "revoke": len(before.keys() - both),
        "update": sum(before[key] != after[key] for key in both),
    }


def night(small: Pool, folder: Path, day: str) -> list[tuple[str, Call]]:
    """Run one interval, and approve it where a guard asks for that."""
    calls = [("run", small.apply(call, (folder, "run", JOB, "--interval", day)))]
    asked = re.search(r"--approve ([0-9a-f]+)", calls[0][1].text)
    if calls[0][1].code == 4 and asked:
        argv = ("resume", JOB, day, "--approve", asked[1], "--reason", "benchmark")
        calls.append(("approve", small.apply(call, (folder, *argv))))
    return calls


def check(folder: Path, day: str, before: Rows, after: Rows) -> list[str]:
    """What does not agree with the files, in words."""
    told = call(folder, "status", JOB, day, "--json")
    shown = find(json.loads(told.text), day)
    pairs = {
        "state": (shown["state"], "completed"),
        "changes": (shown["changes"], changes(before, after)),
        "count": (shown["count"], len(after)),
        "checksum": (shown["checksum"], checksum(after)),
    }
    wrong = [f"{name}: told {a}, is {b}" for name, (a, b) in pairs.items() if a != b]
    if rows_of_table(folder / "app.db") != after:
        wrong.append("the table is not the file")
    print(f"  told and found   {shown['changes']}\n                   {shown['checksum']}")
    return wrong


def find(value: object, day: str) -> dict[str, object]:
    """The object of that interval, wherever it stands in the answer."""
    if isinstance(value, dict):
        if value.get("interval") == day and "checksum" in value:
            return value
        value = list(value.values())
    for part in value if isinstance(value, list) else []:
        if found := find(part, day):
            return found
    return {}


def main(small: Pool, first: Path, second: Path) -> int:
    today = datetime.now(UTC).date()
    days = [str(today - timedelta(days=back)) for back in (2, 1, 0)]
    nights: list[Rows] = [{}, rows_of_file(first), rows_of_file(second), rows_of_file(second)]
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "exports").mkdir()
        suffix = "".join(first.suffixes[-2:])
        (folder / "reconcile.toml").write_text(CONFIG.format(start=days[0], suffix=suffix))
        with sqlite3.connect(folder / "app.db") as connection:
            connection.execute(
                "CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
                " level TEXT NOT NULL, PRIMARY KEY (account_id, entitlement))"
            )
        for number, (day, path) in enumerate(zip(days, (first, second, second), strict=True)):
            shutil.copyfile(path, folder / "exports" / f"{day}{suffix}")
            print(f"{day}  {len(nights[number + 1]):,} rows from {path.name}")
            for what, done in night(small, folder, day):
                print(f"  {what:8} exit {done.code}  {done.seconds:6.2f} s  {done.memory:6.1f} MiB")
            wrong += check(folder, day, nights[number], nights[number + 1])
    print("\n".join(wrong) or "everything agrees")
    return int(bool(wrong))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    # Linux counts the memory of whoever starts a program into that program's peak, so calls
    # are made by a process that was begun before any file was read.
    with get_context("fork").Pool(1) as small:
        code = main(small, Path(sys.argv[1]), Path(sys.argv[2]))
    sys.exit(code)
