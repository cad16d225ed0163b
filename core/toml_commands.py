"""Reading the keys of a job that is a command.

A command is a list of words, or a text that is split into words as a shell would split it. There
is no shell: a text in which one would do more than that (a pipe, a variable, a pattern of file
names) is refused rather than run as something else than it looks like.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from .config import CommandConfig
from .errors import ConfigError
from .placeholders import check_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .toml_values import Section

_OF_ENTITLEMENTS = (
    "account", "columns", "key", "key_policy", "range_size", "plan_age", "fence_wait", "guards",
)  # fmt: skip
_SIDES = ("source", "target")

_ANYWHERE = re.compile(r"`|\$[A-Za-z0-9_{(@*#?!$-]")
"""What a shell fills in, also within double quotes."""
_UNQUOTED = re.compile(r"[|&;<>()*?\n]|\[[^\]]*\]|(?<!\S)(?:#|~|\{(?:\s|$)|![ \t])")
"""What it acts upon where nothing quotes it."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_FUNCTION = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_OURS = "RECONCILE_"


def read_command(section: Section, folder: Path) -> CommandConfig | None:
    """The command of a job, or the function that is called as one; None where something is wrong
    with it. Relative paths are those of `folder`, but that of the program, which is looked for as
    from `cwd`."""
    is_function = section.raw("python") is not None
    named = "a function" if is_function else "a command"
    for key in (*_SIDES, "command") if is_function else _SIDES:
        if section.raw(key) is not None:
            section.wrong(key, f"stands beside {named}: a job does one thing", "make it two jobs")
    for key in _OF_ENTITLEMENTS:
        if section.raw(key) is not None:
            section.wrong(key, f"means nothing for {named}", "take it out")
    function = _function(section) if is_function else None
    words = () if function is not None else None if is_function else _words(section)
    cwd, env_file = section.text("cwd"), section.text("env_file")
    env = _env(section.section("env"))
    kill_after, ranges = section.duration("kill_after"), section.whole("ranges", 1)
    if words is None:
        return None
    plain = CommandConfig(words, "")
    return CommandConfig(
        command=words,
        cwd=str(folder if cwd is None else folder / cwd),
        env=env,
        env_file=None if env_file is None else str(folder / env_file),
        kill_after=plain.kill_after if kill_after is None else kill_after,
        ranges=ranges,
        python=function,
    )


def _function(section: Section) -> str | None:
    value = section.text("python")
    if value is None or _FUNCTION.fullmatch(value):
        return value
    section.wrong("python", f"is {value!r}, no module:function", 'write python = "nightly:work"')
    return None


def _words(section: Section) -> tuple[str, ...] | None:
    value = section.raw("command")
    if isinstance(value, str):
        words = _split(section, value)
    elif isinstance(value, list) and all(isinstance(word, str) for word in value):
        words = tuple(value)
    else:
        section.wrong(
            "command",
            "is neither a text nor a list of texts",
            'write command = "backup.sh --all", or ["backup.sh", "--all"]',
        )
        return None
    if words is None:
        return None
    if not words or not words[0].strip():
        section.wrong("command", "names no program", 'write command = "/usr/local/bin/backup.sh"')
        return None
    if any("\0" in word for word in words):
        section.wrong("command", "has a NUL character in it", "take it out")
        return None
    try:
        for word in words:
            check_word(word)
    except ConfigError as error:
        section.wrong("command", str(error), error.hint)
        return None
    return words


def _split(section: Section, line: str) -> tuple[str, ...] | None:
    needs = next(_for_a_shell(line), None)
    if needs is not None:
        shown = line if len(line) <= 60 else "…"
        section.wrong(
            "command",
            f"{_named(needs)} needs a shell, and there is none",
            f"write command = {_toml_list('sh', '-c', shown)}; or quote it, or write a list of"
            " words, where it is meant as it stands",
        )
        return None
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        section.wrong("command", f"cannot be split into words: {str(error).lower()}", "close it")
        return None
    if words and _ASSIGNMENT.match(words[0]):
        section.wrong(
            "command", "begins with a variable, not with a program", "put it into env = { … }"
        )
        return None
    return words


def split_plainly(line: str) -> tuple[str, ...] | None:
    """The words of a line; None where it takes a shell to read it. Raises `ConfigError` for a
    quote that is not closed."""
    if next(_for_a_shell(line), None) is not None:
        return None
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise ConfigError(
            f"cannot be split into words: {str(error).lower()}", hint="close it"
        ) from error
    return None if words and _ASSIGNMENT.match(words[0]) else words


def _for_a_shell(line: str) -> Iterator[str]:
    """What a shell would do more with than to split words, in order. Placeholders are ours."""
    quote, at = "", 0
    while at < len(line):
        letter = line[at]
        if quote:
            if quote == '"' and letter == "\\":
                at += 1
            elif letter == quote:
                quote = ""
            elif quote == '"' and (found := _ANYWHERE.match(line, at)):
                yield found[0]
        elif letter == "\\":
            at += 1
        elif letter in "'\"":
            quote = letter
        elif found := _ANYWHERE.match(line, at) or _UNQUOTED.match(line, at):
            yield found[0]
        at += 1


def _named(found: str) -> str:
    if found.startswith("$"):
        return "a variable ($…)" if found[1:] != "(" else "$(…)"
    if found.startswith("["):
        return "a pattern ([…])"
    return "a line break" if found == "\n" else f'a "{found.strip()}"'


def _toml_list(*words: str) -> str:
    return "[" + ", ".join(f"'{w}'" if '"' in w or "\\" in w else f'"{w}"' for w in words) + "]"


def _env(section: Section) -> dict[str, str]:
    """Variables with their values, into which those of the caller's environment are filled."""
    found: dict[str, str] = {}
    for name in section.names():
        value = section.raw(name)
        if not _NAME.fullmatch(name):
            section.wrong(name, "cannot be the name of a variable", "write letters, digits and _")
        elif name.startswith(_OURS):
            section.wrong(name, "is one that reconcile sets itself", "choose another name")
        elif value == "":
            found[name] = ""
        else:
            text = section.text(name)
            if text is not None:
                found[name] = text
    return found
