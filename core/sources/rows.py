"""A block's records as canonical rows of the schema, with what does not convert set apart.

Two readings share this. One takes rows as they come and refuses them (`Unordered`) where an
account comes after a higher one. The other takes them in any order as *items*, which are
sorted before they become pages. An item is a row, or carries more than a row has columns:
its account's own spelling, and why its account is bad ::

    (account, …)                        a row
    (account, …, spelling)              a row whose account is spelled otherwise
    (account, None …, spelling, reason) no row: the account is left alone, for this reason
"""

from __future__ import annotations

from operator import le
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ..canonical import Unconvertible
from ..endpoints import Unordered
from ..keys import listed, normaliser
from ..rows import ColumnKind, Page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..errors import SourceUnusable
    from ..rows import Row, Schema
    from .blocks import Block

Item: TypeAlias = "tuple[str | None, ...]"


class Records(Protocol):
    """What one kind of file says, once its columns are known."""

    @property
    def readers(self) -> Sequence[Callable[[Any], str | None] | None]:
        """What turns a raw value of each column into canonical text or NULL, or raises
        `Unconvertible`; None where values stay as they are."""
        ...

    def raw(self, block: Block) -> tuple[list[Any], int]:
        """The block's records as tuples of raw values, in the order of the schema's columns,
        and how many records stand before the first. Raises `SourceUnusable`."""
        ...

    def lines(self, block: Block) -> Sequence[int]:
        """The line on which each record begins; for messages, so it is slow."""
        ...


class Last(NamedTuple):
    """The last account read: what it sorts by, its text and spelling, why it is bad if it is."""

    order: Any
    account: str
    spelling: str
    bad: str | None


BEFORE_ALL = Last(None, "", "", None)


class _Read(NamedTuple):
    """A block's records. `rows` has None where one did not convert. `spellings` is the very
    list `accounts` where each account is its own spelling. `count` is that of the records."""

    rows: list[Any]
    accounts: list[Any]
    spellings: list[Any]
    bad: dict[str, str]
    skipped: int


class Rows:
    """Makes pages, or items, of blocks."""

    def __init__(self, records: Records, schema: Schema) -> None:
        self._records = records
        self._schema = schema
        self._converts = any(records.readers)
        self._numeric = schema.account.kind is ColumnKind.INTEGER
        self._normalise = normaliser(schema.policy)

    def page(self, block: Block, last: Last) -> tuple[Page, Last, int]:
        """The block's rows where they are in order, its last account, and how many records it
        has. Raises `Unordered`, `SourceUnusable`."""
        read = self._read(block)
        if read is None:
            return Page([]), last, 0
        rows, accounts, spellings, bad, skipped = read
        if accounts[0] == "":  # in order of accounts it would come first
            raise self._empty(block, skipped)
        order = list(map(int, accounts)) if self._numeric else accounts
        if (last.account and last.order > order[0]) or not all(map(le, order, order[1:])):
            raise Unordered
        if last.bad and last.account == accounts[0]:
            bad.setdefault(last.account, last.bad)
        if spellings is not accounts:
            self._set_apart(bad, accounts, spellings, last)
        if bad:
            rows = [row for row in rows if row is not None and row[0] not in bad]
        now = Last(order[-1], accounts[-1], spellings[-1], bad.get(accounts[-1]))
        return Page(rows, None, bad), now, len(accounts)

    def items(self, block: Block) -> tuple[list[Item], int]:
        """The block's rows in any order, and how many records it has. Raises `SourceUnusable`."""
        read = self._read(block)
        if read is None:
            return [], 0
        rows, accounts, spellings, bad, skipped = read
        if "" in accounts:
            raise self._empty(block, skipped + accounts.index(""))
        if not bad and spellings is accounts:
            return rows, len(accounts)
        spelled = zip(rows, accounts, spellings, strict=True)
        items = [
            row if account == spelling else (*row, spelling)
            for row, account, spelling in spelled
            if row is not None
        ]
        nothing = (None,) * (len(self._schema.columns) - 1)
        said = dict(zip(accounts, spellings, strict=True))
        items += [(account, *nothing, said[account], why) for account, why in bad.items()]
        return items, len(accounts)

    def normal(self, account: str) -> str:
        """The account as the schema's key policy has it."""
        return account if self._normalise is None else self._normalise(account)

    def settled(self, account: str, items: list[Item]) -> tuple[list[Item], str | None]:
        """The rows of one account from all its items, or none and why it is bad."""
        width = len(self._schema.columns)
        if set(map(len, items)) == {width}:
            return items, None
        why = next((item[-1] for item in items if len(item) == width + 2), None)
        spellings = dict.fromkeys(
            (account if len(item) == width else item[width]) or "" for item in items
        )
        if len(spellings) > 1:
            why = why or spelled_variously(list(spellings))
        if why is not None:
            return [], why
        return [item[:width] for item in items], None

    def _read(self, block: Block) -> _Read | None:
        """The block's records as they come; None where there is none."""
        rows, skipped = self._records.raw(block)
        if not rows:
            return None
        bad: dict[str, str] = {}
        if self._converts:
            rows, accounts, faults = self._converted(block, rows, skipped)
        else:
            accounts, faults = [row[0] for row in rows], {}
        spellings = accounts
        if self._normalise is not None:
            accounts = list(map(self._normalise, spellings))
            rows = [
                row if row is None or account == row[0] else (account, *row[1:])
                for account, row in zip(accounts, rows, strict=True)
            ]
        for index, why in faults.items():
            bad.setdefault(accounts[index], why)
        return _Read(rows, accounts, spellings, bad, skipped)

    def _converted(
        self, block: Block, raw: list[Any], skipped: int
    ) -> tuple[list[Row | None], list[str], dict[int, str]]:
        """Rows (None: a value did not convert), their accounts, and what was wrong, by index."""
        rows: list[Row | None] = []
        accounts: list[str] = []
        faults: dict[int, str] = {}
        lines: Sequence[int] = ()
        first, *others = self._records.readers
        for index, fields in enumerate(raw):
            values: list[Any] = list(fields)
            try:
                account = values[0] = first(values[0]) if first else values[0]
            except Unconvertible as error:
                line = self._records.lines(block)[index + skipped]
                raise block.unusable(
                    line,
                    f"account {error}",
                    hint="export accounts of the kind that the target's column has",
                ) from error
            if account is None:
                raise self._null(block, index + skipped, 0)
            accounts.append(account)
            at = 0
            try:
                for at, read in enumerate(others, 1):
                    if read is not None:
                        values[at] = read(values[at])
            except Unconvertible as error:
                lines = lines or self._records.lines(block)
                line = lines[index + skipped]
                faults[index] = f"{block.unit} {line}: {self._schema.columns[at].name} {error}"
                rows.append(None)
                continue
            for at in self._schema.key:
                if values[at] is None:
                    raise self._null(block, index + skipped, at)
            rows.append(tuple(values))
        return rows, accounts, faults

    @staticmethod
    def _set_apart(
        bad: dict[str, str], accounts: list[str], spellings: list[str], last: Last
    ) -> None:
        """Accounts that the file spells in several ways are bad."""
        said = {last.account: [last.spelling]}
        for account, spelling in zip(accounts, spellings, strict=True):
            known = said.setdefault(account, [spelling])
            if spelling not in known:
                known.append(spelling)
        for account, known in said.items():
            if len(known) > 1:
                bad.setdefault(account, spelled_variously(known))

    def _empty(self, block: Block, index: int) -> SourceUnusable:
        return self._nobody(block, index, f"{self._schema.columns[0].name} is empty")

    def _null(self, block: Block, index: int, at: int) -> SourceUnusable:
        return self._nobody(block, index, f"{self._schema.columns[at].name} is NULL")

    def _nobody(self, block: Block, index: int, what: str) -> SourceUnusable:
        return block.unusable(
            self._records.lines(block)[index],
            f"{what}, which says of nobody what they have",
            hint="leave such rows out of the export",
        )


def spelled_variously(spellings: list[str]) -> str:
    """Why an account of several spellings is left alone."""
    return f"the source spells it {listed(spellings)}"
