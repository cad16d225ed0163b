"""Nights of a dated source that may not be applied any more, for a newer one is completed."""

from __future__ import annotations

import json

import pytest
from support.cli import Cli

CONFIG = """
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-26
source = "exports/{date}.csv"
target = "app.db"
range_size = 400
"""
NEWEST = "2026-11-30"
OLDER = [f"2026-11-{day}" for day in range(26, 30)]
TOLD = (
    "entitlements 2026-11-26 failed with 3 others: the target has completed 2026-11-30, whose"
    " truth an older one would undo; see: reconcile status entitlements 2026-11-26\n"
)


@pytest.fixture
def late(cli: Cli) -> Cli:
    """Five nights are owed; only the newest has an export."""
    assert cli("init", "--demo").code == 0
    cli.configure(CONFIG)
    exports = cli.folder / "exports"
    exports.mkdir()
    (cli.folder / "export.csv").rename(exports / f"{NEWEST}.csv")
    return cli


def night(cli: Cli, name: str) -> dict[str, object]:
    found = json.loads(cli("status", "entitlements", name, "--json").data)
    return {**found["intervals"][0], "events": [event["type"] for event in found["events"]]}


def all_have_failed(cli: Cli) -> None:
    for name in OLDER:
        found = night(cli, name)
        assert (found["state"], found["reason"]) == ("failed", "overtaken"), name
        assert found["events"][-1] == "failed"  # type: ignore[index]


def test_nights_whose_export_was_missing_end_in_the_run_that_completes_a_newer_one(
    late: Cli,
) -> None:
    first = late("run", "entitlements")
    assert first.code == 69
    assert first.words.endswith(TOLD)
    all_have_failed(late)
    runs = [night(late, name)["runs"] for name in OLDER]
    late.clock.advance(3600)
    again = late("run", "entitlements")
    assert again.code == 0
    assert "nothing due" in again.words
    assert "overtaken" not in again.words
    assert [night(late, name)["runs"] for name in OLDER] == runs


@pytest.mark.parametrize("quiet", [False, True])
def test_nights_nobody_has_begun_are_told_once_and_are_no_failure_of_the_run(
    late: Cli, quiet: bool
) -> None:
    assert late("run", "entitlements", "--interval", NEWEST).code == 0
    options = ["-q"] if quiet else []
    told = late(*options, "run", "entitlements")
    assert told.code == 0
    assert "failed with 3 others: the target has completed 2026-11-30" in " ".join(
        told.words.split()
    )
    all_have_failed(late)
    assert night(late, OLDER[0])["runs"] == 0
    assert late("-q", "run", "entitlements").words == ""


def test_a_night_that_waits_for_an_approval_is_overtaken_too(late: Cli) -> None:
    assert late("run", "entitlements", "--interval", NEWEST).code == 0
    late.configure(CONFIG.replace("-26", "-30"))
    whole = (late.folder / f"exports/{NEWEST}.csv").read_text()
    nobody = whole.partition("\n")[0] + "\n"
    for day, text, code in ((1, nobody, 4), (2, whole, 0)):
        late.clock.advance(86400)
        (late.folder / f"exports/2026-12-0{day}.csv").write_text(text)
        told = late("run", "entitlements")
        assert told.code == code
    assert "2026-12-01 failed: the target has completed 2026-12-02, whose" in told.words
    shown = night(late, "2026-12-01")
    assert (shown["state"], shown["reason"]) == ("failed", "overtaken")
    assert shown["waiting"] is None


def test_status_says_why_and_names_no_command_that_cannot_work(late: Cli) -> None:
    assert late("run", "entitlements", "--interval", NEWEST).code == 0
    for _ in range(2):  # before a trigger has written it down, and after
        shown = late("status")
        assert "entitlements\tok\t2026-11-30\t" in shown.data
        words = " ".join(shown.words.split())
        assert (
            "- entitlements: 4 from 2026-11-26 to 2026-11-29 are overtaken: the target has"
            " completed 2026-11-30, which they would undo reconcile status entitlements /"
        ) in words
        assert "resume" not in words
        assert json.loads(late("status", "--json").data)["jobs"][0]["problems"] == []
        late("run", "entitlements")
    table = late("status", "entitlements").data
    assert table.count("overtaken by a newer interval: the target has completed 2026-11-30,") == 4
    assert "reconcile resume" not in late("status", "entitlements", OLDER[0]).words


def test_what_was_never_begun_is_not_sent_from_one_command_to_another(late: Cli) -> None:
    assert late("run", "entitlements", "--interval", NEWEST).code == 0
    refused = late("resume", "entitlements", OLDER[0])
    assert refused.code == 3
    assert "run entitlements --interval" not in refused.words
    assert f"reconcile rerun entitlements {NEWEST}" in refused.words


def test_a_target_that_went_back_takes_the_older_nights_again(late: Cli) -> None:
    target, exports = late.folder / "app.db", late.folder / "exports"
    before = target.read_bytes()
    assert late("run", "entitlements", "--interval", OLDER[0]).code == 69
    assert late("run", "entitlements", "--interval", NEWEST).code == 0
    target.write_bytes(before)
    export = exports / f"{OLDER[0]}.csv"
    export.write_bytes((exports / f"{NEWEST}.csv").read_bytes())
    late.clock.advance(3600)
    late("run", "entitlements")
    assert night(late, OLDER[0])["state"] == "completed"
    assert night(late, NEWEST)["state"] == "completed"


def test_nothing_is_given_up_while_the_target_does_not_say_what_it_has_completed(
    late: Cli,
) -> None:
    assert late("run", "entitlements", "--interval", NEWEST).code == 0
    target = late.folder / "app.db"
    target.rename(late.folder / "away.db")
    assert late("run", "entitlements").code == 69
    assert night(late, OLDER[0])["state"] == "unfinished"
    (late.folder / "away.db").rename(target)
    late.clock.advance(3600)
    assert late("run", "entitlements").code == 0
    all_have_failed(late)
