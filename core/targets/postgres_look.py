"""Looking at the table a job works on in PostgreSQL: whether it can serve, and how it is read.

All raise `TargetUnusable`, with the statement or setting that mends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import TargetUnusable
from ..keys import KeyPolicy
from ..rows import ColumnKind
from .columns import pick
from .names import quoted
from .postgres_catalog import columns as read_columns
from .postgres_catalog import find
from .postgres_catalog import indexes as read_indexes
from .postgres_table import ACCOUNTS, Table, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..config import TargetConfig
    from ..errors import ReconcileError
    from .postgres_catalog import Index, PostgresColumn, Relation
    from .postgres_session import Session


def read_table(
    session: Session, config: TargetConfig, source_columns: Sequence[str] | None
) -> Table:
    """Look at the table; `TargetUnusable` where it cannot serve."""
    relation = find(session, config.table)
    where = f"table {relation.shown} in {session.shown}"
    declared = read_columns(session, relation)
    indexes = read_indexes(session, relation)
    primary = next((index for index in indexes if index.primary), None)
    keys = [declared[name] for name in primary.columns] if primary else []
    columns, key, schema, _ = pick(where, declared, keys, config, source_columns)
    account = columns[0]
    _check_account(where, account, config.key_policy)
    _check_unique(relation, where, key, indexes)
    order, ordered = _order(relation, account, indexes)
    table = Table(relation, config.scope, schema, columns, order, ordered)
    if config.scope:
        _check_scope(session, table)
    return table


def _check_account(where: str, account: PostgresColumn, policy: KeyPolicy) -> None:
    if account.enum or account.kind not in ACCOUNTS:
        raise TargetUnusable(
            f"the account {account.name} of {where} is {account.type}",
            hint="accounts are text, an integer, a UUID, a date or a timestamp",
        )
    if policy is not KeyPolicy.EXACT:
        raise TargetUnusable(
            f'the job says key_policy = "{policy}", and a target in PostgreSQL compares exactly',
            hint="take key_policy out",
        )


def _check_unique(
    relation: Relation, where: str, key: Sequence[PostgresColumn], indexes: Sequence[Index]
) -> None:
    """A unique index is on exactly the key, and takes no two keys for one that differ."""
    names = {column.name for column in key}
    if not any(index.unique and set(index.columns) == names for index in indexes):
        listed = ", ".join(quoted(column.name) for column in key)
        raise TargetUnusable(
            f"{where} has no unique index on exactly its key"
            f" ({', '.join(column.name for column in key)})",
            hint=f"CREATE UNIQUE INDEX ON {relation.quoted} ({listed});",
        )
    loose = next((column for column in key if not column.exact), None)
    if loose is not None:
        raise TargetUnusable(
            f"the key of {where} compares {loose.name} loosely, so that keys which differ would be"
            " one row",
            hint=f"give {loose.name} a deterministic collation: keys are compared exactly",
        )


def _order(
    relation: Relation, account: PostgresColumn, indexes: Sequence[Index]
) -> tuple[str, bool]:
    """The account in order, and whether an index is in that order."""
    own = percent(f"{relation.quoted}.{quoted(account.name)}")
    found = [
        index
        for index in indexes
        if index.ordered and index.columns[0] == account.name and index.code_point[0]
    ]
    if account.kind is not ColumnKind.TEXT:
        return own, bool(found)
    collations = {index.collations[0] for index in found}
    if "" in collations:
        return own, True
    if collations:
        return f"{own} COLLATE {percent(min(collations))}", True
    return f'{own} COLLATE "C"', False


def _check_scope(session: Session, table: Table) -> None:
    name, scope = table.quoted_name, percent(table.scope or "")
    try:
        # Asked for in binary form, so that it is one statement and no more.
        session.row(f"EXPLAIN SELECT 1 FROM {name} WHERE {table.in_scope}")
        # What closes the bracket around it, as "1) OR (1", is no condition here.
        session.row(f"EXPLAIN SELECT coalesce({scope}\n, false) FROM {name}")
    except TargetUnusable as error:
        raise _unfit_scope(table, error) from error


def _unfit_scope(table: Table, error: ReconcileError) -> TargetUnusable:
    said = str(error.__cause__).partition("\n")[0]
    return TargetUnusable(
        f"scope {table.scope!r} cannot be used: {said}",
        hint="write an SQL condition over the columns of the target's table",
    )
