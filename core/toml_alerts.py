"""Reading `[alerts]`, and what a job has of its own that tells people: `heartbeat`.

Addresses in here are secrets from end to end: whoever knows one may send in our name, or
quieten a dead-man's switch. So no message quotes any part of them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from .config import AlertsConfig

if TYPE_CHECKING:
    from .toml_values import Section

_SERVER = re.compile(r"https?://[^/?#\s]+([/?][^\s#]*)?", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)


def read_alerts(section: Section, folder: Path) -> AlertsConfig:
    """What `[alerts]` says; relative paths are those of `folder`."""
    command = _command(section)
    notify = _addresses(section)
    metrics_file = section.text("metrics_file")
    section.finish()
    return AlertsConfig(
        command=command,
        notify=notify,
        metrics_file=None if metrics_file is None else str(folder / metrics_file),
    )


def read_heartbeat(section: Section) -> str | None:
    """The address that is called when the job starts, succeeds and fails."""
    address = section.secret("heartbeat")
    if address is not None and not _SERVER.fullmatch(address.strip()):
        section.wrong(
            "heartbeat" if "heartbeat" in section else "heartbeat_file",
            "is no address of a web server",
            "write https://HOST/PATH, without blanks and without #",
        )
        return None
    return None if address is None else address.strip()


def _command(section: Section) -> tuple[str, ...]:
    """An argv. A text alone would be a shell line to some and a path to others."""
    value = section.raw("command")
    if value is None:
        return ()
    words = value if isinstance(value, list) else []
    if not words or not all(isinstance(w, str) and "\0" not in w for w in words) or not words[0]:
        section.wrong(
            "command",
            "is not a list of texts that begins with a program",
            'write command = ["/usr/local/bin/page", "--quiet"]',
        )
        return ()
    return tuple(words)


def _addresses(section: Section) -> tuple[str, ...]:
    """Apprise URLs; those of a `notify_file` one a line, # beginning a remark."""
    name = "notify_file" if "notify_file" in section else "notify"
    if name == "notify_file":
        lines = (section.secret("notify") or "").splitlines()
        stripped = (line.strip() for line in lines)
        found = tuple(line for line in stripped if line and not line.startswith("#"))
    else:
        found = section.texts("notify", secret=True) or ()
    if not all(_ADDRESS.fullmatch(address) for address in found):
        section.wrong(name, "has something in it that is no address", "write mailto://… or so")
        return ()
    return found
