"""Which columns of a table are compared, and which of them are its key: the same in all
databases. All raise `TargetUnusable`, with the statement or setting that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from ..errors import TargetUnusable
from ..keys import KeyPolicy
from ..rows import Column, ColumnKind, Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..config import TargetConfig


class Declared(Protocol):
    """One column as a table declares it."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def kind(self) -> ColumnKind:
        """The kind it is compared in; raises `TargetUnusable` where there is none."""
        ...

    @property
    def not_null(self) -> bool: ...
    @property
    def generated(self) -> bool:
        """Whether it cannot be written."""
        ...


C = TypeVar("C", bound=Declared)


class Picked(NamedTuple, Generic[C]):
    """The compared columns, account first; the key's; what they are to everybody else; and the
    one that says whose interval a row is."""

    columns: tuple[C, ...]
    key: tuple[C, ...]
    schema: Schema
    interval: C | None = None


def pick(
    where: str,
    declared: Mapping[str, C],
    primary: Sequence[C],
    config: TargetConfig,
    source_columns: Sequence[str] | None,
) -> Picked[C]:
    """What a job compares of a table, which is called `where` in messages."""
    picker = _Picker(where, declared)
    interval = picker.one(config.interval_column) if config.interval_column else None
    key = picker.all(config.key) if config.key else [c for c in primary if c != interval]
    if not key:
        raise TargetUnusable(
            f"{where} has no primary key, and the target names no key",
            hint='write for example key = ["account_id", "entitlement"]',
        )
    account = picker.one(config.account) if config.account else key[0]
    wanted = config.columns or source_columns
    free = [c for c in declared.values() if not c.generated and c != interval]
    others = picker.all(wanted) if wanted else free
    columns = (account, *(c for c in others if c != account))
    if interval is not None and interval in (*columns, *key):
        raise TargetUnusable(
            f"column {interval.name} of {where} says whose interval a row is, and is compared too",
            hint="leave it out of account, key and columns: reconcile writes the interval's id",
        )
    _check_key(where, key, account, columns)
    _check_policy(where, account, config.key_policy)
    schema = Schema(
        tuple(Column(c.name, c.kind, not c.not_null) for c in columns),
        tuple(columns.index(c) for c in key),
        config.key_policy,
    )
    return Picked(columns, tuple(key), schema, interval)


class _Picker(Generic[C]):
    """Columns by name, found in any case where that says which."""

    def __init__(self, where: str, declared: Mapping[str, C]) -> None:
        self._where = where
        self._declared = declared
        self._folded = {name.lower(): column for name, column in declared.items()}

    def one(self, name: str) -> C:
        column = self._declared.get(name) or self._folded.get(name.lower())
        if column is None:
            raise TargetUnusable(
                f"{self._where} has no column {name}; it has {', '.join(self._declared)}",
                hint="set the target's columns, or map the source's name to it with rename",
            )
        if column.generated:
            raise TargetUnusable(
                f"column {name} of {self._where} is generated and cannot be written",
                hint="leave it out of the target's columns",
            )
        return column

    def all(self, names: Iterable[str]) -> list[C]:
        return list(dict.fromkeys(self.one(name) for name in names))


def _check_key(
    where: str, key: Sequence[Declared], account: Declared, columns: Sequence[Declared]
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


def _check_policy(where: str, account: Declared, policy: KeyPolicy) -> None:
    """Only text is spelled in more than one way."""
    if policy is not KeyPolicy.EXACT and account.kind is not ColumnKind.TEXT:
        raise TargetUnusable(
            f"the account {account.name} of {where} is {account.type or 'untyped'}, no text, and"
            f' the job says key_policy = "{policy}"',
            hint="take key_policy out: such accounts are compared by value",
        )
