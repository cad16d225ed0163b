"""Reads a plain command line without typer, because cron calls `run` all day.

typer turns text into values with pydantic, and importing both takes longer than everything
that a trigger with nothing due does. So a command line that is plainly right is read here,
from the very declarations that typer is given; whatever is not (help, an unknown option, a value
that does not convert, a missing argument) is left to typer as a whole, so that there is one
voice for errors and one for help. tests/cli/test_plain.py holds both to the same answers.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin

from .options import Argument, Option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


class NotPlain(Exception):
    """typer has to read this command line."""


class Parameter(NamedTuple):
    """One declared option or argument. `kind` is bool, int, str, Path or list."""

    name: str
    kind: type
    required: bool
    least: int | None = None
    most: int | None = None

    def value(self, text: str) -> Any:
        """The text as typer would convert it. Raises `NotPlain`, also for one of several words."""
        if self.kind is list:
            raise NotPlain
        if self.kind is not int:
            return self.kind(text)
        if not text.isascii() or not text.isdecimal():
            raise NotPlain
        number = int(text)
        if (self.least is not None and number < self.least) or (
            self.most is not None and number > self.most
        ):
            raise NotPlain
        return number


class Declared:
    """What a command may be given: options by each of their spellings, arguments in order."""

    def __init__(self) -> None:
        self.options: dict[str, Parameter] = {}
        self.arguments: list[Parameter] = []


def declared(*functions: Callable[..., Any]) -> Declared:
    """The options and arguments of commands, as their signatures declare them for typer."""
    found = Declared()
    for function in functions:
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            for info in getattr(parameter.annotation, "__metadata__", ()):
                if isinstance(info, Option):
                    one = _parameter(parameter, info)
                    found.options.update(dict.fromkeys(info.spellings, one))
                elif isinstance(info, Argument):
                    found.arguments.append(_parameter(parameter))
    return found


def _parameter(parameter: inspect.Parameter, option: Option | None = None) -> Parameter:
    required = parameter.default is inspect.Parameter.empty
    bounds = (option.least, option.most) if option else (None, None)
    return Parameter(parameter.name, kind_of(parameter.annotation), required, *bounds)


def kind_of(annotation: Any) -> type:
    """What text becomes: `Annotated[int | None, …]` is int."""
    annotated = get_args(annotation)[0]
    if get_origin(annotated) is list:
        return list
    kinds = [kind for kind in get_args(annotated) or (annotated,) if kind is not type(None)]
    found: type = kinds[0]
    return found


def read(words: Iterator[str], table: Declared, *, stop: bool) -> tuple[dict[str, Any], list[str]]:
    """The values of options, and the words that are none.

    With `stop` reading ends after the first such word: the command. Raises `NotPlain`.
    """
    values: dict[str, Any] = {}
    rest: list[str] = []
    for word in words:
        if word == "--":
            raise NotPlain
        if word.startswith("--"):
            _long(word, words, table.options, values)
        elif word.startswith("-") and word != "-":
            _short(word, words, table.options, values)
        else:
            rest.append(word)
            if stop:
                break
    return values, rest


def _long(
    word: str, words: Iterator[str], options: Mapping[str, Parameter], values: dict[str, Any]
) -> None:
    """`--quiet`, `--config FILE` or `--config=FILE`."""
    name, given, text = word.partition("=")
    option = _option(name, options)
    if option.kind is not bool:
        values[option.name] = option.value(text if given else _next(words))
    elif given:
        raise NotPlain
    else:
        values[option.name] = True


def _short(
    word: str, words: Iterator[str], options: Mapping[str, Parameter], values: dict[str, Any]
) -> None:
    """`-q`, `-qv`, `-c FILE`, `-cFILE` or `-qc FILE`."""
    letters = word[1:]
    for at, letter in enumerate(letters, start=1):
        option = _option(f"-{letter}", options)
        if option.kind is not bool:
            values[option.name] = option.value(letters[at:] or _next(words))
            return
        values[option.name] = True


def _option(spelling: str, options: Mapping[str, Parameter]) -> Parameter:
    try:
        return options[spelling]
    except KeyError:
        raise NotPlain from None


def _next(words: Iterator[str]) -> str:
    text = next(words, "-")
    if text.startswith("-") or not text:
        raise NotPlain
    return text


def arguments(rest: Sequence[str], table: Declared) -> dict[str, Any]:
    """The words that are no options, by the names of the arguments. Raises `NotPlain`."""
    required = sum(one.required for one in table.arguments)
    if not required <= len(rest) <= len(table.arguments):
        raise NotPlain
    return {one.name: one.value(text) for one, text in zip(table.arguments, rest, strict=False)}
