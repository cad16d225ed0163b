"""The configuration: whether it can be read as it is meant, by whom, and as which user."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from ...errors import ConfigError
from ...findings import fail, ok, refused, warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...config import Config
    from ...errors import ReconcileError
    from ...findings import Finding
    from .premises import Premises

SUBJECT = "configuration"
_BY_OTHERS, _BY_GROUP = 0o002, 0o020
_READ_BY_OTHERS = 0o004


def trouble(error: ReconcileError) -> Iterator[Finding]:
    """A configuration that is refused: each of its problems."""
    if isinstance(error, ConfigError) and error.problems:
        for text, hint in error.problems:
            yield fail(SUBJECT, " ".join(text.split()), hint)
    else:
        yield refused(SUBJECT, error)


def configuration(
    config: Config, files: Sequence[str], premises: Premises, texts: Sequence[str]
) -> Iterator[Finding]:
    """The files, and who may read and change them. `texts` are what they hold."""
    more = len(files) - 1
    beside = "" if not more else f" + conf.d ({more} file{'s' if more > 1 else ''})"
    jobs = len(config.jobs)
    if not jobs:
        yield warn(SUBJECT, f"{files[0]}{beside} has no job", "see: reconcile init")
    else:
        yield ok(SUBJECT, f"{files[0]}{beside}, {jobs} job{'s' if jobs > 1 else ''}")
    for path, text in zip(files, texts, strict=True):
        yield from _file(path, text, premises)


def _file(path: str, text: str, premises: Premises) -> Iterator[Finding]:
    facts = premises.file(path)
    if facts is None:
        return
    if facts.mode & _BY_GROUP:
        yield warn(
            SUBJECT,
            f"{path} may be changed by its group, and so may what is revoked",
            f"chmod g-w {path}",
        )
    if facts.owner not in (premises.user, "root"):
        yield warn(
            SUBJECT,
            f"{path} belongs to {facts.owner}, who may change what {premises.user} does",
            f"chown {premises.user} {path}",
        )
    if facts.mode & _READ_BY_OTHERS and _has_password(text):
        yield warn(
            SUBJECT,
            f"{path} seems to hold a password and may be read by everybody",
            f"chmod o-r {path}, or keep the secret in a file of its own (url_file)",
        )
    folder = premises.file(str(PurePath(path).parent))
    if folder is not None and folder.mode & _BY_OTHERS and not folder.mode & 0o1000:
        yield fail(
            SUBJECT,
            f"the folder {folder.path} is writable for all users, so anybody may replace {path}",
            f"chmod o-w {folder.path}",
        )


def _has_password(text: str) -> bool:
    from ...masking import mask

    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return any(mask(line) != line and "${" not in line for line in lines)


def user(premises: Premises, owner: str | None) -> Iterator[Finding]:
    """Whose rights are judged. `owner` is whose the store is, where it is a file."""
    if premises.is_root and owner not in (None, "root", premises.user):
        yield warn(
            "user",
            f"this is {premises.user}, and the store belongs to {owner}: rights are not judged as"
            " the jobs have them",
            f"sudo -u {owner} reconcile doctor",
        )
