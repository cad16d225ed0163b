"""What a table's key must be, so that a row is found by it and never taken for another.

All raise `TargetUnusable`, with the statement or setting that mends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..errors import TargetUnusable
from ..keys import KeyPolicy, normaliser
from .names import bindable, quoted, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .sqlite_database import Database
    from .sqlite_table import Table, TableColumn


class Exactness(NamedTuple):
    """Which keys we take for one: those with the same `account` under the policy."""

    account: str
    policy: KeyPolicy


def check_unique(
    database: Database,
    name: str,
    key: Sequence[TableColumn],
    exactness: Exactness,
    *,
    is_primary: bool,
) -> None:
    """A unique index is on exactly the key, and each that is compares as we do. A primary key
    that is the row's number has no index."""
    names = {column.name for column in key}
    found = False
    for index, *_ in database.rows(
        'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', (name,)
    ):
        of = _indexed(database, index)
        if {column for column, _ in of} == names:
            found = True
            _check_exact(database, name, of, exactness)
    if found or is_primary:
        return
    listed = ", ".join(quoted(column.name) for column in key)
    raise TargetUnusable(
        f"table {name} in {database.path} has no unique index on exactly its key"
        f" ({', '.join(column.name for column in key)})",
        hint=f"CREATE UNIQUE INDEX {quoted(name + '_key')} ON {quoted(name)} ({listed});",
    )


def lookup_collation(
    database: Database, name: str, account: TableColumn, interval: TableColumn | None = None
) -> str:
    """The collation in which some index begins with the account, be it behind the column that
    says whose interval a row is; BINARY where none does."""
    found: set[str] = set()
    for (index,) in database.rows(
        "SELECT name FROM pragma_index_list(?) WHERE NOT partial", (name,)
    ):
        of = _indexed(database, index)
        if interval is not None and of[0][0] == interval.name:
            del of[0]
        if of and of[0][0] == account.name:
            found.add(of[0][1])
    known = found & _SUITS.keys()
    return min(known) if known and _BINARY not in found else _BINARY


def account_like(
    database: Database, table: Table, account: str, others: Iterable[str | None]
) -> tuple[str, KeyPolicy] | None:
    """One of others, or of the table's accounts, that is spelled nearly like an account, and
    the policy under which they are one."""
    for policy in (KeyPolicy.NFC, KeyPolicy.TRIM, KeyPolicy.CASEFOLD):  # the broadest last
        normalise = normaliser(policy)
        assert normalise is not None
        for other in others:
            if other is not None and normalise(other) == normalise(account):
                return other, policy
    name = table.named(0)
    for collation, policy in _SUITS.items():
        for (found,) in database.rows(
            f"SELECT {name} FROM {table.quoted_name} WHERE {name} = CAST(? AS TEXT) COLLATE"
            f" {collation} AND {name} <> CAST(? AS TEXT) COLLATE BINARY LIMIT 1",
            (bindable(account), bindable(account)),
        ):
            return text(found), policy
    return None


def _indexed(database: Database, index: bytes) -> list[tuple[str | None, str]]:
    """The columns that an index is on, None for an expression, each with its collation."""
    return [
        (None if column is None else text(column), text(collation).upper())
        for column, collation in database.rows(
            'SELECT name, coll FROM pragma_index_xinfo(?) WHERE "key" ORDER BY seqno',
            (text(index),),
        )
    ]


_BINARY = "BINARY"
_SUITS = {"NOCASE": KeyPolicy.CASEFOLD, "RTRIM": KeyPolicy.TRIM}
"""Collations of SQLite's own, and the policy under which all that one of them takes for one
account is one. NOCASE folds the letters of ASCII, RTRIM leaves blanks at the end out."""


def _check_exact(
    database: Database, name: str, key: Sequence[tuple[str | None, str]], exactness: Exactness
) -> None:
    """Keys that the table takes for one and we take for two would lose one of them: a grant
    in one range would meet the row that a later range revokes."""
    for column, collation in key:
        suited = _SUITS.get(collation) if column == exactness.account else None
        if collation == _BINARY or (suited is not None and suited is exactness.policy):
            continue
        mend = f"give {column} the collation BINARY in the key: keys are compared exactly"
        if suited is not None:
            mend = (
                f"accounts that it takes for one are one: let the job say key_policy ="
                f' "{suited}"; if they are not, give {column} the collation BINARY in the key'
            )
        raise TargetUnusable(
            f"the key of table {name} in {database.path} compares {column} as {collation},"
            " so that keys which differ would be one row",
            hint=mend,
        )
