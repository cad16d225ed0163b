"""Acts by hand have a name and a reason, and say who was quicker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from support.cli import Cli
from support.small import write_source, write_target

from reconcile.core.operations import rerunning

CONFIG = """
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-30
source = "export.csv"
target = "app.db"
"""
NIGHT = ("entitlements", "2026-11-30")


@pytest.fixture
def done(cli: Cli) -> Cli:
    """A user whose night is completed."""
    write_source(cli.folder / "export.csv")
    write_target(cli.folder / "app.db")
    cli.configure(CONFIG)
    assert cli("run", "entitlements").code == 0
    return cli


def trail(cli: Cli) -> list[dict[str, Any]]:
    found = json.loads(cli("status", *NIGHT, "--json").data)
    return list(found["events"])


@pytest.mark.parametrize(
    ("given", "environ", "actor"),
    [
        (("--actor", "alice"), {"RECONCILE_ACTOR": "bot", "SUDO_USER": "bob"}, "alice"),
        ((), {"RECONCILE_ACTOR": "bot", "SUDO_USER": "bob"}, "bot"),
        ((), {"SUDO_USER": "bob"}, "bob"),
        ((), {"RECONCILE_ACTOR": "  ", "SUDO_USER": ""}, "svc-rec"),
        (("--actor", " "), {}, "svc-rec"),
    ],
)
def test_the_actor_is_the_first_that_has_a_name(
    done: Cli, given: tuple[str, ...], environ: Mapping[str, str], actor: str
) -> None:
    done.environ = environ
    assert done("rerun", *NIGHT, "-m", "OPS-77", *given).code == 0
    (act,) = [event for event in trail(done) if event["type"] == "rerun"]
    assert (act["actor"], act["reason"]) == (actor, "OPS-77")


def test_an_act_without_a_reason_does_nothing(done: Cli) -> None:
    before = trail(done)
    assert done("rerun", *NIGHT).code == 2
    done.terminal, done.typed = True, "\n"
    assert done("rerun", *NIGHT).code == 2
    done.typed = ""
    shown = done("rerun", *NIGHT)
    assert shown.words.startswith("Why (rerun)? \nreconcile: rerun needs a reason"), "after Ctrl-D"
    done.terminal = False
    assert trail(done) == before


@pytest.mark.parametrize(("act", "who"), [("skip", "bob (skipped)"), ("rerun", "run 2 of bob")])
def test_one_that_comes_second_is_told_who_was_first(
    done: Cli, monkeypatch: pytest.MonkeyPatch, act: str, who: str
) -> None:
    """Between reading the interval and writing the act down, somebody else acts."""
    refuse = rerunning._refuse_old_over_new

    def quicker(*args: Any) -> None:
        monkeypatch.setattr(rerunning, "_refuse_old_over_new", refuse)
        refuse(*args)
        other = Cli(done.folder, done.monkeypatch, clock=done.clock)
        other.calls = 100
        other.stop.reason = "SIGTERM" if act == "skip" else None
        other("rerun", *NIGHT, "-m", "x", "--actor", "bob")
        if act == "skip":
            assert other("skip", *NIGHT, "-m", "x", "--actor", "bob").code == 0

    monkeypatch.setattr(rerunning, "_refuse_old_over_new", quicker)
    shown = done("rerun", *NIGHT, "--wait", "0s", "-m", "OPS-77", "--actor", "alice")
    assert shown.code == 75
    assert shown.words == (
        f"reconcile: entitlements 2026-11-30 was changed in this very moment by {who};"
        " nothing was done\n"
        "  see how it stands, then decide again: reconcile status entitlements 2026-11-30\n"
    )
    (told,) = [event for event in trail(done) if event.get("actor") == "alice"]
    assert (told["type"], told["reason"]) == ("rerun_refused", "OPS-77")
    shown = " ".join(done("status", *NIGHT).words.split())
    assert 'alice asked for a rerun and was refused for another act by hand: "OPS-77"' in shown
