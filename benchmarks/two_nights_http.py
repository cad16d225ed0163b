"""Two real nights and a third without change, from an HTTP API that is paged by 100, into SQLite.

    python benchmarks/two_nights_http.py FIRST.csv[.gz] SECOND.csv[.gz]

Both files have the columns account_id, entitlement, level. The API, of the tests, serves them in
an order of its own on the loopback, by cursor, and counts the calls. After each night the table is
compared with the file row for row. Exit status 1 when anything does not agree.
"""

from __future__ import annotations

import csv
import gzip
import random
import re
import sqlite3
import sys
import tempfile
import time
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.provider import Provider
from two_nights import JOB, call

CONFIG = """\
[jobs.entitlements]
schedule = "0 0 * * *"
start = {today}
target = "app.db"

[jobs.entitlements.source]
url = "{url}/cursor"
rows = "data"

[jobs.entitlements.source.paging]
by = "cursor"
size = 100
next = "next"
more = "has_more"
total = "total"
"""


def items(path: Path) -> list[dict[str, Any]]:
    """The file's rows as the API has them: in no order of accounts."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    random.Random(7).shuffle(rows)
    return [{"id": f"g{number:08d}", **row} for number, row in enumerate(rows)]


def table(folder: Path) -> list[tuple[str, ...]]:
    """What the table has."""
    with sqlite3.connect(folder / "app.db") as db:
        return sorted(db.execute("SELECT account_id, entitlement, level FROM entitlements"))


def main(small: Pool, first: Path, second: Path) -> int:
    """Run it."""
    agrees = True
    with tempfile.TemporaryDirectory() as name, Provider([]) as provider:
        folder, today = Path(name), datetime.now(UTC).date()
        (folder / "reconcile.toml").write_text(CONFIG.format(today=today, url=provider.url))
        with sqlite3.connect(folder / "app.db") as db:
            db.execute(
                "CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
                " level TEXT, PRIMARY KEY (account_id, entitlement))"
            )
        for night, path in enumerate((first, second, second)):
            provider.items = items(path)
            provider.calls.clear()
            argv = ("rerun", JOB, "latest", "-m", "next") if night else ("run", JOB)
            begun = time.perf_counter()
            ran = small.apply(call, (folder, *argv))
            asked = re.search(r"--approve ([0-9a-f]+)", ran.text)
            if ran.code == 4 and asked:
                told = ("resume", JOB, "latest", "--approve", asked[1], "-m", "benchmark")
                ran = small.apply(call, (folder, *told))
            took = time.perf_counter() - begun
            columns = ("account_id", "entitlement", "level")
            same = table(folder) == sorted(tuple(i[c] for c in columns) for i in provider.items)
            agrees &= ran.code == 0 and same
            calls = len(provider.calls)
            print(f"night {night + 1}: {took:.1f} s, {ran.memory:.0f} MiB, {calls:,} calls")
            print(f"  {'as the file' if same else 'NOT AS THE FILE'}: {ran.text.splitlines()[-1]}")
    return 0 if agrees else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    # As in two_nights.py: a program's peak counts the memory of whoever starts it.
    with get_context("fork").Pool(1) as pool:
        status = main(pool, Path(sys.argv[1]), Path(sys.argv[2]))
    sys.exit(status)
