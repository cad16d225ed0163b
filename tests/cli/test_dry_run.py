"""What a dry run says of real sides: all that the run would do, and nothing less."""

from __future__ import annotations

import json

import pytest
from support.cli import Cli
from support.small import HAS, SHOULD, write_source, write_target

from reconcile.core.operations import trigger
from reconcile.core.operations.application import Application, RunRequest

NIGHT = "2026-11-30"
RUN = ("run", "entitlements")
DRY = (*RUN, "--dry-run")
CONFIG = f"""
[jobs.entitlements]
schedule = "30 2 * * *"
start = {NIGHT}
source = "export.csv"
target = "app.db"
range_size = 8
"""
CONTRADICTIONS = [("acct-0007", "seats", "9"), ("acct-0030", "sso", "yes")]
TWICE = "the source has this account's entitlement twice, with different values"
FOLDED = TWICE.replace(" values", "\n      values")


@pytest.fixture
def night(cli: Cli) -> Cli:
    """A night of five changes in six ranges, due now."""
    cli.configure(CONFIG)
    write_target(cli.folder / "app.db")
    write_source(cli.folder / "export.csv")
    return cli


def contradict(cli: Cli) -> None:
    write_source(cli.folder / "export.csv", [*SHOULD, *CONTRADICTIONS])


def test_a_dry_run_names_the_accounts_that_the_run_would_leave_and_ends_as_it(night: Cli) -> None:
    contradict(night)
    dry = night(*DRY)
    assert dry.code == 3
    assert dry.words == (
        f"entitlements {NIGHT}  would grant 3, revoke 2, update 0; nothing written\n"
        "  2 accounts are in quarantine; they stay as they are:\n"
        f"    acct-0007: {FOLDED}\n"
        f"    acct-0030: {FOLDED}\n"
    )
    quiet = night("-q", *DRY)
    assert (quiet.code, quiet.words, quiet.data) == (3, dry.words, "")
    assert night(*RUN).code == 3


def test_a_program_is_told_the_accounts_that_the_run_would_leave(night: Cli) -> None:
    contradict(night)
    dry = json.loads(night(*DRY, "--json").data)
    done = json.loads(night(*RUN, "--json").data)
    both = {"acct-0007": TWICE, "acct-0030": TWICE}
    assert dry["dry_run"]["quarantined"] == dry["intervals"][0]["quarantined"] == both
    for name in ("exit", "outcome"):
        assert dry[name] == done[name]
    assert done["intervals"][0]["quarantined"] == both


def test_a_guard_goes_before_the_quarantine_in_a_dry_run_too(night: Cli) -> None:
    few = [row for row in HAS if row[0] < "acct-0025"]
    write_source(night.folder / "export.csv", [*few, CONTRADICTIONS[0]])
    dry = night(*DRY)
    assert dry.code == 4
    assert "It would need approval: too many revokes." in dry.words
    left = f"  1 account is in quarantine; it stays as it is:\n    acct-0007: {FOLDED}\n"
    assert dry.words.endswith(left)
    assert night(*RUN).code == 4


def test_a_dry_run_into_a_pipe_is_whole(night: Cli) -> None:
    dry = night(*DRY)
    assert dry.data.splitlines() == [
        "revoke\tacct-0003\tsso\t1",
        "revoke\tacct-0012\tsupport\t1",
        "grant\tacct-0041\tseats\t5",
        "grant\tacct-0041\tsso\t1",
        "grant\tacct-0042\tseats\t5",
    ]
    assert "more" not in dry.words
    assert dry.data == night("changes", "entitlements", "--planned").data


def test_a_dry_run_into_a_pipe_shows_its_own_plan_where_a_night_has_another(night: Cli) -> None:
    write_source(night.folder / "export.csv", [row for row in HAS if row[0] < "acct-0025"])
    assert night(*RUN).code == 4
    write_source(night.folder / "export.csv", SHOULD)
    assert len(night(*DRY).data.splitlines()) == 5


def test_what_a_terminal_left_out_is_that_of_the_dry_run_and_not_of_a_night_that_waits(
    night: Cli,
) -> None:
    write_source(night.folder / "export.csv", [row for row in HAS if row[0] < "acct-0025"])
    assert night(*RUN).code == 4
    night.clock.advance(60)
    write_source(night.folder / "export.csv", SHOULD)
    night.terminal = True
    assert "1 more: reconcile changes entitlements --planned" in night(*DRY).words
    night.terminal = False
    assert len(night("changes", "entitlements", "--planned").data.splitlines()) == 5
    night.clock.advance(60)
    write_source(night.folder / "export.csv", [row for row in HAS if row[0] < "acct-0024"])
    assert night(*RUN).code == 4
    assert len(night("changes", "entitlements", "--planned").data.splitlines()) == 51


def test_a_plan_that_is_gone_before_it_was_printed_is_not_taken_for_all(
    night: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = trigger.run

    def another_after(app: Application, request: RunRequest) -> object:
        found = real(app, request)
        real(app, request)
        return found

    monkeypatch.setattr(trigger, "run", another_after)
    dry = night(*DRY)
    assert dry.code == 1
    assert "0 of 5 planned changes were printed" in dry.words


def test_a_plan_that_was_carried_out_leads_to_what_was_changed(night: Cli) -> None:
    assert night(*RUN).code == 0
    shown = night("changes", "entitlements", NIGHT, "--planned")
    assert (shown.code, shown.data) == (2, "")
    assert shown.words == (
        f"reconcile: entitlements {NIGHT} is completed: its plan was carried out\n"
        f"  see what was changed: reconcile changes entitlements {NIGHT}\n"
    )
    assert len(night("changes", "entitlements", NIGHT).data.splitlines()) == 5


def test_a_plan_without_changes_is_not_called_filtered(night: Cli) -> None:
    write_source(night.folder / "export.csv", HAS)
    assert night(*DRY).data == ""
    empty = night("changes", "entitlements", "--planned")
    assert empty.words == "entitlements: the plan has no change\n"
    one = night("changes", "entitlements", "--planned", "--account", "acct-0001")
    assert one.words == "entitlements: the plan has no such change\n"
