"""What a table's key must be, so that a row is found by it and never taken for another.

All raise `TargetUnusable`, with the statement or setting that mends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import TargetUnusable
from .sqlite_text import quoted, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .sqlite_database import Database
    from .sqlite_table import TableColumn


def check_key(
    where: str,
    key: Sequence[TableColumn],
    account: TableColumn,
    columns: Sequence[TableColumn],
) -> None:
    """The account is part of the key, and the key among the compared columns."""
    if account not in key:
        raise TargetUnusable(
            f"the account {account.name} is no part of the key of {where}",
            hint="name a key that begins with the account, and create a unique index on it",
        )
    unlisted = [column.name for column in key if column not in columns]
    if unlisted:
        raise TargetUnusable(
            f"{', '.join(unlisted)} is part of the key of {where} and not among the columns",
            hint="add it to the columns of source and target",
        )


def check_unique(
    database: Database, name: str, key: Sequence[TableColumn], *, is_primary: bool
) -> None:
    """One unique index is on exactly the key, and compares as we do. A primary key that is
    the row's number has no index."""
    names = {column.name for column in key}
    for index, *_ in database.rows(
        'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', (name,)
    ):
        of = database.rows(
            'SELECT name, coll FROM pragma_index_xinfo(?) WHERE "key"', (text(index),)
        )
        if all(n is not None for n, _ in of) and {text(n) for n, _ in of} == names:
            _check_exact(database, name, [(text(n), text(coll)) for n, coll in of])
            return
    if is_primary:
        return
    listed = ", ".join(quoted(column.name) for column in key)
    raise TargetUnusable(
        f"table {name} in {database.path} has no unique index on exactly its key"
        f" ({', '.join(column.name for column in key)})",
        hint=f"CREATE UNIQUE INDEX {quoted(name + '_key')} ON {quoted(name)} ({listed});",
    )


def _check_exact(database: Database, name: str, key: Sequence[tuple[str, str]]) -> None:
    """Keys that the table takes for one and we take for two would lose one of them: a grant
    in one range would meet the row that a later range revokes."""
    for column, collation in key:
        if collation.upper() != "BINARY":
            raise TargetUnusable(
                f"the key of table {name} in {database.path} compares {column} as {collation},"
                " so that keys which differ would be one row",
                hint=f"give {column} the collation BINARY in the key: keys are compared exactly",
            )
