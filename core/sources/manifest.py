"""A manifest: what the exporter says of its file, so that a short one is noticed.

`{"rows": 175554, "sha256": "9f86…"}`, either or both; other keys are ignored. `rows` counts
the rows of data, `sha256` is of the file's bytes as they lie on the disk. A file that is not
what its manifest says is refused, and cannot be approved: nobody knows what is missing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from ..errors import SourceUnreachable, SourceUnusable
from .files import SourceFile

if TYPE_CHECKING:
    from typing import Any

_LONGEST = 1 << 20
_SHA256 = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_EXAMPLE = 'write {"rows": 1234, "sha256": "…"}, either or both'


class Manifest(NamedTuple):
    """What a manifest says; None of what it does not. `sha256` is in lower case."""

    path: str
    rows: int | None
    sha256: str | None

    def check_digest(self, path: str, digest: bytes) -> None:
        """Raises `SourceUnusable` where the file has other bytes."""
        if self.sha256 is not None and digest.hex() != self.sha256:
            raise SourceUnusable(
                f"{path} has SHA-256 {digest.hex()}, and its manifest {self.path} says"
                f" {self.sha256}",
                hint="copy the file again, or export file and manifest again",
            )

    def check_rows(self, path: str, rows: int) -> None:
        """Raises `SourceUnusable` where the file has more or fewer rows."""
        if self.rows is not None and rows != self.rows:
            raise SourceUnusable(
                f"{path} has {_counted(rows)}, and its manifest {self.path} says {self.rows:,}",
                hint="export file and manifest again",
            )


def read_manifest(path: str) -> Manifest:
    """Read one. Raises `SourceUnreachable` (missing too), `AccessDenied`, `SourceUnusable`."""
    try:
        file = SourceFile(path)
    except SourceUnreachable as error:
        if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            raise
        raise SourceUnreachable(
            f"the manifest {path} does not exist",
            hint="look whether the export writes it, and the source's manifest, which names it",
        ) from error
    try:
        data = file.read(file.stream(), _LONGEST + 1)
    finally:
        file.close()
    if len(data) > _LONGEST:
        raise _unusable(path, f"it is longer than {_LONGEST:,} bytes")
    try:
        said = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _unusable(path, "it is not JSON") from error
    if not isinstance(said, dict):
        raise _unusable(path, "it is not a JSON object")
    rows, sha256 = said.get("rows"), said.get("sha256")
    if rows is None and sha256 is None:
        raise _unusable(path, "it has neither rows nor sha256")
    if rows is not None and (type(rows) is not int or rows < 0):
        raise _unusable(path, f"rows is {_shown(rows)}, no number of rows")
    if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise _unusable(path, f"sha256 is {_shown(sha256)}, not 64 hexadecimal digits")
    return Manifest(path, rows, None if sha256 is None else sha256.lower())


def _unusable(path: str, why: str) -> SourceUnusable:
    return SourceUnusable(f"{path} is no manifest: {why}", hint=_EXAMPLE)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:80] + "…"


def _counted(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"
