from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.config import AlertsConfig, Config, Job, SourceConfig
from reconcile.core.errors import ConfigError
from reconcile.core.keys import KeyPolicy
from reconcile.core.toml import parse
from reconcile.core.toml_defaults import defaults
from reconcile.core.toml_lines import key_lines
from reconcile.core.toml_values import parse_duration, show_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path("/srv/rec")
MAIN = FOLDER / "reconcile.toml"
SMALL = """
[jobs.entitlements]
schedule = "30 2 * * *"
source = "exports/{date}.csv"
target = "app.db"
"""


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x7f"), max_size=8)
written = st.recursive(
    texts | st.integers(), lambda parts: st.lists(parts, max_size=4), max_leaves=20
)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def parsed(text: str, *drop_ins: str, environ: Mapping[str, str] | None = None) -> Config:
    extra = [(FOLDER / "conf.d" / f"{n}.toml", more) for n, more in enumerate(drop_ins)]
    return parse([(MAIN, text), *extra], environ or {}, cwd=FOLDER)


def job(more: str, head: str = SMALL) -> Job:
    return parsed(head + more).jobs["entitlements"]


def refusal(text: str, *drop_ins: str, environ: Mapping[str, str] | None = None) -> str:
    """All lines that a user sees."""
    with pytest.raises(ConfigError) as refused:
        parsed(text, *drop_ins, environ=environ)
    assert refused.value.hint
    return f"{refused.value}\n  {refused.value.hint}"


class TestShortForms:
    def test_the_smallest_job_has_all_defaults(self) -> None:
        config = parsed(SMALL)
        one = config.jobs["entitlements"]
        assert config.path == MAIN
        assert config.store.url == "sqlite:///srv/rec/reconcile.db"
        assert one.origin == MAIN
        assert one.schedule == "30 2 * * *"
        assert (one.timezone, one.start, one.deadline) == ("UTC", None, None)
        assert (one.max_attempts, one.retry_delay) == (5, timedelta(minutes=5))
        assert one.work.source == SourceConfig("csv", "/srv/rec/exports/{date}.csv")
        target = one.work.target
        assert (target.type, target.url) == ("sql", "sqlite:///srv/rec/app.db")
        assert (target.table, target.key, target.account) == ("entitlements", None, None)

    def test_account_columns_and_key_may_stand_at_job_level(self) -> None:
        one = job('account = "a"\ncolumns = ["e", "l"]\nkey = ["a", "e"]')
        assert (one.work.source.account, one.work.target.account) == ("a", "a")
        assert one.work.source.columns == one.work.target.columns == ("e", "l")
        assert one.work.target.key == ("a", "e")

    def test_long_forms_take_what_they_lack_from_the_job(self) -> None:
        head = """
[jobs.entitlements]
source = { path = "e.csv" }
target = { url = "app.db" }
"""
        one = job('account = "a"\ncolumns = ["e", "l"]\nkey = ["a", "e"]', head)
        assert (one.work.source.account, one.work.source.columns) == ("a", ("e", "l"))
        target = one.work.target
        assert (target.account, target.columns, target.key) == ("a", ("e", "l"), ("a", "e"))

    @pytest.mark.parametrize(
        ("written", "url"),
        [
            ("app.db", "sqlite:///srv/rec/app.db"),
            ("/var/app.db", "sqlite:///var/app.db"),
            ("sqlite:///app.db", "sqlite:///srv/rec/app.db"),
            ("sqlite:////var/app.db", "sqlite:///var/app.db"),
            ("SQLite:////var/my%20app.db", "sqlite:///var/my app.db"),
            ("what?.db", "sqlite:///srv/rec/what%3F.db"),
            ("a:b.db", "sqlite:///srv/rec/a:b.db"),
        ],
    )
    def test_addresses_are_normalised(self, written: str, url: str) -> None:
        head = SMALL.replace("app.db", written)
        assert job("", head).work.target.url == url

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("e.csv", "csv"),
            ("e.CSV.GZ", "csv"),
            ("/abs/{date:%Y/%m}.csv.gz", "csv"),
            ("e.jsonl", "jsonl"),
            ("e.ndjson", "jsonl"),
            ("{date}.jsonl.gz", "jsonl"),
            ("e.NDJSON.gz", "jsonl"),
        ],
    )
    def test_the_suffix_says_the_type(self, path: str, kind: str) -> None:
        source = job("", SMALL.replace("exports/{date}.csv", path)).work.source
        assert source.type == kind
        assert source.path == str(FOLDER / path)

    def test_a_job_without_a_schedule_is_on_demand(self) -> None:
        assert job("", SMALL.replace('schedule = "30 2 * * *"', "")).schedule is None

    def test_no_job_at_all_is_fine(self) -> None:
        assert parsed("").jobs == {}


class TestLongForm:
    TEXT = """
[store]
url = "sqlite:///state/rec.db?single_host=yes"

[alerts]
command = ["bin/page", "-q", "-q"]
notify = ["mailto://rec:secret@example.org"]
metrics_file = "metrics/reconcile.prom"

[jobs.entitlements]
schedule = "@daily"
timezone = "UTC"
dst_gap = "skip"
dst_overlap = "both"
start = 2026-11-01
deadline = "6h"
key_policy = "casefold"
range_size = 1000
plan_age = "2h"
fence_wait = "90s"
max_attempts = 3
retry_delay = "10m"
max_runtime = "3h"
max_intervals = 2
heartbeat = "https://hc-ping.com/0f5b"
max_wait = "30s"
on_failed = "block"

[jobs.entitlements.lease]
ttl = "30s"
progress_deadline = "5m"
detect_dead = false

[jobs.entitlements.catch_up]
policy = "latest"
window = "3d"
rate = "4/h"

[jobs.entitlements.source]
type = "csv"
path = "exports/{date}"
account = "acct"
columns = ["entitlement", "level"]
null = ["NULL", ""]
rename = { ent = "entitlement" }
fields = ["acct", "ent", "level"]
manifest = "exports/{date}.json"
delimiter = "\\t"
encoding = "cp1252"

[jobs.entitlements.target]
type = "sql"
url = "sqlite:///app.db"
table = "grants"
key = ["account_id", "entitlement"]
account = "account_id"
scope = "origin = 'billing'"
interval_column = "as_of"
schema = "main"

[jobs.entitlements.guards]
max_revoke = "12.5%"
max_revoke_min = 0
max_update = "100%"
min_rows = 7
must_contain = ["acct-1"]
"""

    def test_each_key_is_read(self) -> None:
        config = parsed(self.TEXT)
        one = config.jobs["entitlements"]
        assert config.store.url == "sqlite:///srv/rec/state/rec.db?single_host=yes"
        assert config.alerts == AlertsConfig(
            command=("bin/page", "-q", "-q"),
            notify=("mailto://rec:secret@example.org",),
            metrics_file="/srv/rec/metrics/reconcile.prom",
        )
        assert one.heartbeat == "https://hc-ping.com/0f5b"
        assert one.schedule == "@daily"
        assert one.start == datetime(2026, 11, 1, tzinfo=UTC)
        assert (one.deadline, one.max_runtime) == (timedelta(hours=6), timedelta(hours=3))
        assert (one.max_attempts, one.max_intervals) == (3, 2)
        assert one.retry_delay == timedelta(minutes=10)
        assert one.lease.ttl == timedelta(seconds=30)
        assert one.lease.progress_deadline == timedelta(minutes=5)
        assert one.lease.detect_dead is False
        assert (one.catch_up.policy, one.catch_up.window) == ("latest", timedelta(days=3))
        work = one.work
        assert (work.range_size, work.plan_age) == (1000, timedelta(hours=2))
        assert work.fence_wait == timedelta(seconds=90)
        assert work.source == SourceConfig(
            "csv",
            "/srv/rec/exports/{date}",
            account="acct",
            columns=("entitlement", "level"),
            null=("NULL", ""),
            rename={"ent": "entitlement"},
            delimiter="\t",
            encoding="cp1252",
            fields=("acct", "ent", "level"),
            manifest="/srv/rec/exports/{date}.json",
        )
        assert work.key_policy is work.target.key_policy is KeyPolicy.CASEFOLD
        assert work.target.table == "grants"
        assert work.target.account == "account_id"
        assert work.target.columns == ("entitlement", "level")
        assert work.target.scope == "origin = 'billing'"
        assert work.target.interval_column == "as_of"
        assert not work.overtakes
        assert (work.target.type, work.target.schema) == ("sql", "main")
        guards = work.guards
        assert (guards.max_revoke, guards.max_revoke_min, guards.max_update) == (0.125, 0, 1.0)
        assert (guards.min_rows, guards.must_contain) == (7, ("acct-1",))

    @pytest.mark.parametrize(
        ("line", "kind", "schema"),
        [
            ('"postgresql://u@h/db"', "postgres", None),
            ('{ url = "postgres://u@h/db", schema = "ops" }', "postgres", "ops"),
            ('{ type = "postgres", url = "postgresql://u@h/db" }', "postgres", None),
            ('{ type = "sql", url = "postgresql://u@h/db" }', "sql", None),
        ],
    )
    def test_a_target_in_postgresql_is_known_by_its_address(
        self, line: str, kind: str, schema: str | None
    ) -> None:
        target = parsed(SMALL.replace('"app.db"', line)).jobs["entitlements"].work.target
        assert (target.type, target.schema, target.table) == (kind, schema, "entitlements")
        assert target.url.endswith("://u@h/db")

    def test_every_key_that_is_read_has_a_default_in_the_table(self) -> None:
        """The manual is compared with `defaults`; so that must name each key there is."""
        text = tomllib.loads(self.TEXT)
        alerts = (f"alerts.{key}" for key in text["alerts"])
        written = {"store.url", "store.keep", "timezone", *alerts}
        document = text["jobs"]["entitlements"]
        for key, value in document.items():
            inner = value if isinstance(value, dict) else {"": None}
            written |= {f"{key}.{name}".rstrip(".") for name in inner}
        without = {"source.path", "target.url"}  # required
        assert set(defaults()) | without == written | {"target.columns"}

    def test_the_table_of_defaults_agrees_with_what_a_small_job_gets(self) -> None:
        one, told = parsed(SMALL).jobs["entitlements"], defaults()
        assert told["range_size"] == str(one.work.range_size)
        assert told["key_policy"] == one.work.key_policy == "exact"
        assert told["max_attempts"] == str(one.max_attempts)
        assert parse_duration(told["retry_delay"]) == one.retry_delay
        assert parse_duration(told["plan_age"]) == one.work.plan_age
        assert parse_duration(told["lease.progress_deadline"]) == one.lease.progress_deadline
        assert told["guards.max_revoke"] == f"{one.work.guards.max_revoke:.0%}"
        assert told["guards.max_update"] == f"{one.work.guards.max_update:.0%}"
        assert told["source.delimiter"] == one.work.source.delimiter

    def test_every_field_of_a_job_can_be_written(self) -> None:
        one = parsed(self.TEXT).jobs["entitlements"]
        small = parsed(SMALL).jobs["entitlements"]
        for part in ("", "lease", "catch_up"):
            long_part, small_part = (getattr(o, part) if part else o for o in (one, small))
            for name in long_part._fields:
                if name not in {"name", "origin", "timezone"}:
                    assert getattr(long_part, name) != getattr(small_part, name), name


class TestStart:
    @pytest.mark.parametrize(
        ("written", "instant"),
        [
            ("2026-11-01", "2026-11-01T00:00:00+00:00"),
            ("2026-11-01T02:30:00Z", "2026-11-01T02:30:00+00:00"),
            ("2026-11-01T02:30:00+02:00", "2026-11-01T00:30:00+00:00"),
        ],
    )
    def test_it_is_a_date_or_an_instant(self, written: str, instant: str) -> None:
        start = job(f"start = {written}").start
        assert start is not None
        assert start.isoformat() == instant

    @pytest.mark.parametrize(
        ("written", "says"),
        [
            ("2026-11-01T02:30:00", "has no offset"),
            ('"2026-11-01"', "without quotes"),
            ("02:30:00", "a date or time"),
            ("0001-01-01T00:00:00+05:00", "outside the years"),
        ],
    )
    def test_anything_else_is_refused(self, written: str, says: str) -> None:
        assert says in refusal(f"{SMALL}start = {written}")


class TestEnvironment:
    def test_variables_are_filled_into_texts_and_lists(self) -> None:
        text = SMALL.replace("app.db", "${HOME}/${N}.db") + 'columns = ["${COL}"]'
        config = parsed(text, environ={"HOME": "/opt/h", "N": "x", "COL": "level"})
        assert config.jobs["entitlements"].work.target.url == "sqlite:///opt/h/x.db"
        assert config.jobs["entitlements"].work.target.columns == ("level",)

    def test_a_dollar_alone_is_a_dollar(self) -> None:
        assert job("", SMALL.replace("app.db", "$HOME.db")).work.target.url.endswith("$HOME.db")

    @pytest.mark.parametrize(
        ("written", "says"),
        [
            ("${NOPE}", "reads ${NOPE}, which the environment does not have"),
            ("${}", "has ${ that begins no ${NAME}"),
            ("${a-b}", "has ${ that begins no ${NAME}"),
            ("${open", "has ${ that begins no ${NAME}"),
            ("${NUL}", "NUL"),
            ("a\\u0000b", "NUL"),
        ],
    )
    def test_what_cannot_be_filled_in_is_refused(self, written: str, says: str) -> None:
        assert says in refusal(SMALL.replace("app.db", written), environ={"NUL": "a\0b"})


class TestRefusals:
    @pytest.mark.parametrize(
        ("more", "line"),
        [
            ("range_sise = 3", "range_sise: no such key\n  did you mean range_size?"),
            ("zzz = 3", "zzz: no such key\n  known here: account, "),
            ("range_size = 0", "range_size: is 0\n  write a number from 1 on"),
            ("range_size = true", "range_size: is true, not a whole number"),
            ("range_size = 1.0", "range_size: is the number 1.0, not a whole number"),
            ('max_attempts = "5"', "max_attempts: is a text, not a whole number"),
            ("max_intervals = 0", "max_intervals: is 0"),
            ("deadline = 5", "deadline: is the number 5, not a duration"),
            ('deadline = "5"', "deadline: is '5', not a duration"),
            ('deadline = "0s"', "deadline: is '0s'\n  write at least 1s"),
            ('deadline = "1h30m"', "deadline: is '1h30m', not a duration"),
            ('deadline = "999999999d"', "deadline: is '999999999d', not a duration"),
            ("guards.max_revoke = 0.1", "guards.max_revoke: is the number 0.1, not a percentage"),
            ('guards.max_revoke = "101%"', "guards.max_revoke: is '101%', not a percentage"),
            ('guards.max_revoke = "10"', "guards.max_revoke: is '10', not a percentage"),
            ('guards.must_contain = "x"', "guards.must_contain: is a text, not a list of texts"),
            ("guards.must_contain = [1]", "guards.must_contain: is a list of other things"),
            ('guards.must_contain = [" "]', "guards.must_contain: has an empty text in it"),
            ("guards.min_rows = -1", "guards.min_rows: is -1\n  write a number from 0 on"),
            ("guards = 3", "guards: is the number 3, not a table"),
            ("lease.detect_dead = 1", "lease.detect_dead: is the number 1"),
            ('lease.ttl = "1s"', "lease.ttl: is '1s'\n  write at least 2s"),
            (
                'lease.progress_deadline = "11s"',
                "lease.progress_deadline: renewal, every 12s, would be slower",
            ),
            ('lease.ttl = "51m"', "lease.ttl: renewal, every 612s, would be slower"),
            ('catch_up.policy = "some"', "catch_up.policy: is 'some'"),
            ('catch_up.rate = "fast"', "catch_up.rate: is 'fast', not a rate"),
            (
                'catch_up.rate = "1/d"',
                "catch_up.rate: is no faster than the schedule, which has 366 intervals a year",
            ),
            ('on_failed = "stop"', "on_failed: is 'stop'"),
            (
                'catch_up.window = "23h"',
                "catch_up.window: is shorter than a period of the schedule, 1d",
            ),
            (
                'timezone = "Europe/Berln"',
                "timezone: 'Europe/Berln' is no time zone\n  did you mean Europe/Berlin?",
            ),
            ('timezone = "berlin"', "timezone: 'berlin' is no time zone\n  did you mean Europe/Be"),
            ('timezone = "localtime"', "timezone: 'localtime' is no time zone"),
            ('dst_gap = "first"', 'dst_gap: is \'first\'\n  write "shift" or "skip"'),
            ('dst_overlap = "last"', 'dst_overlap: is \'last\'\n  write "first" or "both"'),
            ('account = ""', "account: is empty"),
            ('columns = ["a", "a"]', "columns: names 'a' twice"),
            ('account = "a"\ncolumns = ["a"]', "columns: has the account, 'a', in it"),
            ('columns = ["a"]\nkey = ["x", "y"]', "key: has 'y' in it, which is neither"),
            (
                'key_policy = "lower"',
                'key_policy: is \'lower\'\n  write "exact" or "casefold" or "nfc" or "trim"',
            ),
            ("key_policy = 1", "key_policy: is the number 1, not a text"),
            ('heartbeat = "hc-ping.com/1"', "heartbeat: is no address of a web server"),
            ('heartbeat = "https://h/1#x"', "heartbeat: is no address of a web server"),
        ],
    )
    def test_a_wrong_value_is_refused_with_line_key_and_mend(self, more: str, line: str) -> None:
        number = 5 + len(more.splitlines()[: 1 if line.startswith("columns: has") else None])
        number += line.startswith("columns: has")
        told = refusal(SMALL + more)
        assert told.startswith(f"reconcile.toml line {number}: jobs.entitlements.{line}")
        assert told.count(": jobs.") == 1

    @pytest.mark.parametrize(
        "more",
        [
            'notify = ["x"]',
            'source.type = "scim"',
            'target.type = "scim"',
        ],
    )
    def test_what_a_later_version_knows_is_refused_by_name(self, more: str) -> None:
        head = '[jobs.j]\nschedule = "@daily"\n'
        if "source." not in more:
            head += 'source = "e.csv"\n'
        if "target." not in more:
            head += 'target = "app.db"\n'
        told = refusal(head + more)
        assert "not supported by this version" in told
        assert "no such key" not in told

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ('[alerts]\ncommand = "page"', "line 2: alerts.command: is not a list of texts"),
            ('[alerts]\ncommand = ["page", 3]', "line 2: alerts.command: is not a list of texts"),
            ('[alerts]\ncommand = [""]', "line 2: alerts.command: is not a list of texts"),
            ('[alerts]\nnotify = ["nobody"]', "line 2: alerts.notify: has something in it that"),
            ('[alerts]\nnotify = ["a://x", "a://x"]', "line 2: alerts.notify: names one twice"),
            ('[alerts]\nmetric_file = "x"', "line 2: alerts.metric_file: no such key\n  did you"),
            ('[store]\nkeep = "1d"', "line 2: store.keep: is '1d'\n  write at least 2d"),
            (
                '[store]\nurl = "sqlite://host/x"',
                "line 2: store.url: 'sqlite://host/x' is no address",
            ),
            ('[store]\nurl = "sqlite:///"', "line 2: store.url: this address names no file"),
            ('[store]\nurl = ":memory:"', "line 2: store.url: this address names no file"),
            ("store = 3", "line 1: store: is the number 3, not a table"),
            ("jobs = 3", "line 1: jobs: is the number 3, not a table"),
            ("[jobs]\nx = 3", "line 2: jobs.x: is the number 3, not a table"),
            ("[job.x]", "line 1: job: no such key\n  did you mean jobs?"),
            ("[jobs.Nightly]", "line 1: jobs.Nightly: cannot be the name of a job"),
            ('[jobs."a b"]', 'line 1: jobs."a b": cannot be the name of a job'),
            ("[jobs.-x]", "line 1: jobs.-x: cannot be the name of a job"),
            ("[jobs.x]", "line 1: jobs.x: has no source"),
            (
                f"{SMALL}\n[jobs.entitlement.guards]\nmin_rows = 1",
                "line 7: jobs.entitlement: is no job: it has neither source, target nor command\n"
                "  did you mean jobs.entitlements.guards?",
            ),
            (f"{SMALL}\n[jobs.entitlement]\nmax_attempts = 1", "line 7: jobs.entitlement: has no"),
            (f"{SMALL}\n[jobs.other.guards]\nmin_rows = 1", "line 7: jobs.other: has no source"),
            ('[jobs.x]\nsource = "a.csv"', "line 1: jobs.x: has no target"),
            ('[jobs.x]\nsource = 3\ntarget="x"', "line 2: jobs.x.source: is the number 3"),
            ("[jobs.x.source]\ntarget = 3", "line 1: jobs.x.source: has no path"),
            ("[jobs.x.target]\ntable = 't'", "line 1: jobs.x.target: has no url"),
            (
                "[jobs.x.source]\nkey_policy = 'nfc'",
                "line 2: jobs.x.source.key_policy: is of both sides\n  write it at job level",
            ),
            (
                "[jobs.x.target]\nkey_policy = 'exact'",
                "line 2: jobs.x.target.key_policy: is of both sides\n  write it at job level",
            ),
        ],
    )
    def test_what_is_wrong_around_jobs_is_refused(self, text: str, says: str) -> None:
        assert f"reconcile.toml {says}" in refusal(text)

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ('source = "e.json"', "does not say by its suffix"),
            ('source = "s3://x/e.csv"', "only files are supported"),
            ('source = { path = "e.csv", rate = "5/s" }', "rate: is for HTTP sources only"),
            ('source = { path = "e.csv", manifest = "s3://x/e.json" }', "only files are supported"),
            ('source = { path = "e.csv", manifest = "{dat}.json" }', "{dat} is no placeholder"),
            ('source = { path = "e.csv", fields = [] }', "fields: is empty"),
            ('source = { path = "e.csv", fields = ["a", "a"] }', "names 'a' twice"),
            ('source = { path = "e.jsonl", fields = ["a"] }', "fields: is for CSV files only"),
            (
                'source = { path = "e", type = "jsonl", delimiter = ";" }',
                "delimiter: is for CSV files only",
            ),
            ('source = "e.json"', "(.csv, .jsonl, .ndjson, each also with .gz)"),
            ('source = "{dat}.csv"', "{dat} is no placeholder"),
            ('source = { path = "e", type = "cvs" }', "is 'cvs'"),
            ('source = { path = "e.csv", delimiter = ",," }', "not a text of 1 character"),
            ('source = { path = "e.csv", delimiter = \'"\' }', "cannot be '\"'"),
            ('source = { path = "e.csv", encoding = "utf-16" }', "no encoding that such a"),
            ('source = { path = "e.csv", encoding = "nope" }', "no encoding that such a"),
            ('source = { path = "e.csv", rename = {a = "x", b = "x"} }', "two names to the same"),
            ('source = { path = "e.csv", rename = {a = 1} }', "is the number 1, not a text"),
            ('target = "redis://x/y"', "only SQLite and PostgreSQL targets are supported"),
            ('target = { url = "a.db", schema = "ops" }', "that an SQLite file has not"),
            ('target = { url = "a.db", type = "postgres" }', "is postgres, and url is not"),
            ('target = "sqlite:///app.db?x=1"', "has options after a ?"),
            ('target = "sqlite:app.db"', "is no address of an SQLite file"),
        ],
    )
    def test_a_source_or_target_that_cannot_work_is_refused(self, line: str, says: str) -> None:
        key = line.partition(" ")[0]
        head = "".join(row + "\n" for row in SMALL.splitlines() if not row.startswith(key))
        assert says in refusal(head + line)

    def test_a_start_or_catch_up_without_a_schedule_is_refused(self) -> None:
        head = SMALL.replace('schedule = "30 2 * * *"\n', "")
        told = refusal(head + 'start = 2026-11-01\ncatch_up.policy = "all"')
        assert told.count("means nothing without a schedule") == 2

    def test_a_key_that_is_read_twice_is_told_once(self) -> None:
        assert refusal(SMALL.replace("30 2 * * *", "${NOPE}")).count("${NOPE}") == 1

    def test_a_wrong_schedule_is_told_once(self) -> None:
        told = refusal(SMALL.replace("30 2", "99 2") + 'start = 2026-11-01\ncatch_up.window="1d"')
        assert told.count("line") == 1
        assert "line 3: jobs.entitlements.schedule: '99 2 * * *' is no schedule: bad minute" in told

    def test_a_folder_with_braces_is_refused_and_not_filled_in(self) -> None:
        with pytest.raises(ConfigError, match="single brace"):
            parse([(Path("/srv/{x/reconcile.toml"), SMALL)], {})

    def test_all_problems_of_all_files_come_at_once_in_order_of_place(self) -> None:
        told = refusal(
            SMALL + "zz = 1\nrange_size = 0\n[store]\nkeep = 1",
            "[jobs.b]\nyy = 1",
            "[jobs.c",
        )
        places = [line.split(":")[0] for line in told.splitlines() if not line.startswith("  ")]
        assert places == [
            "reconcile.toml line 6",
            "reconcile.toml line 7",
            "reconcile.toml line 9",
            "conf.d/0.toml line 1",
            "conf.d/0.toml line 1",
            "conf.d/0.toml line 2",
            "conf.d/1.toml line 1",
        ]

    def test_a_file_outside_the_current_folder_is_named_in_full(self) -> None:
        with pytest.raises(ConfigError, match=r"^/srv/rec/reconcile.toml line 6: "):
            parse([(MAIN, SMALL + "zz = 1")], {}, cwd=Path("/opt/alice"))


class TestFields:
    @pytest.mark.parametrize(
        ("fields", "more", "lacks"),
        [
            ('["a", "e"]', 'account = "a"\ncolumns = ["e", "l"]', "l"),
            ('["e", "l"]', 'account = "a"\ncolumns = ["e", "l"]', "a"),
            ('["a", "l"]', 'key = ["a", "e"]', "e"),
            ('["e", "l"]', 'key = ["a", "e"]', "a"),
            ('["a", "x"]', 'account = "a"\ncolumns = ["e"]\nsource.rename.y = "e"', "y (which"),
            ('["a", "e"]', 'account = "a"\ncolumns = ["e"]\nsource.rename.e = "f"', "for e (ren"),
        ],
    )
    def test_fields_without_a_column_that_is_named_are_refused(
        self, fields: str, more: str, lacks: str
    ) -> None:
        head = SMALL.replace('source = "exports/{date}.csv"', f'source.path = "x.csv"\n{more}')
        assert f"source.fields: has no column {lacks}" in refusal(
            f"{head}source.fields = {fields}\n"
        )

    @pytest.mark.parametrize(
        ("fields", "more"),
        [
            ('["b"]', ""),
            ('["E", "A"]', 'account = "a"\ncolumns = ["e"]'),
            ('["x", "a", "l", "e"]', 'key = ["a", "e"]'),
            ('["a", "y"]', 'account = "a"\ncolumns = ["e"]\nsource.rename.y = "e"'),
            ('["b", "e"]', 'key = ["a", "e"]\nsource.account = "b"'),
        ],
    )
    def test_fields_that_the_table_may_fit_are_not(self, fields: str, more: str) -> None:
        head = SMALL.replace('source = "exports/{date}.csv"', f'source.path = "x.csv"\n{more}')
        assert job(f"source.fields = {fields}\n", head).work.source.fields


class TestSyntax:
    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("a = 1\nb =\nc = 2", "line 2: not TOML: invalid value"),
            ("a = 1\na = 2", "line 2: not TOML: cannot overwrite a value"),
            ("a = 1\n\n[jobs", "line 3: not TOML: "),
            ('a = """\nx\n', "line 2: not TOML: unterminated string"),
        ],
    )
    def test_what_is_not_toml_is_refused_with_its_line(self, text: str, line: str) -> None:
        assert f"reconcile.toml {line}" in refusal(text)

    @pytest.mark.parametrize("text", ["a = " + "[" * 10_000, "a = " + "9" * 5000])
    def test_what_the_parser_cannot_bear_is_refused_too(self, text: str) -> None:
        assert refusal(text).startswith("reconcile.toml: ")


class TestStore:
    def test_a_configuration_of_the_system_keeps_its_store_in_var(self) -> None:
        for main in ("/etc/reconcile/reconcile.toml", "/etc/reconcile/sub/x.toml"):
            config = parse([(Path(main), SMALL)], {})
            assert config.store.url == "sqlite:///var/lib/reconcile/state.db"

    def test_a_store_of_the_command_line_goes_first_and_is_relative_to_the_caller(self) -> None:
        cwd = Path("/opt/alice")
        config = parse([(MAIN, '[store]\nurl = "x.db"')], {}, cwd=cwd, store="mine.db")
        assert config.store.url == "sqlite:///opt/alice/mine.db"

    def test_other_schemes_are_left_to_the_registry(self) -> None:
        assert parsed('[store]\nurl = "memory:"').store.url == "memory:"

    def test_a_postgres_store_is_taken_as_it_is_written(self) -> None:
        url = "postgresql://ops:pw@db:6432/rec?schema=nights&sslmode=verify-full"
        assert parsed(f'[store]\nurl = "{url}"').store.url == url

    @pytest.mark.parametrize("url", ["app.db", "x/../app.db", "sqlite:///app.db?single_host=yes"])
    def test_store_and_target_in_one_file_are_refused(self, url: str, tmp_path: Path) -> None:
        main = tmp_path / "reconcile.toml"
        (tmp_path / "x").mkdir()
        with pytest.raises(ConfigError, match=r"target: is the file of the store"):
            parse([(main, f'[store]\nurl = "{url}"\n{SMALL}')], {})

    def test_store_and_target_in_one_file_by_a_link_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "link.db").symlink_to("app.db")
        with pytest.raises(ConfigError, match=r"target: is the file of the store"):
            parse([(tmp_path / "reconcile.toml", SMALL)], {}, cwd=tmp_path, store="link.db")

    def test_an_option_of_a_target_makes_no_other_table_of_it(self) -> None:
        table = (
            '[jobs.other.target]\nurl = "sqlite:///app.db?single_host=yes"\ntable = "entitlements"'
        )
        other = "\n".join([*SMALL.replace("entitlements", "other").splitlines()[:-1], table])
        assert "is the table of job entitlements too" in refusal(f"{SMALL}\n{other}")

    def test_a_loop_of_links_is_left_to_those_who_open_it(self, tmp_path: Path) -> None:
        (tmp_path / "app.db").symlink_to("app.db")
        assert parse([(tmp_path / "reconcile.toml", SMALL)], {}).jobs


class TestSeveralJobs:
    @staticmethod
    def second(target: str) -> str:
        return f'[jobs.other]\nsource = "e.csv"\ntarget = {{ url = "app.db", {target} }}'

    def test_drop_ins_add_jobs_whose_paths_are_those_of_the_main_file(self) -> None:
        config = parsed(SMALL, self.second('table = "other"'))
        assert list(config.jobs) == ["entitlements", "other"]
        assert config.jobs["other"].origin == FOLDER / "conf.d/0.toml"
        assert config.jobs["other"].work.source.path == "/srv/rec/e.csv"

    def test_drop_ins_hold_jobs_only(self) -> None:
        told = refusal(SMALL, '[store]\nurl = "x"')
        assert "conf.d/0.toml line 1: store: stands in a drop-in" in told
        assert "put it into reconcile.toml" in told

    def test_a_job_of_two_files_is_refused(self) -> None:
        told = refusal(SMALL, SMALL)
        assert "conf.d/0.toml line 2: jobs.entitlements: is a job of reconcile.toml too" in told

    @pytest.mark.parametrize(
        ("first", "second"), [("", ""), ('scope = "a"', ""), ('scope = "a"', 'scope = "a"')]
    )
    def test_two_jobs_that_own_the_same_rows_are_refused(self, first: str, second: str) -> None:
        head = SMALL.replace('"app.db"', '{ url = "app.db", table = "t", ' + first + "}")
        told = refusal(
            head.replace(", }", "}"), self.second('table = "t"' + (", " + second) * bool(second))
        )
        assert "jobs.other.target: is the table of job entitlements too" in told

    def test_two_jobs_with_scopes_of_their_own_may_share_a_table(self) -> None:
        head = SMALL.replace('"app.db"', '{ url = "app.db", table = "t", scope = "a" }')
        assert len(parsed(head, self.second('table = "t", scope = "b"')).jobs) == 2


class TestLines:
    def test_keys_are_found_in_all_forms(self) -> None:
        text = '''# [not.a.table]
a = 1   # b = 2
"b c".d = "x # no comment"
[t]   # comment
text = """
[not.a.table]
k = "\\""" ""
"""
two = """x"""""
raw = \'\'\'
'k' = 1'\'\'\'\'
after.raw = { in = 1, deeper = { x = [1, {y = 2}] } }
list = [
  "]", # ]
  1,
]
last = 2026-11-01 02:30:00
[ t . "u.v" ]
'w' = "a,b]}"
[[arrays]]
x = 1
[[arrays]]
x = 2
'''
        tomllib.loads(text)
        assert key_lines(text) == {
            ("a",): 2,
            ("b c",): 3,
            ("b c", "d"): 3,
            ("t",): 4,
            ("t", "text"): 5,
            ("t", "two"): 9,
            ("t", "raw"): 10,
            ("t", "after"): 12,
            ("t", "after", "raw"): 12,
            ("t", "after", "raw", "in"): 12,
            ("t", "after", "raw", "deeper"): 12,
            ("t", "after", "raw", "deeper", "x"): 12,
            ("t", "after", "raw", "deeper", "x", "y"): 12,
            ("t", "list"): 13,
            ("t", "last"): 17,
            ("t", "u.v"): 18,
            ("t", "u.v", "w"): 19,
            ("arrays",): 20,
            ("arrays", "x"): 21,
        }

    def test_windows_line_ends_count_once(self) -> None:
        assert key_lines("a = 1\r\n[t]\r\nb = 'x'\r\n")[("t", "b")] == 3

    @given(st.dictionaries(texts.filter(bool), written))
    def test_each_key_of_a_document_is_on_the_line_it_was_written_on(
        self, values: dict[str, object]
    ) -> None:
        # Texts, numbers and lists are spelled alike in JSON and TOML.
        rows = [f"{_json(key)} = {_json(value)} # = 'x" for key, value in values.items()]
        lines = {(key,): number + 1 for number, key in enumerate(values)}
        document = "\n".join(rows)
        assert tomllib.loads(document) == values
        assert key_lines(document) == lines


class TestDurations:
    @given(st.integers(1, 36500), st.sampled_from("smhd"))
    def test_what_is_shown_is_read_as_the_same(self, number: int, unit: str) -> None:
        duration = parse_duration(f"{number}{unit}")
        assert parse_duration(show_duration(duration)) == duration

    @pytest.mark.parametrize("text", ["", "5", "m", "-5m", "5 m", "5M", "1.5h", "5m5", "٣m"])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError):
            parse_duration(text)
