"""A job's text in `reconcile.toml`, and where that is written.

What is in the file stays as it is, byte for byte: comments, order and line ends are people's. The
new text is appended; the whole is written beside the file and takes its place, so that a trigger
which reads it meanwhile finds the old or the new. Two who add at the same time take turns.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import AccessDenied, TargetUnreachable, UsageError
from ..whole_files import replace_whole, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Value = str | tuple[str, ...]


def table(name: str, values: Mapping[str, Value]) -> str:
    """The text of a job's table. Raises `UsageError` for what TOML cannot hold."""
    lines = [f"[jobs.{name}]"]
    for key, value in values.items():
        shown = _list(value) if isinstance(value, tuple) else _text(value)
        lines.append(f"{key} = {shown}")
    return "".join(f"{line}\n" for line in lines)


def _list(words: Sequence[str]) -> str:
    return "[" + ", ".join(map(_text, words)) + "]"


def _text(value: str) -> str:
    from tomli_w import dumps

    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{value!r} is not UTF-8, which a configuration has to be",
            hint="call it by a script, or rename that file",
        ) from None
    return dumps({"value": value}).removeprefix("value = ").removesuffix("\n")


def appended(content: bytes, text: str) -> bytes:
    """The content with a text after it, an empty line between, and its own kind of line ends."""
    end = b"\r\n" if b"\r\n" in content else b"\n"
    added = text.encode().replace(b"\n", end)
    if not content:
        return added
    gap = end if content.endswith(b"\n") else end + end
    return content + gap + added


def write(path: Path, before: bytes | None, after: bytes) -> None:
    """Put `after` where `before` was; None: where there is no file. Call it while `turn` is had.

    Raises `UsageError` where it is not there any more, `AccessDenied` and `TargetUnreachable`.
    """
    try:
        if before is None:
            write_whole(path, after)
            return
        real = path.resolve()  # of a link, what it leads to is replaced
        if real.read_bytes() != before:
            raise UsageError(f"{path} has just been changed", hint="look at it, and call again")
        replace_whole(real, after)
    except FileExistsError:
        raise UsageError(f"{path} has just been made", hint="call it again") from None
    except PermissionError as error:
        raise AccessDenied(
            f"{path} cannot be written: {error.strerror}", hint="call it as the user who owns it"
        ) from error
    except OSError as error:
        raise TargetUnreachable(
            f"{path} cannot be written: {error.strerror or error}", hint="look at that folder"
        ) from error


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Nobody else adds to the file meanwhile."""
    try:
        folder = path.resolve().parent
    except RuntimeError:
        raise TargetUnreachable(
            f"{path} is a link that leads back to itself", hint=f"rm {path}"
        ) from None
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise TargetUnreachable(
            f"{folder} cannot be looked into: {error.strerror}", hint="make that folder"
        ) from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
