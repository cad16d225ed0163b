"""What a source that is not in order costs, beside the same rows in order.

    python benchmarks/unsorted.py [ROWS]

Writes a table of that many rows (default 1,000,000) and three exports that agree with it: in
order, in any order, and in any order as JSON Lines. Each is planned by `reconcile run
--dry-run`, and prints its time on the processor, its peak memory, and what is left on disk.
Exit status 1 when a peak is above the budget, a plan finds a difference, or a spool is left.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUDGET = 120
"""MiB of the whole process at its peak."""

RECONCILE = Path(sys.executable).with_name("reconcile")
COLUMNS = ("account_id", "entitlement", "level")
EXPORTS = ("in-order.csv", "any-order.csv", "any-order.jsonl")
NAMES = ("api", "exports", "seats", "sso", "support")


def rows_of(count: int) -> list[tuple[str, str, str]]:
    """So many rows of accounts that have one to five each, in order."""
    chance = random.Random(1)
    found: list[tuple[str, str, str]] = []
    while len(found) < count:
        account = f"acct-{len(found):09d}"
        names = sorted(chance.sample(NAMES, chance.randint(1, 5)))
        found += [(account, name, chance.choice(["", "10", "enterprise"])) for name in names]
    return found[:count]


def write(folder: Path, count: int) -> None:
    """The target's table, and the exports."""
    rows = rows_of(count)
    db = sqlite3.connect(folder / "app.db")
    with db:
        db.execute(
            "CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
            " level TEXT, PRIMARY KEY (account_id, entitlement))"
        )
        db.executemany("INSERT INTO entitlements VALUES (?, ?, ?)", rows)
    db.close()
    head = ",".join(COLUMNS) + "\n"
    (folder / "in-order.csv").write_text(head + "".join(",".join(row) + "\n" for row in rows))
    random.Random(2).shuffle(rows)
    (folder / "any-order.csv").write_text(head + "".join(",".join(row) + "\n" for row in rows))
    with (folder / "any-order.jsonl").open("w") as file:
        file.writelines(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in rows)


def planned(folder: Path, path: Path) -> tuple[float, float, float, str]:
    """Seconds by the clock and on the processor, MiB at the peak, and what it said."""
    (folder / "reconcile.toml").write_text(
        f'[jobs.entitlements]\nsource = "{path.name}"\ntarget = "app.db"\n'
    )
    begun = time.perf_counter()
    process = subprocess.Popen(
        [RECONCILE, "run", "entitlements", "--dry-run", "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        said = f"exit {process.returncode}: {said}"
    took = time.perf_counter() - begun
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, said


def main(count: int) -> int:
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: what is started has the peak of its parent to begin with.
        subprocess.run([sys.executable, __file__, str(count), folder], check=True)
        for path in (folder / export for export in EXPORTS):
            took, cpu, peak, said = planned(folder, path)
            left = list(folder.glob("*-spool"))
            equal = '"changes": {"grant": 0, "revoke": 0, "update": 0}' in said
            good &= peak < BUDGET and equal and not left
            size = path.stat().st_size >> 20
            print(f"{path.name:16} {size:5} MiB  {took:6.1f} s, {cpu:6.1f} s of processor", end="")
            print(f", peak {peak:5.0f} MiB (budget {BUDGET})", end="")
            print("" if equal else f", NOT EQUAL: {said}", end="")
            print(f", LEFT {left}" if left else "")
    return int(not good)


if __name__ == "__main__":
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    sys.exit(write(Path(sys.argv[2]), rows) if len(sys.argv) > 2 else main(rows))
