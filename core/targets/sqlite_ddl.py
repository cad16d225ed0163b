"""The tables that a job keeps beside the table it works on, in the same database.

Because they are in the same database, a range's changes, their log and its marker are one
transaction under one fence. Instants are RFC 3339 in UTC, `interval` is the interval id,
`checksum` the text of `checksum.Checksum`, `"key"` a JSON array in order of the key's
columns, `before` and `after` JSON objects by column, their values canonical texts.
"""

from __future__ import annotations

NAMES = ("reconcile_fence", "reconcile_ranges", "reconcile_changes")

STATEMENTS = (
    """\
CREATE TABLE IF NOT EXISTS reconcile_fence (
  job TEXT NOT NULL,
  shard INTEGER NOT NULL,
  store_id TEXT NOT NULL,
  target_table TEXT NOT NULL,
  scope TEXT NOT NULL,
  generation INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  newest_scheduled_at TEXT,
  newest_interval TEXT,
  newest_rerun INTEGER,
  newest_checksum TEXT,
  time TEXT NOT NULL,
  PRIMARY KEY (job, shard)
)""",
    """\
CREATE TABLE IF NOT EXISTS reconcile_ranges (
  job TEXT NOT NULL,
  shard INTEGER NOT NULL,
  interval TEXT NOT NULL,
  rerun INTEGER NOT NULL,
  "plan" TEXT NOT NULL,
  "range" INTEGER NOT NULL,
  lower TEXT,
  upper TEXT,
  grants INTEGER NOT NULL,
  revokes INTEGER NOT NULL,
  updates INTEGER NOT NULL,
  checksum TEXT NOT NULL,
  run_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  time TEXT NOT NULL,
  PRIMARY KEY ("plan", "range")
)""",
    """\
CREATE TABLE IF NOT EXISTS reconcile_changes (
  id INTEGER PRIMARY KEY,
  job TEXT NOT NULL,
  interval TEXT NOT NULL,
  rerun INTEGER NOT NULL,
  "range" INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  generation INTEGER NOT NULL,
  action TEXT NOT NULL,
  account TEXT,
  "key" TEXT NOT NULL,
  "before" TEXT,
  "after" TEXT,
  time TEXT NOT NULL
)""",
    """\
CREATE INDEX IF NOT EXISTS reconcile_changes_account ON reconcile_changes (account)""",
)


def ddl() -> str:
    """All statements as one script, for those who create tables by hand."""
    return ";\n\n".join(STATEMENTS) + ";\n"
