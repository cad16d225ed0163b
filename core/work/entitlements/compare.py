"""Compare one range of the source with the same range of the target.

Both sides are canonical lines (`core/checksum.py`), so two rows are equal when their bytes
are. Most ranges are equal, and are recognised without looking at a single column; only
lines that one side alone has are read back into rows and matched by key.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...checksum import Checksum, checksum, decode, encode, encode_rows
from ...keys import KeyPolicy
from ...rows import Action, Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...endpoints import Target
    from ...rows import KeySpan, Row, Schema

DIFFERENT_DUPLICATES = "the source has this account's entitlement twice, with different values"


@dataclass(slots=True)
class Difference:
    """What a comparison found. `left` sums up the rows of quarantined accounts, which stay."""

    desired: Checksum
    observed: Checksum
    changes: list[Change] = field(default_factory=list)
    losing: set[str] = field(default_factory=set)
    quarantined: dict[str, str] = field(default_factory=dict)
    left: Checksum = Checksum()

    def count(self, action: Action) -> int:
        """How many changes of one kind."""
        return sum(change.action is action for change in self.changes)

    def approvable(self) -> Checksum:
        """Checksum of revokes and updates: what an approval is for, whatever the ranges."""
        return checksum(
            encode((change.action, *change.before, *(change.after or ())))
            for change in self.changes
            if change.before is not None
        )


def compare(
    rows: Sequence[Row], observed: list[bytes], schema: Schema, bad: dict[str, str]
) -> Difference:
    """Say what makes `observed` equal to `rows`.

    Rows that are there twice are one row. Accounts in `bad`, and accounts whose rows
    contradict each other, are quarantined: nothing of theirs is changed.
    """
    desired = encode_rows(rows)
    if desired == observed and not bad:
        both = checksum(desired)
        return Difference(both, both)
    wanted, found = set(desired), set(observed)
    quarantined = dict(bad)
    for account in _contradicted(rows, wanted, schema):
        quarantined.setdefault(account, DIFFERENT_DUPLICATES)
    if quarantined:
        wanted = {line for line in wanted if _account(line) not in quarantined}
    extra = found - wanted
    # Of the list and not of the set: two spellings may have a row that reads alike.
    stays = [line for line in observed if _account(line) in quarantined] if quarantined else []
    extra.difference_update(stays)
    changes = _match(wanted - found, extra, schema)
    seen = checksum(observed)
    return Difference(
        desired=checksum(wanted) if changes or len(wanted) != len(observed) else seen,
        observed=seen,
        changes=changes,
        losing=_losing(changes, rows, quarantined),
        quarantined=quarantined,
        left=checksum(stays),
    )


def set_apart(bad: dict[str, str], target: Target, span: KeySpan, schema: Schema) -> dict[str, str]:
    """The source's bad accounts of a span, and those that the target spells in several ways.

    Asked after the span's lines were read: who is mended in between is quarantined in vain,
    and who falls apart in between is noticed by the commit.
    """
    if schema.policy is KeyPolicy.EXACT:
        return bad
    both = dict(bad)
    for account, reason in target.collisions(span).items():
        both[account] = f"{both[account]}; {reason}" if account in both else reason
    return both


def _account(line: bytes) -> str | None:
    return decode(line)[0]


def _contradicted(rows: Sequence[Row], wanted: set[bytes], schema: Schema) -> set[str]:
    """Accounts with two different rows of one key."""
    key = schema.key
    keys = {tuple(row[i] for i in key) for row in rows}
    if len(keys) == len(wanted):
        return set()
    lines: dict[tuple[str | None, ...], Row] = {}
    accounts: set[str] = set()
    for row in rows:
        of_key = tuple(row[i] for i in key)
        if tuple(lines.setdefault(of_key, row)) != tuple(row):
            accounts.add(row[0] or "")
    return accounts


def _match(missing: set[bytes], extra: set[bytes], schema: Schema) -> list[Change]:
    """Pair what is missing with what is too much, by key; in order of line."""
    old = {}
    for line in extra:
        row = decode(line)
        old[tuple(row[i] for i in schema.key)] = row
    changes = []
    for line in missing:
        after = decode(line)
        changes.append(Change(old.pop(tuple(after[i] for i in schema.key), None), after))
    changes += [Change(before, None) for before in old.values()]
    changes.sort(key=lambda change: _order(change, schema))
    return changes


def _order(change: Change, schema: Schema) -> tuple[object, ...]:
    row = change.row
    return (
        schema.sort_value(row[0] or ""),
        *((row[i] is not None, row[i] or "") for i in schema.key[1:]),
    )


def _losing(
    changes: Iterable[Change], rows: Sequence[Row], quarantined: dict[str, str]
) -> set[str]:
    """Accounts that would be left with nothing: all their rows are revoked, none is wanted."""
    revoked = {c.before[0] for c in changes if c.before is not None and c.after is None}
    if not revoked:
        return set()
    kept = {row[0] for row in rows}
    return {a for a in revoked if a is not None and a not in kept and a not in quarantined}


def pack(changes: Sequence[Change]) -> bytes:
    """Planned changes as they are stored: compressed JSON, lossless."""
    text = json.dumps([[c.before, c.after] for c in changes], separators=(",", ":"))
    return zlib.compress(text.encode(), 1)


def unpack(blob: bytes) -> list[Change]:
    """Read what `pack` wrote."""
    pairs = json.loads(zlib.decompress(blob))
    return [
        Change(
            None if before is None else tuple(before),
            None if after is None else tuple(after),
        )
        for before, after in pairs
    ]
