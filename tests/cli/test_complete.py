"""What completions ask for: names and ids, and never a word of what is wrong."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from support.cli import CONFIG, Cli

from reconcile.cli.commands import complete


def test_jobs_are_offered_also_of_a_configuration_that_is_not_right_yet(cli: Cli) -> None:
    cli.configure(CONFIG + "nonsense = 1\n[jobs.other]\n")
    shown = cli("complete", "jobs")
    assert (shown.code, shown.data, shown.words) == (0, "entitlements\nother\n", "")


def test_the_newest_intervals_on_record_are_offered(cli: Cli, tmp_path: Path) -> None:
    cli.configure(CONFIG)
    assert cli("complete", "intervals", "entitlements").data == "latest\noldest\n"
    assert not (tmp_path / "reconcile.db").exists(), "no store is made for it"
    cli("run", "entitlements")  # its source is not there
    assert cli("complete", "intervals", "entitlements").data == "latest\noldest\n2026-11-30\n"


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
def test_a_store_that_does_not_answer_keeps_nobody_waiting(
    scheme: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete, "SECONDS", 0.2)
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        address = f"{scheme}://127.0.0.1:{deaf.getsockname()[1]}/0"
        cli.configure(f'[store]\nurl = "{address}"\n{CONFIG}')
        begin = time.monotonic()
        shown = cli("complete", "intervals", "entitlements")
    assert time.monotonic() - begin < 5
    assert (shown.code, shown.words) == (0, "")


@pytest.mark.parametrize(
    "argv",
    [("jobs",), ("intervals", "nosuch"), ("intervals",), ("jobs", "-c", "nosuch.toml"), ("x", "y")],
)
def test_what_is_wrong_is_not_said(argv: tuple[str, ...], cli: Cli) -> None:
    if "nosuch.toml" not in argv:
        cli.configure("[jobs.\n")
    shown = cli("complete", *argv)
    assert (shown.code, shown.data, shown.words) == (0, shown.data, "")
    assert "nosuch" not in shown.data


def test_an_unknown_shell_is_refused_with_those_that_there_are(cli: Cli) -> None:
    shown = cli("completion", "tcsh")
    assert shown.code == 2
    assert "bash, zsh, fish" in shown.words
