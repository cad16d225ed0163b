"""A night small enough to be made anew for every test: a CSV file and a table of a few rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path

Rows = Iterable[tuple[str, str, str]]

HAS = [(f"acct-{n:04d}", name, "1") for n in range(1, 41) for name in ("seats", "sso", "support")]
"""What the table has: 40 accounts, 120 rows."""
SHOULD = [
    *(row for row in HAS if row[:2] not in {("acct-0003", "sso"), ("acct-0012", "support")}),
    ("acct-0041", "seats", "5"),
    ("acct-0041", "sso", "1"),
    ("acct-0042", "seats", "5"),
]
"""What it should have: three grants, two revokes."""


def write_source(path: Path, rows: Rows = SHOULD) -> None:
    """A CSV file with a header, sorted by account."""
    lines = [",".join(row) for row in sorted(rows)]
    path.write_text("\n".join(["account_id,entitlement,level", *lines]) + "\n")


def write_target(path: Path, rows: Rows = HAS) -> None:
    """A table `entitlements`."""
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
        " level TEXT, PRIMARY KEY (account_id, entitlement))"
    )
    database.executemany("INSERT INTO entitlements VALUES (?, ?, ?)", rows)
    database.commit()
    database.close()
