"""What is read without typer is what typer would have read."""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reconcile.cli.app import COMMANDS, call_plainly, command_named
from reconcile.cli.main import _call_typer
from reconcile.cli.options import Call, GlobalOptions
from reconcile.core.errors import UsageError

Answer = tuple[str, GlobalOptions, dict[str, Any]]

WORDS = st.sampled_from(
    [
        *(
            "run",
            "resume",
            "status",
            "init",
            "rerun",
            "skip",
            "stop",
            "--force",
            "entitlements",
            "2026-11-30",
            "latest",
            "x y",
            "-",
        ),
        *(
            "-q",
            "-v",
            "-c",
            "--config",
            "--config=a.toml",
            "-ca.toml",
            "-qc",
            "-qv",
            "-vq",
            "a.toml",
        ),
        *("--store", "--store=memory:", "memory:", "--json", "--quiet", "--verbose", "--quiet=1"),
        *("--interval", "--interval=latest", "--dry-run", "--max-runtime", "10m", "-E", "-E7"),
        *("--busy-exit", "--busy-exit=256", "7", "256", "-1", "1.5", "\N{SUPERSCRIPT TWO}", "0"),
        *("--approve", "4e1f", "--reason", "-m", "-mwhy", "why", "--actor", "--actor=", "alice"),
        *("-n", "-n3", "--number", "--since", "90d", "--state", "--state=failed", "--demo"),
        *("--help", "-h", "--version", "--nope", "-z", "--", "", "--sto", "--interval="),
    ]
)


@contextmanager
def recorded() -> Iterator[list[Answer]]:
    """Commands that note what they were given, and do nothing."""
    answers: list[Answer] = []
    originals = {name: command_named(name) for name in COMMANDS}

    def recorder(name: str, command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def called(call: Call, *args: Any, **values: Any) -> int:
            bound = inspect.signature(command).bind(call, *args, **values)
            bound.apply_defaults()
            del bound.arguments["call"]
            answers.append((name, call.options, dict(bound.arguments)))
            return 0

        return called

    for name, command in originals.items():
        setattr(_module(name), name, recorder(name, command))
    try:
        yield answers
    finally:
        for name, command in originals.items():
            setattr(_module(name), name, command)


def _module(name: str) -> Any:
    return import_module(f"reconcile.cli.commands.{COMMANDS[name][0]}")


def fresh() -> Call:
    return Call(env=None, options=GlobalOptions(), busy_exit=75)  # type: ignore[arg-type]


def by_plain(argv: list[str]) -> Answer | str | None:
    """What `plain` makes of it: a call, a refusal, or None where it leaves it to typer."""
    with recorded() as answers:
        try:
            code = call_plainly(argv, fresh())
        except UsageError as error:
            return str(error)
    assert (code is None) == (not answers)
    return answers[0] if answers else None


def by_typer(argv: list[str]) -> Answer | str | None:
    """What typer makes of it: a call, a refusal, or None where it shows a help."""

    class Nowhere:
        stdout = stderr = io.StringIO()

        def data(self, text: str) -> None:
            """The version."""

    call = fresh()
    call.env = Nowhere()  # type: ignore[assignment]
    with recorded() as answers:
        try:
            _call_typer(argv, call)
        except UsageError as error:
            return str(error)
    return answers[0] if answers else None


@settings(max_examples=400)
@given(st.lists(WORDS, max_size=7))
@example(["run", "entitlements", "-E", "7", "-qc", "a.toml"])
@example(["-qc", "a.toml", "run", "--interval", "latest", "entitlements"])
@example(["run", "entitlements", "-q", "-q", "--interval=", "-E0"])
@example(["-c", "run", "run", "run"])
@example(["resume", "entitlements", "2026-11-30", "--approve", "4e1f", "-m", "x y"])
def test_what_is_read_without_typer_is_what_typer_reads(argv: list[str]) -> None:
    plainly = by_plain(argv)
    if plainly is not None:
        assert plainly == by_typer(argv)


@settings(max_examples=200)
@given(
    st.sampled_from(["run", "resume", "status", "stop"]),
    st.lists(st.sampled_from(["-q", "--json", "--store=memory:", "-ca.toml"]), max_size=3),
    st.lists(st.sampled_from(["-q", "--json", "--store=memory:", "-ca.toml"]), max_size=3),
)
def test_plain_command_lines_are_read_without_typer(
    name: str, before: list[str], after: list[str]
) -> None:
    argv = [*before, name, "entitlements", *after]
    found = by_plain(argv)
    assert isinstance(found, tuple)
    assert found == by_typer(argv)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["--help"],
        ["rerun", "a"],
        ["run", "--help"],
        ["run", "a", "b"],
        ["run", "a", "--nope"],
        ["run", "a", "--max-runtime"],
        ["run", "a", "--max-runtime", "-q"],
        ["run", "a", "-E", "256"],
        ["run", "a", "-E", "-1"],
        ["run", "a", "--quiet=1"],
        ["run", "--", "a"],
        ["status", "a", "-n", "0"],
        ["nope"],
        ["--version"],
    ],
)
def test_what_is_not_plain_is_left_to_typer(argv: list[str]) -> None:
    assert by_plain(argv) is None
