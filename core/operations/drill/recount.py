"""The proof, recomputed: count and checksum by plain SQL and code that shares nothing with
`core/checksum.py`, whose docstring defines them."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from .findings import Broke, Finding, NotRehearsed, Verdict
from .scratch import COLUMNS, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .rehearsal import Proved


def proof(nights: Sequence[Proved]) -> Finding:
    """What the store and the target's fence row say of each completed night, against a recount of
    the rows of its target and its source. Raises `Broke`, `NotRehearsed`."""
    if not nights:
        raise NotRehearsed("no scratch night was completed")
    rows = 0
    for night in nights:
        held = night.scene.ask(f"SELECT {', '.join(COLUMNS)} FROM {TABLE}")
        (count,) = night.scene.ask(f"SELECT count(*) FROM {TABLE}")[0]
        fence = night.scene.ask("SELECT newest_checksum FROM reconcile_fence")
        said = {str(night.record.checksum), *(str(row[0]) for row in fence)}
        counted = {_recounted(held), _recounted(night.source)}
        if said | counted != counted or len(counted) != 1 or count != len(held):
            raise Broke(
                6,
                f"{night.scene.job.name}: recorded {' and '.join(sorted(said))},"
                f" recounted {' and '.join(sorted(counted))}",
            )
        rows += count
    evidence = "count and checksum agree, recomputed with plain SQL"
    figures = {"nights": len(nights), "rows": rows}
    return Finding("proof", 6, Verdict.HOLDS, evidence, figures)


def _recounted(rows: Iterable[Sequence[str]]) -> str:
    total = number = 0
    for row in rows:
        line = b"".join(b"%d:%s," % (len(cell.encode()), cell.encode()) for cell in row)
        total += int(sha256(line).hexdigest()[:32], 16)
        number += 1
    return f"sha256-sum:{number}:{total % 2**128:032x}"
