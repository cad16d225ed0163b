"""All that may be wrong with source, configuration, target and store, one row each.

An empty file or database as the store is no row: it becomes a store, which goes on from what
the target knows. Nor is an empty target, which is one that was restored from before the first
night, so that each night says what is wrong. Full disks are in `tests/faults`, since they need
a mount of their own.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass

from . import bad_making as make
from .bad_inputs import AFTER, HEADER, ROWS, Night


@dataclass(frozen=True)
class Bad:
    """What is wrong, how it comes to be, and what must be said and done about it.

    `left` are the accounts that must be as they were where others may go on; None: all.
    """

    name: str
    make: Callable[[Night], object]
    code: int
    says: str
    do: str
    left: tuple[str, ...] | None = None


SOURCES = [
    Bad("missing", lambda night: night.source.unlink(), 69, "csv does not exist", "export ran"),
    Bad("empty", make.source(""), 65, "is empty: it has no header", "export the file again"),
    Bad("header only", make.source(HEADER), 4, "source is empty", "--planned"),
    Bad("cut gzip", make.packed(gzip.compress(AFTER.encode())[:-12]), 65, "cut short", "again"),
    Bad("damaged gzip", make.packed(b"\x1f\x8bxxxxxxxxxxxxxxxxxxxxx"), 65, "damaged", "again"),
    Bad("gzip by its name", make.packed(AFTER.encode()), 65, "is not gzip", "rename the file"),
    Bad(
        "gzip within gzip", make.packed(gzip.compress(gzip.compress(b""))), 65, "NUL byte", "as CSV"
    ),
    Bad(
        "last line cut", make.source(AFTER[:-3]), 65, "the last record is cut", "export is complete"
    ),
    Bad(
        "cut within a quote", make.source(AFTER + 'a,"x'), 65, "the last record is cut", "complete"
    ),
    Bad(
        "no such column",
        make.source(AFTER.replace("level", "lvl")),
        65,
        "no column level",
        "rename",
    ),
    Bad(
        "doubled column",
        make.source("account_id,level," + AFTER[11:]),
        65,
        "more than one",
        "header",
    ),
    Bad(
        "two files in one",
        make.source(AFTER + AFTER),
        65,
        "line 15: the header stands here once more",
        "one after the other",
    ),
    Bad(
        "column that is renamed away",
        make.renamed('level = "entitlement"', AFTER),
        65,
        "has no column for level (rename makes the file's level entitlement); it has account_id,",
        "mend rename",
    ),
    Bad(
        "renamed column that is not there",
        make.renamed('lvl = "level"', AFTER.replace("level", "lv")),
        65,
        "has no column lvl (which rename makes level); it has account_id, entitlement, lv",
        "mend rename",
    ),
    Bad(
        "row with too many fields",
        make.source(AFTER + "acct-14,sso,1,\n"),
        65,
        "line 15: 4 fields where the header has 3",
        "a delimiter that is not quoted",
    ),
    Bad("ragged row", make.source(AFTER + "acct-14,sso\n"), 65, "line 15: 2 fields where", "cut"),
    Bad(
        "no header",
        make.source("".join(ROWS)),
        65,
        "has no columns account_id, entitlement, level; it has",
        "export them",
    ),
    Bad(
        "bad encoding", make.source(AFTER.encode() + b"\xe4,x,1\n"), 65, "no utf-8 text", "encoding"
    ),
    Bad("UTF-16", make.source(AFTER.encode("utf-16")), 65, "NUL byte", "UTF-8"),
    Bad("binary", make.source(bytes(range(256)) * 100), 65, "NUL byte; this is no text", "as CSV"),
    Bad("stray quote", make.source(AFTER + 'b"c,x,1\n'), 65, "never closed", "double it"),
    Bad("empty account", make.source(HEADER + ",sso,1\n"), 65, "account_id is empty", "leave such"),
    Bad("line of 100 MB", make.long_line, 65, "longer than 1,048,576 bytes", "never closed"),
    Bad("folder", make.folder(make.the_source), 65, "is a folder, not a file", "a regular file"),
    Bad("pipe", make.fifo, 65, "is a pipe, not a file", "a regular file"),
    Bad("socket", make.socket_file, 65, "is a socket, or a device", "a regular file"),
    Bad("device", make.source_at("/dev/zero"), 65, "is a device, not a file", "a regular file"),
    Bad("unreadable", make.forbidden(make.the_source), 77, "may not be read by this user", "ls -l"),
    Bad(
        "NULL account",
        make.null_in(HEADER + "NULL,sso,1\n"),
        65,
        "account_id is NULL",
        "leave such",
    ),
    Bad(
        "NULL in the key",
        make.null_in(HEADER + "a,NULL,1\n"),
        65,
        "entitlement is NULL",
        "leave such",
    ),
    Bad(
        "account that is no integer",
        make.typed("account_id INTEGER", HEADER + "1,a,1\nabc,b,2\n"),
        65,
        "line 3: account 'abc' is no integer",
        "of the kind that the target's column has",
    ),
    Bad(
        "value that does not convert",
        make.typed("level INTEGER", AFTER.replace("acct-05,seats,10", "acct-05,seats,ten")),
        3,
        "line 5: level 'ten' is no integer",
        "status entitlements",
        left=("acct-05",),
    ),
    Bad("JSON: empty", make.json_lines(""), 65, "is empty, which is what", "export it again"),
    Bad("JSON: none", make.json_lines("{'a': 1}\n"), 65, "line 1: not JSON", "export"),
    Bad("JSON: an array", make.json_lines("[1]\n"), 65, "an array, not an object", "on each line"),
    Bad(
        "JSON: no such key",
        make.json_lines('{"account_id": "a", "entitlement": "x"}\n'),
        65,
        "line 1: it has no key 'level'",
        "export that key",
    ),
    Bad(
        "JSON: key that is renamed away",
        make.renamed(
            'level = "entitlement"',
            '{"account_id": "a", "level": "1"}\n',
            "jsonl",
        ),
        65,
        "it has no key for level (rename makes the file's level entitlement)",
        "rename",
    ),
    Bad(
        "JSON: a key twice",
        make.json_lines('{"account_id": "a", "account_id": "b"}\n'),
        65,
        "stands twice",
        "once",
    ),
    Bad(
        "JSON: last line cut",
        make.json_lines('{"account_id": "a", "entitlement": "x", "level": "1"}'),
        65,
        "the last record is cut",
        "export is complete",
    ),
    Bad("manifest missing", make.manifest(None), 69, "the manifest ", "source's manifest"),
    Bad("manifest empty", make.manifest(""), 65, "is no manifest: it is not JSON", "sha256"),
    Bad("manifest of nothing", make.manifest("{}"), 65, "neither rows nor sha256", "sha256"),
    Bad(
        "manifest of more rows",
        make.manifest('{"rows": 14}'),
        65,
        "has 13 rows, and its manifest {}/exports/2026-11-30.json says 14",
        "export file and manifest again",
    ),
    Bad(
        "manifest of another file",
        make.manifest(f'{{"sha256": "{"0" * 64}"}}'),
        65,
        "has SHA-256",
        "copy the file again",
    ),
    Bad(
        "two values for one key",
        make.source(AFTER.replace("acct-05,seats,10\n", "acct-05,seats,10\nacct-05,seats,99\n")),
        3,
        "acct-05: the source has this account's entitlement twice",
        "status entitlements",
        left=("acct-05",),
    ),
]

CONFIGURATIONS = [
    Bad(
        "unknown key",
        make.job("rnage_size = 5"),
        78,
        "toml line 8: jobs.entitlements.rnage_size: no such key",
        "did you mean range_size?",
    ),
    Bad(
        "unknown table",
        make.config("[jobs.", "[job."),
        78,
        "line 2: job: no such key",
        "did you mean jobs?",
    ),
    Bad(
        "unknown section of a job",
        make.job("[jobs.entitlements.gaurds]"),
        78,
        "line 8: jobs.entitlements.gaurds: no such key",
        "did you mean guards?",
    ),
    Bad("key far from all", make.job("xyzzy = 1"), 78, "xyzzy: no such key", "known here: "),
    Bad(
        "wrong type",
        make.job('range_size = "many"'),
        78,
        "line 8: jobs.entitlements.range_size: is a text, not a whole",
        "no quotes",
    ),
    Bad("wrong value", make.job("range_size = 0"), 78, "range_size: is 0", "from 1 on"),
    Bad(
        "wrong duration",
        make.job('retry_delay = "5 minutes"'),
        78,
        "retry_delay: is '5 minutes'",
        "10m",
    ),
    Bad(
        "wrong share",
        make.job('guards = { max_revoke = "110%" }'),
        78,
        "max_revoke: is '110%'",
        '"10%"',
    ),
    Bad(
        "wrong schedule",
        make.config("30 2 * * *", "30 25 * * *"),
        78,
        "line 3: jobs.entitlements.schedule: '30 25 * * *' is no schedule",
        "minute, hour",
    ),
    Bad("wrong time zone", make.job('timezone = "Europe/Berln"'), 78, "timezone", "Europe/Berlin"),
    Bad(
        "wrong encoding",
        make.config('"exports/{date}.csv"', '{ path = "x.csv", encoding = "utf8000" }'),
        78,
        "encoding: is 'utf8000'",
        "cp1252",
    ),
    Bad(
        "fields without one of the columns",
        make.config(
            '"exports/{date}.csv"', '{ path = "x.csv", fields = ["account_id", "entitlement"] }'
        ),
        78,
        "source.fields: has no column level",
        "in their order",
    ),
    Bad(
        "wrong delimiter",
        make.config('"exports/{date}.csv"', '{ path = "x.csv", delimiter = ";;" }'),
        78,
        "delimiter: is not a text of 1",
        "1 character",
    ),
    Bad(
        "unknown placeholder",
        make.config("{date}", "{day}"),
        78,
        "line 5: jobs.entitlements.source",
        "{date}",
    ),
    Bad(
        "lease too short",
        make.job('lease = { ttl = "1s" }'),
        78,
        "lease.ttl: is '1s'",
        "at least 2s",
    ),
    Bad(
        "renewal slower than progress",
        make.job('lease = { ttl = "1h" }'),
        78,
        "line 8: jobs.entitlements.lease.ttl: renewal, every 720s, would be slower",
        "make progress_deadline longer",
    ),
    Bad(
        "window shorter than a period",
        make.job('catch_up = { window = "1h" }'),
        78,
        "catch_up.window: is shorter than a period",
        "make it longer",
    ),
    Bad(
        "no source",
        make.config('source = "exports/{date}.csv"\n', ""),
        78,
        "entitlements: has no source",
        "exports/",
    ),
    Bad(
        "no target",
        make.config('target = "app.db"\n', ""),
        78,
        "entitlements: has no target",
        "app.db",
    ),
    Bad(
        "account among the columns",
        make.job('account = "level"'),
        78,
        "columns: has the account",
        "beside it",
    ),
    Bad("syntax", make.job("range_size = 5 6"), 78, "reconcile.toml line 8: not TOML", "toml.io"),
    Bad("unclosed text", make.job('timezone = "UTC'), 78, "line 8: not TOML", "quotes"),
    Bad(
        "key twice",
        make.job('target = "b.db"'),
        78,
        "line 8: not TOML: cannot overwrite a value",
        "toml.io",
    ),
    Bad(
        "no UTF-8",
        lambda night: night.config.write_bytes(b"# \xff\n"),
        78,
        "line 1: not UTF-8",
        "save it as UTF-8",
    ),
    Bad(
        "variable not set",
        make.config("app.db", "${APP}.db"),
        78,
        "target: reads ${APP}",
        "set APP",
    ),
    Bad(
        "unknown job",
        make.calls("run", "entitlments"),
        78,
        "has no job 'entitlments'",
        "did you mean entitlements?",
    ),
    Bad(
        "none",
        lambda night: night.config.unlink(),
        78,
        "no configuration; looked for",
        "reconcile init",
    ),
    Bad(
        "named and missing",
        make.calls("-c", "other.toml", "run", "entitlements"),
        78,
        "other.toml: no such",
        "reconcile -c other.toml init",
    ),
    Bad("folder", make.folder(make.the_config), 78, "is not a file", "name a reconcile.toml"),
    Bad(
        "empty",
        lambda night: night.config.write_text(""),
        78,
        "has no job 'entitlements'",
        "jobs: none",
    ),
    Bad(
        "writable for all",
        lambda night: night.config.chmod(0o666),
        77,
        "reconcile.toml is writable for all",
        "chmod o-w",
    ),
    Bad(
        "drop-in writable for all",
        make.drop_in(0o755, 0o646),
        77,
        "conf.d/more.toml is writable for all",
        "chmod o-w",
    ),
    Bad(
        "folder of drop-ins writable for all",
        make.drop_in(0o777, 0o644),
        77,
        "conf.d is writable for all",
        "chmod o-w",
    ),
    Bad(
        "file of an address writable for all",
        make.address_file(0o602),
        77,
        "target.url_file: {}/address is writable for all",
        "chmod o-w",
    ),
    Bad(
        "unreadable",
        make.forbidden(make.the_config),
        77,
        "may not be read by this user",
        "who owns it",
    ),
    Bad(
        "target in the store's file",
        make.job('[store]\nurl = "app.db"'),
        78,
        "is the file of the store",
        "a file of its own",
    ),
    Bad(
        "the same through a link",
        make.linked_store,
        78,
        "is the file of the store",
        "a file of its own",
    ),
    Bad(
        "the same in another spelling",
        make.job('[store]\nurl = "exports/../app.db"'),
        78,
        "is the file of the store",
        "a file of its own",
    ),
    Bad(
        "the same on the command line",
        make.calls("--store", "./app.db", "run", "entitlements"),
        78,
        "is the file of the store",
        "a file of its own",
    ),
    Bad(
        "store in Postgres whose password is not percent-encoded",
        make.job('[store]\nurl = "postgresql://u:a/b@h/db"'),
        78,
        "cannot be told where the password in this address ends",
        "percent-encoded",
    ),
    Bad(
        "store in Redis whose database is no number",
        make.job('[store]\nurl = "redis://h/db"'),
        78,
        "no number for the database",
        "redis://HOST/0",
    ),
    Bad(
        "store of no version",
        make.calls("--store", "ftp://h/x", "run", "entitlements"),
        78,
        "what it begins with is not a kind of store",
        "sqlite:",
    ),
    Bad(
        "store as PostgreSQL's own tools have it",
        make.job('[store]\nurl = "host=h password=S3cr3t dbname=x"'),
        78,
        "store.url: this address is a list of NAME=VALUE",
        "postgresql://USER@HOST/NAME",
    ),
    Bad(
        "target as PostgreSQL's own tools have it",
        make.config('"app.db"', '"dbname = x user=u"'),
        78,
        "target: this address is a list of NAME=VALUE",
        "postgresql://USER@HOST/NAME",
    ),
    Bad(
        "option of a target",
        make.config('"app.db"', '"sqlite:///app.db?mode=ro"'),
        78,
        "target: has options after a ? that are not known",
        "single_host=yes",
    ),
    Bad(
        "option of a store",
        make.calls("--store", "sqlite:///x.db?mode=ro", "run", "entitlements"),
        78,
        "mode=ro",
        "single_host",
    ),
]

TARGETS = [
    Bad(
        "missing", lambda night: night.target.unlink(), 69, "app.db does not exist", "never created"
    ),
    Bad(
        "no database",
        lambda night: night.target.write_text("x" * 5000),
        65,
        "not a database",
        "integrity_check",
    ),
    Bad("damaged", make.damaged(make.the_target, 4096), 65, "app.db", "integrity_check"),
    Bad(
        "damaged header", make.damaged(make.the_target, 16), 65, "not a database", "integrity_check"
    ),
    Bad("truncated", make.cut(make.the_target, 0.5), 65, "malformed", "integrity_check"),
    Bad("folder", make.folder(make.the_target), 65, "app.db is not a file", "an SQLite database"),
    Bad(
        "missing table",
        make.target("DROP TABLE entitlements"),
        65,
        "has no table entitlements",
        "set the target's table",
    ),
    Bad(
        "view",
        make.target(
            "ALTER TABLE entitlements RENAME TO e", "CREATE VIEW entitlements AS SELECT * FROM e"
        ),
        65,
        "is a view",
        "name a table",
    ),
    Bad(
        "no primary key",
        make.rebuilt("CREATE TABLE entitlements (account_id TEXT, entitlement TEXT, level TEXT)"),
        65,
        "has no primary key",
        "key = [",
    ),
    Bad(
        "no unique index",
        lambda night: (
            make.rebuilt(
                "CREATE TABLE entitlements (account_id TEXT, entitlement TEXT, level TEXT)"
            )(night),
            night.add('key = ["account_id", "entitlement"]'),
        ),
        65,
        "no unique index on exactly its key",
        "CREATE UNIQUE INDEX",
    ),
    Bad(
        "missing column",
        make.config('"level"]', '"level", "until"]'),
        65,
        "has no column until",
        "rename",
    ),
    Bad(
        "scope with an error",
        make.config('"app.db"', '{ url = "app.db", scope = "orgin = 1" }'),
        65,
        "scope 'orgin = 1' cannot be used: no such column",
        "SQL condition",
    ),
    Bad(
        "scope that is no SQL",
        make.config('"app.db"', '{ url = "app.db", scope = "level =" }'),
        65,
        "scope 'level =' cannot be used",
        "SQL condition",
    ),
    Bad(
        "scope that leaves its brackets",
        make.config('"app.db"', '{ url = "app.db", scope = "1) OR (1" }'),
        65,
        "scope '1) OR (1' cannot be used",
        "SQL condition",
    ),
    Bad(
        "generated column",
        make.generated,
        65,
        "column size of table entitlements in {}/app.db is generated",
        "leave it out",
    ),
    Bad(
        "trigger that changes rows",
        make.target(
            "CREATE TRIGGER t AFTER INSERT ON entitlements BEGIN"
            " UPDATE entitlements SET level = 'x' WHERE rowid = new.rowid; END"
        ),
        65,
        "does not hold what was written to it",
        "look for a trigger",
    ),
    Bad(
        "trigger that ignores",
        make.target(
            "CREATE TRIGGER t BEFORE DELETE ON entitlements BEGIN SELECT RAISE(IGNORE); END"
        ),
        65,
        "the table ignores the change",
        "RAISE(IGNORE)",
    ),
    Bad(
        "row of the same key out of scope",
        lambda night: (
            night.sql("INSERT INTO entitlements VALUES ('acct-13', 'sso', 'other')"),
            night.configure('"app.db"', """{ url = "app.db", scope = "level IS NOT 'other'" }"""),
        ),
        3,
        "a row of that key is outside the scope",
        "status entitlements",
        left=("acct-13",),
    ),
    Bad(
        "another job's table",
        make.target(
            "CREATE TABLE other AS SELECT * FROM reconcile_fence",
            "UPDATE other SET job = 'other'",
            "INSERT INTO reconcile_fence SELECT * FROM other",
            "DROP TABLE other",
        ),
        65,
        "job entitlements and job other both work on table",
        "scope of its own",
    ),
    Bad(
        "our table altered",
        make.target("ALTER TABLE reconcile_changes DROP COLUMN action"),
        65,
        "no column named action",
        "look at the table",
    ),
    Bad(
        "read-only file",
        make.forbidden(make.the_target, 0o444),
        77,
        "readonly",
        "let this user write it",
    ),
    Bad(
        "unreadable",
        make.forbidden(make.the_target),
        77,
        "may not be opened by this user",
        "let this user",
    ),
    Bad("read-only folder", make.alone_in_read_only_folder, 77, "app.db", "let this user"),
    Bad("no room", make.much_to_grant, 69, "app.db", "df -h"),
    Bad(
        "network file system",
        make.target_on_network_file_system,
        65,
        "the SQLite target {}/there/app.db lies on nfs4, which other hosts may write to",
        "single_host=yes",
    ),
    Bad("locked", make.locked(make.the_target), 69, "locked by another program", "fuser -v"),
]

STORES = [
    Bad(
        "no database",
        lambda night: night.store.write_text("x" * 5000),
        65,
        "damaged or no SQLite database",
        "a new store is created",
    ),
    Bad(
        "somebody else's",
        make.a_strangers_database,
        65,
        "not a store of reconcile",
        "name another file",
    ),
    Bad("damaged", make.damaged(make.the_store, 4096), 65, "is damaged", "copy"),
    Bad("damaged header", make.damaged(make.the_store, 0), 65, "damaged or no SQLite", "copy"),
    Bad("truncated", make.cut(make.the_store, 0.5), 65, "is damaged", "copy"),
    Bad("no table", make.store("DROP TABLE record"), 65, "lacks a table", "restore it"),
    Bad(
        "no identity",
        make.store("DELETE FROM meta WHERE name = 'id'"),
        65,
        "lost its identity",
        "restore it",
    ),
    Bad(
        "newer schema",
        make.store("PRAGMA user_version = 2"),
        65,
        "schema version 2; this program knows 1",
        "upgrade reconcile",
    ),
    Bad(
        "damaged record",
        make.store("UPDATE record SET value = '{' WHERE kind = 'interval'"),
        65,
        "the store is damaged",
        "restore it from a copy",
    ),
    Bad(
        "record of another shape",
        make.store("UPDATE record SET value = '{}' WHERE kind = 'interval'"),
        65,
        "the store is damaged",
        "restore it from a copy",
    ),
    Bad(
        "record of another type",
        make.store("UPDATE record SET value = '[1]' WHERE kind = 'interval'"),
        65,
        "the store is damaged",
        "restore it from a copy",
    ),
    Bad(
        "damaged job record",
        make.store("UPDATE record SET value = '{\"horizon\": 7}' WHERE kind = 'job'"),
        65,
        "the store is damaged",
        "restore it from a copy",
    ),
    Bad(
        "damaged lease",
        make.store("UPDATE lease SET holder = 'x'"),
        65,
        "the store is damaged",
        "restore it from a copy",
    ),
    Bad("folder", make.folder(make.the_store), 65, "not a regular file", "name a file"),
    Bad(
        "in a folder that is not there",
        make.job('[store]\nurl = "no/such/state.db"'),
        69,
        "does not exist, nor does",
        "mkdir -p",
    ),
    Bad(
        "in a file",
        make.job('[store]\nurl = "exports/2026-11-30.csv/state.db"'),
        65,
        "cannot be a SQLite store",
        "existing folder",
    ),
    Bad(
        "device",
        make.job('[store]\nurl = "/dev/null"'),
        65,
        "the SQLite store /dev/null lies on",
        "local disk",
    ),
    Bad(
        "named and missing",
        make.calls("--store", "other.db", "status"),
        69,
        "there is no store",
        "only run makes",
    ),
    Bad(
        "read-only",
        make.forbidden(make.the_store, 0o444),
        77,
        "may not read and write the store",
        "run as the user",
    ),
    Bad(
        "unreadable",
        make.forbidden(make.the_store),
        77,
        "may not read and write the store",
        "run as the user",
    ),
    Bad(
        "read-only folder",
        make.forbidden(lambda night: night.folder, 0o555),
        77,
        "may not read and write the store",
        "run as the user",
    ),
    Bad("no room", make.limited(8192), 69, "the store", "check the disk"),
    Bad(
        "network file system",
        make.on_network_file_system,
        65,
        "lies on nfs4, which other hosts may write to",
        "single_host=yes",
    ),
    Bad("locked", make.locked(make.the_store), 69, "kept the store", "fuser"),
]

EVERYTHING = [
    *(("source", bad) for bad in SOURCES),
    *(("configuration", bad) for bad in CONFIGURATIONS),
    *(("target", bad) for bad in TARGETS),
    *(("store", bad) for bad in STORES),
]
