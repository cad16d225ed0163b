"""Writes the file of figures so that whoever reads it finds all of it, or the one before."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from ...core.errors import NotDelivered

_MODE = 0o644
"""The exporter that reads it is another user, whatever our umask."""


def replace_file(path: Path, text: str) -> None:
    """Put the text into the file's place. Raises `NotDelivered`."""
    made = None
    try:
        # A name of its own for each writer, which no exporter takes for a file of figures.
        file, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), _MODE)
            stream.write(text)
        Path(made).replace(path)
    except OSError as error:
        if made is not None:
            with suppress(OSError):
                Path(made).unlink()
        raise NotDelivered(
            f"the metrics file {path} cannot be written: {error.strerror or error}",
            hint="see [alerts] metrics_file",
        ) from None
