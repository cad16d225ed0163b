"""`config`: what a configuration means in the end, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import Cli

from reconcile.core.config import Config
from reconcile.core.toml import parse
from reconcile.core.toml_defaults import defaults

SMALL = """
[jobs.entitlements]
schedule = "30 2 * * *"
source = "exports/{date}.csv"
target = "app.db"
"""
FULL = """
[store]
url = "sqlite:///state/my%20store.db?single_host=yes"

[jobs.entitlements]
schedule = "Mon..Fri 02:30 America/New_York"
dst_gap = "skip"
start = 2026-12-24T12:00:00+01:00
account = "account_id"
max_runtime = "3h"

[jobs.entitlements.lease]
ttl = "90s"

[jobs.entitlements.source]
path = "exports/{date:%Y}/\\u007f \\"x\\".csv"
type = "csv"
null = ["NULL", ""]
rename = { "A c c t" = "account_id" }

[jobs.entitlements.target]
url = "app.db"
scope = "origin = 'billing'"

[jobs.entitlements.guards]
max_revoke = "12.5%"
must_contain = ["acct-1", "acct-2"]
"""


def read(cli: Cli, text: str) -> Config:
    return parse([(cli.folder / "reconcile.toml", text)], {})


def settled(config: Config) -> Config:
    """What only depends on something else, filled in as `config` shows it."""
    jobs = {}
    for name, job in config.jobs.items():
        policy = job.catch_up_policy if job.schedule else None
        jobs[name] = job._replace(
            deadline=None,
            lease=job.lease._replace(ttl=None),
            catch_up=job.catch_up._replace(policy=policy, window=None),
            work=job.work._replace(fence_wait=None),
        )
    return config._replace(jobs=jobs)


@pytest.mark.parametrize("text", [SMALL, FULL], ids=["small", "full"])
def test_what_it_prints_is_a_configuration_that_means_the_same(cli: Cli, text: str) -> None:
    cli.configure(text)
    shown = cli("config")
    assert (shown.code, shown.words) == (0, "")
    assert settled(read(cli, shown.data)) == settled(read(cli, text))
    # Said twice over, nothing is a default any more, and nothing else has changed.
    cli.configure(shown.data)
    again = cli("config").data
    assert again == shown.data.replace("  # default\n", "\n")


def test_every_key_is_shown_and_what_the_file_does_not_say_is_marked(cli: Cli) -> None:
    cli.configure(SMALL)
    found = json.loads(cli("config", "--json").data)
    (job,) = found["jobs"]
    every = {*found["store"]["settings"], *found["alerts"]["settings"], *job["settings"]}
    assert every == {*defaults(), "source.path", "target.url"}
    unsaid = {*found["store"]["defaults"], *found["alerts"]["defaults"], *job["defaults"]}
    said = every - unsaid
    assert said == {"schedule", "source.path", "target.url"}
    text = cli("config").data
    for key in defaults():
        name = key.rpartition(".")[2]
        assert f"\n{name} = " in text or f"\n# {name}: " in text, key
    assert 'retry_delay = "5m"  # default\n' in text
    assert "# max_runtime: none (default)\n" in text
    assert f'url = "sqlite:///{cli.folder}/reconcile.db"  # default\n' in text
    assert f'path = "{cli.folder}/exports/{{date}}.csv"\n' in text


def test_a_key_at_job_level_is_said_for_both_sides(cli: Cli) -> None:
    cli.configure(FULL)
    (job,) = json.loads(cli("config", "--json").data)["jobs"]
    assert {"source.account", "target.account"} & {*job["defaults"]} == set()
    assert job["settings"]["source.account"] == job["settings"]["target.account"] == "account_id"


def test_the_next_five_instants_of_each_job_are_shown(cli: Cli) -> None:
    cli.configure(SMALL)
    (job,) = json.loads(cli("config", "--json").data)["jobs"]
    assert job["next"] == [f"2026-12-0{day}T02:30:00Z" for day in range(1, 6)]
    assert "#   2026-12-01 02:30Z\n#   2026-12-02 02:30Z\n" in cli("config").data
    cli.configure(FULL)
    (job,) = json.loads(cli("config", "--json").data)["jobs"]
    assert job["next"][0] == "2026-12-25T07:30:00Z", "none before its start"
    assert job["next_local"][0] == "2026-12-25T02:30:00-05:00"
    assert job["settings"]["timezone"] == "America/New_York"
    assert "timezone" not in job["defaults"], "the expression says it"
    shown = cli("config").data
    assert "# its next five instants, in UTC, and on the clock there:\n" in shown
    assert "#   2026-12-28 07:30Z  Mon 2026-12-28 02:30 -05:00\n" in shown
    cli.configure(SMALL.replace('schedule = "30 2 * * *"', ""))
    (job,) = json.loads(cli("config", "--json").data)["jobs"]
    assert job["next"] == []


def test_one_job_can_be_asked_for(cli: Cli) -> None:
    (cli.folder / "conf.d").mkdir()
    other = cli.folder / "conf.d/b.toml"
    other.write_text(SMALL.replace("entitlements]", "groups]").replace("app.db", "b.db"))
    cli.configure(SMALL)
    both = json.loads(cli("config", "--json").data)
    assert [job["job"] for job in both["jobs"]] == ["entitlements", "groups"]
    assert both["files"] == [str(cli.folder / "reconcile.toml"), str(other)]
    one = cli("config", "groups").data
    assert "[jobs.groups]\n# of " in one
    assert "jobs.entitlements" not in one
    shown = cli("config", "grups")
    assert (shown.code, "did you mean groups?" in shown.words) == (78, True)


def test_a_configuration_without_jobs_says_so(cli: Cli) -> None:
    cli.configure("")
    shown = cli("config")
    assert shown.code == 0
    assert shown.data.endswith("\n# no job\n")
    assert shown.words == "no job is configured; an example: reconcile init\n"
    assert cli("-q", "config").words == ""


def test_nothing_but_the_configuration_is_looked_at(cli: Cli) -> None:
    cli.configure(SMALL)
    before = sorted(cli.folder.iterdir())
    assert cli("config").code == 0
    assert sorted(cli.folder.iterdir()) == before


def test_a_store_of_the_command_line_is_the_one_in_force(cli: Cli) -> None:
    cli.configure(SMALL)
    shown = cli("config", "--store", "other.db")
    assert f'url = "sqlite:///{cli.folder}/other.db"\n' in shown.data


def test_all_that_is_wrong_is_told_at_once(cli: Cli) -> None:
    cli.configure(SMALL + "max_atempts = 3\nretry_delay = 5\n")
    shown = cli("config")
    assert (shown.code, shown.data) == (78, "")
    assert "line 6: jobs.entitlements.max_atempts: no such key" in shown.words
    assert "line 7: jobs.entitlements.retry_delay: is the number 5" in shown.words


class TestFilesOfSecrets:
    """`url_file` holds what `url` would say."""

    def with_file(self, cli: Cli, content: bytes) -> Path:
        secret = cli.folder / "target.secret"
        secret.write_bytes(content)
        cli.configure(
            SMALL.replace('target = "app.db"', '[jobs.entitlements.target]\nurl_file = "{}"')
            .replace("{}", secret.name)
            .replace("exports/{date}", "exports/x")
        )
        return secret

    def test_it_is_read_from_the_folder_of_the_configuration(self, cli: Cli) -> None:
        self.with_file(cli, b"sqlite:///my%20app.db\n")
        main = cli.folder / "reconcile.toml"
        cli.folder = cli.folder / "elsewhere"
        cli.folder.mkdir()
        shown = cli("config", "-c", str(main))
        assert (shown.code, shown.words) == (0, "")
        assert 'url_file = "target.secret"\n' in shown.data
        assert "my" not in shown.data
        (job,) = json.loads(cli("config", "-c", str(main), "--json").data)["jobs"]
        assert job["settings"]["target.url_file"] == "target.secret"
        assert "target.url" not in job["settings"]

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            (b"", "names {}, which is empty\n  write the value into that file"),
            (b" \n", "names {}, which is empty"),
            (b"a\0b", "names {}, which is not a text"),
            (b"\xff\xfe", "{} line 1: not UTF-8"),
            (b"mysql://u:p@h/db", "only SQLite and PostgreSQL targets are supported"),
        ],
    )
    def test_what_cannot_be_used_is_refused_with_its_line(
        self, cli: Cli, content: bytes, says: str
    ) -> None:
        secret = self.with_file(cli, content)
        shown = cli("run", "entitlements")
        assert shown.code == 78
        place = "reconcile.toml line 6: jobs.entitlements.target.url_file: "
        assert f"{place}{says.format(secret)}" in shown.words

    def test_a_file_that_is_not_there_is_refused(self, cli: Cli) -> None:
        self.with_file(cli, b"app.db").unlink()
        shown = cli("config")
        assert (shown.code, "No such file" in shown.words) == (78, True)

    def test_one_that_anybody_may_write_is_refused(self, cli: Cli) -> None:
        self.with_file(cli, b"app.db").chmod(0o666)
        shown = cli("config")
        assert (shown.code, "is writable for all users" in shown.words) == (77, True)
        cli.configure((cli.folder / "reconcile.toml").read_text() + "nonsense = 1\n")
        assert cli("config").code == 78

    def test_the_value_and_its_file_exclude_each_other(self, cli: Cli) -> None:
        self.with_file(cli, b"app.db")
        cli.configure((cli.folder / "reconcile.toml").read_text() + 'url = "app.db"\n')
        shown = cli("config")
        assert (shown.code, "url_file: says what url says too" in shown.words) == (78, True)

    def test_the_store_may_be_named_by_a_file_too(self, cli: Cli) -> None:
        (cli.folder / "s").write_text("elsewhere.db")
        cli.configure('[store]\nurl_file = "s"\n' + SMALL)
        assert 'url_file = "s"\n' in cli("config").data
        assert "elsewhere.db" in cli("status").words


@pytest.mark.parametrize(
    ("schedule", "deadline", "knock"),
    [
        ("30 2 * * *", "9m", "10m"),
        ("*/15 * * * *", "4m", "5m"),
        ("*:*:0/5", "30s", "1m"),
        ("30 2 * * *", "10m", None),
        ("7 2 * * *", "1m", None),
    ],
)
def test_a_deadline_that_is_over_before_cron_calls_again_is_warned_of(
    cli: Cli, schedule: str, deadline: str, knock: str | None
) -> None:
    cli.configure(
        SMALL.replace("30 2 * * *", schedule).replace(
            "schedule", f'deadline = "{deadline}"\nschedule', 1
        )
    )
    shown = cli("config")
    assert shown.code == 0
    assert ("warning" in shown.words) == (knock is not None)
    assert knock is None or f"is shorter than the {knock} between two calls" in shown.words
    notes = json.loads(cli("config", "--json").data)["jobs"][0]["notes"]
    assert len(notes) == (knock is not None)
