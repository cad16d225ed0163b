"""Writing units where they are wanted, over nothing that differs.

What somebody has changed by hand is his. All files are looked at before the first is written; one
that is there already as it should be is left as it is.
"""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...core.errors import AccessDenied, TargetUnreachable, UsageError
from ..whole_files import holds, replace_whole, write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_DIFF = 20
"""Lines of a difference that are shown."""


class Written(NamedTuple):
    """What became of a file: `written`, `replaced`, or `unchanged`."""

    path: Path
    became: str


def write(folder: Path, texts: Mapping[str, str], *, force: bool, again: str) -> Sequence[Written]:
    """Write files of these names. `again` is the command, to be called with --force.

    Raises `UsageError` where another file has the name, unless `force`; `AccessDenied` and
    `TargetUnreachable` where the folder cannot be written to.
    """
    contents = {folder / name: text.encode() for name, text in texts.items()}
    there = {path for path in contents if os.path.lexists(path)}
    same = {path for path in there if holds(path, contents[path])}
    for path in sorted(there - same):
        if not force:
            raise UsageError(
                f"{path} exists and differs; nothing was written",
                hint=f"{_difference(path, contents[path])}replace it: {again} --force",
            )
        if not path.is_file() or path.is_symlink():
            raise UsageError(f"{path} is not a regular file", hint="take it away, or link less")
    return [
        Written(path, _write(path, content, is_there=path in there, same=path in same))
        for path, content in contents.items()
    ]


def _write(path: Path, content: bytes, *, is_there: bool, same: bool) -> str:
    if same:
        return "unchanged"
    try:
        if is_there:
            replace_whole(path, content)
            return "replaced"
        write_whole(path, content)
        return "written"
    except FileExistsError:
        raise UsageError(f"{path} has just been made by somebody else", hint="look at it") from None
    except PermissionError as error:
        raise AccessDenied(
            f"{path} cannot be written: {error.strerror}",
            hint="call it as root, or name another --output",
        ) from error
    except OSError as error:
        raise TargetUnreachable(
            f"{path} cannot be written: {error.strerror or error}",
            hint="--output names a folder that is there",
        ) from error


def _difference(path: Path, content: bytes) -> str:
    """Lines that only the file has, and those it would get."""
    try:
        found = path.read_text(encoding="utf-8", errors="backslashreplace").splitlines()
    except OSError:
        return ""
    lines = list(unified_diff(found, content.decode().splitlines(), n=0, lineterm=""))[2:]
    changed = [line for line in lines if not line.startswith("@@")]
    more = len(changed) - LONGEST_DIFF
    told = changed[:LONGEST_DIFF] + ([f"and {more} lines more"] if more > 0 else [])
    return "".join(f"{line}\n" for line in told)
