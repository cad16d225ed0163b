"""Commands, options and arguments as values: completions and man pages are made from them."""

from __future__ import annotations

import inspect
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from ..app import COMMANDS, command_named
from ..options import Argument, Option, global_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class Kind(StrEnum):
    """What kind of word is wanted."""

    FLAG = "flag"
    FILE = "file"
    FOLDER = "folder"
    JOB = "job"
    INTERVAL = "interval"
    CHOICE = "choice"
    PROGRAM = "program"
    TEXT = "text"


class Opt(NamedTuple):
    """An option with its spellings, long ones first. `metavar` "" for a flag."""

    spellings: Sequence[str]
    help: str
    metavar: str
    kind: Kind
    choices: Sequence[str] = ()


class Arg(NamedTuple):
    """An argument; `metavar` is in brackets where it may be left out, and ends in dots where
    there may be several."""

    metavar: str
    help: str
    kind: Kind


class Command(NamedTuple):
    """A command: its line of help, its docstring, and what it takes beside the shared options."""

    name: str
    help: str
    text: str
    options: Sequence[Opt]
    arguments: Sequence[Arg]


class Table(NamedTuple):
    """All commands, and the options that every one takes."""

    commands: Sequence[Command]
    shared: Sequence[Opt]


_KINDS = {
    "FILE": Kind.FILE,
    "DIR": Kind.FOLDER,
    "JOB": Kind.JOB,
    "INTERVAL": Kind.INTERVAL,
    "ID": Kind.INTERVAL,
    "COMMAND": Kind.PROGRAM,
    "S": Kind.CHOICE,
    "D": Kind.CHOICE,
}
DURATIONS = ("90s", "10m", "1h", "6h", "1d", "7d")
"""Some of those that there are: they show how one is written."""


def table() -> Table:
    """Everything that is declared."""
    return Table([_command(name) for name in COMMANDS], list(_options(global_options)))


def _command(name: str) -> Command:
    function = command_named(name)
    return Command(
        name,
        COMMANDS[name][1],
        inspect.cleandoc(function.__doc__ or ""),
        list(_options(function)),
        list(_arguments(function)),
    )


def _options(function: Callable[..., object]) -> Iterator[Opt]:
    for name, info in _declared(function):
        if isinstance(info, Option):
            metavar = info.metavar or ""
            kind = _KINDS.get(metavar, Kind.TEXT) if metavar else Kind.FLAG
            choices = _choices(name, metavar) if kind is Kind.CHOICE else ()
            spellings = sorted(info.spellings, key=lambda one: not one.startswith("--"))
            # What has values of its own, and none that are known, is a text.
            known = kind if choices or kind is not Kind.CHOICE else Kind.TEXT
            yield Opt(spellings, info.help, metavar, known, choices)


def _arguments(function: Callable[..., object]) -> Iterator[Arg]:
    for _, info in _declared(function):
        if isinstance(info, Argument):
            bare = info.metavar.strip("[]").rstrip(".\N{HORIZONTAL ELLIPSIS}")
            yield Arg(info.metavar, info.help, _KINDS.get(bare, Kind.TEXT))


def _choices(name: str, metavar: str) -> Sequence[str]:
    if name == "state":
        from ...core.operations.views import SHOWN

        return [state.replace(" ", "-") for state in SHOWN]
    return DURATIONS if metavar == "D" else ()


def _declared(function: Callable[..., object]) -> Iterator[tuple[str, Option | Argument]]:
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, (Option, Argument)):
                yield name, info
