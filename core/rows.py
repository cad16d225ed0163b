"""Rows of entitlements, spans of their key space, and changes, as plain values.

Every value is carried as its canonical text (see `ColumnKind`), so that both sides of a
comparison speak one language and a line of the checksum is a row. A source converts what
it reads into canonical text by the target's schema; a target converts it into its own
types where it writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from .keys import KeyPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .checksum import Checksum
    from .model import Json, PlanId

Row: TypeAlias = "tuple[str | None, ...]"
"""One row as canonical texts, in the order of `Schema.columns`; None is NULL."""


class ColumnKind(StrEnum):
    """The type a column is compared in, with its canonical text.

    TEXT     itself
    INTEGER  decimal digits, no padding, no plus sign, no negative zero
    DECIMAL  plain notation without padding: `1.5`, `-0.25`, `10`; never an exponent
    FLOAT    likewise, the shortest that reads back as the same 64-bit float
    BOOLEAN  `true` or `false`
    DATE, TIMESTAMP, INSTANT
             RFC 3339, `2026-11-30`, `2026-11-30T02:30:00.000000`, and in UTC with a `Z`
    UUID     in lower case, with hyphens
    BYTES    hex digits in lower case after a backslash and an x
    JSON     as PostgreSQL's `jsonb` prints it
    """

    TEXT = "text"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    INSTANT = "instant"
    UUID = "uuid"
    BYTES = "bytes"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Column:
    """One compared column of the target."""

    name: str
    kind: ColumnKind
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """The compared columns, account first. `key` holds positions in `columns`.

    The account's kind fixes the order of keys on both sides: text by code point,
    integers by value. `policy` is that of the account, which in every row is the normalised
    one (`core/keys.py`); other columns of the key are compared exactly. An account that is
    no text has the policy `exact`.
    """

    columns: tuple[Column, ...]
    key: tuple[int, ...]
    policy: KeyPolicy = KeyPolicy.EXACT

    @property
    def account(self) -> Column:
        """The column that says whose entitlement a row is."""
        return self.columns[0]

    def sort_value(self, account: str) -> Any:
        """What accounts are ordered by; comparable with others of the same schema."""
        return int(account) if self.account.kind is ColumnKind.INTEGER else account


@dataclass(frozen=True, slots=True)
class KeySpan:
    """``(lower, upper]`` of the accounts, as canonical text; None is without bound."""

    lower: str | None = None
    upper: str | None = None


@dataclass(slots=True)
class Page:
    """Some rows of the source in account order.

    `resume` is where reading could begin again to get this page and all after it (lossless
    JSON; None: only from the beginning). `bad` names accounts whose rows did not convert,
    with the reason; their rows are left out of `rows`.
    """

    rows: list[Row]
    resume: Json = None
    bad: dict[str, str] = field(default_factory=dict)


class Action(StrEnum):
    """What a change does."""

    GRANT = "grant"
    REVOKE = "revoke"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Change:
    """One grant (no before), revoke (no after) or update of one entitlement."""

    before: Row | None
    after: Row | None

    @property
    def action(self) -> Action:
        """Grant, revoke or update."""
        if self.before is None:
            return Action.GRANT
        return Action.REVOKE if self.after is None else Action.UPDATE

    @property
    def row(self) -> Row:
        """The newest of both rows; has the key and the account."""
        row = self.after if self.before is None else self.before
        assert row is not None
        return row


@dataclass(frozen=True, slots=True)
class RangeChanges:
    """What `Target.commit` applies as one transaction.

    `expected` is what the span must sum up to afterwards; where it does not, somebody else
    wrote to it since it was compared, and nothing is committed. Rows of the accounts `apart`
    stay as they are, whatever that is by now, and are no part of the sum.
    """

    job: str
    interval: str
    rerun: int
    plan: PlanId
    number: int
    span: KeySpan
    changes: Sequence[Change]
    expected: Checksum
    apart: frozenset[str] = frozenset()
