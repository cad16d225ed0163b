"""The tables that a job keeps beside the table it works on, in PostgreSQL.

What they hold is what those of SQLite do (`sqlite_ddl.py`).
"""

from __future__ import annotations

from .names import quoted

NAMES = ("reconcile_fence", "reconcile_ranges", "reconcile_changes")

_STATEMENTS = (
    """\
CREATE TABLE IF NOT EXISTS {}reconcile_fence (
  job text NOT NULL,
  shard integer NOT NULL,
  store_id text NOT NULL,
  target_table text NOT NULL,
  scope text NOT NULL,
  generation bigint NOT NULL,
  run_id text NOT NULL,
  newest_scheduled_at text,
  newest_interval text,
  newest_rerun integer,
  newest_checksum text,
  time text NOT NULL,
  PRIMARY KEY (job, shard)
)""",
    """\
CREATE TABLE IF NOT EXISTS {}reconcile_ranges (
  job text NOT NULL,
  shard integer NOT NULL,
  interval text NOT NULL,
  rerun integer NOT NULL,
  "plan" text NOT NULL,
  "range" integer NOT NULL,
  lower text,
  upper text,
  grants integer NOT NULL,
  revokes integer NOT NULL,
  updates integer NOT NULL,
  checksum text NOT NULL,
  run_id text NOT NULL,
  generation bigint NOT NULL,
  time text NOT NULL,
  PRIMARY KEY ("plan", "range")
)""",
    """\
CREATE TABLE IF NOT EXISTS {}reconcile_changes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job text NOT NULL,
  interval text NOT NULL,
  rerun integer NOT NULL,
  "range" integer NOT NULL,
  run_id text NOT NULL,
  generation bigint NOT NULL,
  action text NOT NULL,
  account text,
  "key" text NOT NULL,
  "before" text,
  "after" text,
  time text NOT NULL
)""",
    """\
CREATE INDEX IF NOT EXISTS reconcile_changes_account ON {}reconcile_changes (account)""",
)

_RIGHTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT, INSERT, UPDATE ON {schema}.reconcile_fence TO {role}",
    "GRANT SELECT, INSERT, DELETE ON {schema}.reconcile_ranges TO {role}",
    "GRANT SELECT, INSERT ON {schema}.reconcile_changes TO {role}",
)


def statements(schema: str) -> list[str]:
    """What makes our tables in a schema."""
    return [statement.format(f"{quoted(schema)}.") for statement in _STATEMENTS]


def ddl(schema: str) -> str:
    """All statements as one script, for those who create tables by hand."""
    return ";\n\n".join(statements(schema)) + ";\n"


def rights(schema: str, table: str, role: str) -> str:
    """What a role needs that may not create tables: on ours, and on the table itself, which is
    named with its schema as SQL has it."""
    grants = [grant.format(schema=quoted(schema), role=quoted(role)) for grant in _RIGHTS]
    grants.append(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {quoted(role)}")
    return ";\n".join(grants) + ";\n"
