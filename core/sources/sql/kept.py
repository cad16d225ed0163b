"""Which reading of a source is kept on this host, and since when: a note beside its spool.

The spool is the reading; the note says its name, and is written when the spool is complete. A
note without its spool, or one that cannot be read, is no reading.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ...record_fields import from_text, to_text

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path


class Kept(NamedTuple):
    """A reading: its name, and the store's time when it was begun."""

    id: str
    at: datetime


def read(path: Path) -> Kept | None:
    """What the note says; None where there is none. Raises `OSError`."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return Kept(str(found["id"]), from_text(found["at"]))
    return None


def write(path: Path, kept: Kept) -> None:
    """Replace the note, whole. Raises `OSError`."""
    written = path.with_name(f"{path.name}.{kept.id}")
    written.write_text(json.dumps({"id": kept.id, "at": to_text(kept.at)}), encoding="utf-8")
    written.replace(path)
