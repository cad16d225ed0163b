"""Which rows of the table are of which account, under each key policy.

Under `exact` the account is what the column says, and the table's own SQL (`Table.select`)
finds a range. Under all others the column says how the account is spelled here.

No index of the user's table is in the order of normalised accounts, and sorting the table
for each range would read it as often as there are ranges. So it is read once: a temporary
table leads from each normalised account to its spellings, in that order. It is SQLite's
own, on disk, deleted with the connection, and seen by nobody else; a range is then a stretch
of it joined to the user's table by whatever index begins with the account.

Others write meanwhile, under spellings that we have never seen. SQLite's `data_version`
says whether another connection has committed anything since the table was read, so each
transaction begins with that question and, where the answer is yes, reads the accounts
again, within itself: what a commit sums up has no gap. In a database that others write to
all the time each range reads all accounts: slow, and right. What we write ourselves is
added as it is written; where more rows changed than we changed (a trigger), all is read
again too. The version is kept in a temporary table as well, so that a rollback takes back
both. Spellings that are gone stay in the list; they match no row.

An account gets its rows under the spelling that it has rows under, else the normalised one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ChangedMeanwhile, TargetLocked, TargetUnreachable
from ..keys import listed, normaliser
from ..rows import Change
from .names import bindable, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..keys import KeyPolicy
    from ..rows import KeySpan, RangeChanges, Row
    from .names import Bound
    from .sqlite_database import Database
    from .sqlite_table import Table

NORMALISE = "reconcile_normalised"
"""The SQL function: bytes of a spelling to bytes of its normalised account."""

# Names that no user's column has: a scope is a user's SQL, and these are in its sight.
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS temp.reconcile_spellings (reconcile_account TEXT NOT NULL,"
    " reconcile_spelling NOT NULL, PRIMARY KEY (reconcile_account, reconcile_spelling))"
    " WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS temp.reconcile_seen (version INTEGER NOT NULL)",
)


def functions(policy: KeyPolicy) -> dict[str, Callable[[bytes], bytes]]:
    """The SQL functions that a policy needs."""
    normalise = normaliser(policy)
    if normalise is None:
        return {}

    def normalised(spelling: bytes) -> bytes:
        account = normalise(spelling.decode("utf-8", "surrogateescape"))
        return account.encode("utf-8", "surrogateescape")

    return {NORMALISE: normalised}


def accounts(database: Database, policy: KeyPolicy) -> ExactAccounts | SpelledAccounts:
    """What a policy makes of the spellings in a table. Its SQL needs `functions`."""
    normalise = normaliser(policy)
    return ExactAccounts() if normalise is None else SpelledAccounts(database, normalise)


class ExactAccounts:
    """Each spelling is an account of its own."""

    looks = False

    @staticmethod
    def normalise(spelling: str) -> str:
        """As it is."""
        return spelling

    def look(self, table: Table) -> None:
        """Nothing to know."""

    def select(self, table: Table, span: KeySpan) -> tuple[str, list[Bound]]:
        """See `Table.select`."""
        return table.select(span)

    def collisions(self, table: Table, span: KeySpan) -> dict[str, str]:
        """There are none."""
        return {}

    def own(self, table: Table, part: RangeChanges) -> Sequence[Change]:
        """The changes as they are."""
        return part.changes

    def written(self, table: Table, changes: Sequence[Change], rows: int) -> None:
        """Nothing to remember."""


class SpelledAccounts:
    """An account may be spelled in several ways. The methods of SQL belong into a transaction
    that began with `look`."""

    looks = True
    """Whether `look` has something to do, which its transaction should keep."""

    def __init__(self, database: Database, normalise: Callable[[str], str]) -> None:
        self._database = database
        self.normalise = normalise

    def look(self, table: Table) -> None:
        """Read the table's accounts, unless nobody else wrote since that was done last."""
        for statement in _SCHEMA:
            self._database.execute(statement)
        version = self._version()
        if self._database.rows("SELECT version FROM temp.reconcile_seen") != [(version,)]:
            self._read_in_full(table)

    def select(self, table: Table, span: KeySpan) -> tuple[str, list[Bound]]:
        """Canonical texts of the rows in scope of a span, with their normalised accounts."""
        others = range(1, len(table.columns))
        texts = "".join(f", {table.text_of(i)} AS reconcile_{i}" for i in others)
        wanted = "".join(f", reconcile_{i}" for i in others)
        where, bounds = _inside(span)
        return (
            f"SELECT reconcile_account{wanted} FROM temp.reconcile_spellings CROSS JOIN"
            f" ({_rows(table, texts)}) ON {_same(table)} WHERE {where}"
        ), bounds

    def collisions(self, table: Table, span: KeySpan) -> dict[str, str]:
        """See `endpoints.Target`."""
        spellings = self._of(table, span, "GROUP BY reconcile_account HAVING count(*) > 1")
        return {
            account: f"the target spells it {listed(of)}"
            for account, of in spellings.items()
            if len(of) > 1
        }

    def own(self, table: Table, part: RangeChanges) -> Sequence[Change]:
        """The changes in the table's own spellings.

        Raises `ChangedMeanwhile` where an account has more than one by now: it is not known
        any more whose rows were compared.
        """
        spellings = self._of(table, part.span, "AND reconcile_spelling <> reconcile_account")
        changed = {change.row[0] for change in part.changes}
        collided = [a for a, of in spellings.items() if len(of) > 1 and a in changed]
        if collided:
            raise ChangedMeanwhile(collided)
        only = {account: of[0] for account, of in spellings.items() if account in changed}
        if not only:
            return part.changes
        return [
            Change(_spelled(change.before, only), _spelled(change.after, only))
            for change in part.changes
        ]

    def written(self, table: Table, changes: Sequence[Change], rows: int) -> None:
        """Remember what was just written: `changes`, and by triggers `rows` in all."""
        if rows != len(changes):
            self._read_in_full(table)
            return
        granted = {c.after[0] for c in changes if c.before is None and c.after is not None}
        self._database.execute_many(
            "INSERT OR IGNORE INTO temp.reconcile_spellings"
            " VALUES (CAST(? AS TEXT), CAST(? AS TEXT))",
            [
                (bindable(self.normalise(spelling)), bindable(spelling))
                for spelling in granted
                if spelling is not None
            ],
        )

    # --- parts

    def _read_in_full(self, table: Table) -> None:
        try:
            self._read(table)
        except TargetLocked:
            raise
        except TargetUnreachable as error:
            error.hint += "; and of temporary files: SQLITE_TMPDIR, TMPDIR or /var/tmp"
            raise

    def _read(self, table: Table) -> None:
        account = table.named(0)
        normalised = f"CAST({NORMALISE}(CAST(reconcile_spelling AS BLOB)) AS TEXT)"
        # DISTINCT and comparisons would else follow the column's collation.
        self._database.execute(
            f"INSERT OR IGNORE INTO temp.reconcile_spellings SELECT {normalised},"
            f" reconcile_spelling FROM (SELECT DISTINCT {account} COLLATE BINARY AS"
            f" reconcile_spelling FROM {table.quoted_name} WHERE typeof({account}) = 'text'"
            f" AND {table.in_scope()})"
        )
        self._database.execute("DELETE FROM temp.reconcile_seen")
        self._database.execute("INSERT INTO temp.reconcile_seen VALUES (?)", (self._version(),))

    def _version(self) -> int:
        version: int = self._database.rows("PRAGMA main.data_version")[0][0]
        return version

    def _of(self, table: Table, span: KeySpan, which: str) -> dict[str, list[str]]:
        """Accounts of a span, picked by a condition on what is listed of them, with the
        spellings under which they have rows in scope now."""
        where, bounds = _inside(span)
        found: dict[str, list[str]] = {}
        for account, spelling in self._database.rows(
            "SELECT DISTINCT reconcile_account, reconcile_spelling FROM temp.reconcile_spellings"
            f" CROSS JOIN ({_rows(table)}) ON {_same(table)} WHERE {where} AND reconcile_account"
            f" IN (SELECT reconcile_account FROM temp.reconcile_spellings WHERE {where} {which})",
            [*bounds, *bounds],
        ):
            found.setdefault(text(account), []).append(text(spelling))
        return found


def _inside(span: KeySpan) -> tuple[str, list[Bound]]:
    """The condition that a normalised account is in a span."""
    where = ["1"]
    bounds: list[Bound] = []
    for sign, bound in ((">", span.lower), ("<=", span.upper)):
        if bound is not None:
            where.append(f"reconcile_account {sign} CAST(? AS TEXT)")
            bounds.append(bindable(bound))
    return " AND ".join(where), bounds


def _rows(table: Table, texts: str = "") -> str:
    """The table's rows in scope with their spelling. A query of its own, because a scope
    knows no table but the user's."""
    return (
        f"SELECT {table.named(0)} AS reconcile_raw{texts} FROM {table.quoted_name}"
        f" WHERE {table.in_scope()}"
    )


def _same(table: Table) -> str:
    """That a row is of a spelling: found by its index, in the index's own collation, and then
    exactly."""
    found = f"reconcile_raw = reconcile_spelling COLLATE {table.collation}"
    if table.collation == "BINARY":
        return found
    return f"{found} AND reconcile_raw = reconcile_spelling COLLATE BINARY"


def _spelled(row: Row | None, spellings: dict[str, str]) -> Row | None:
    if row is None or row[0] is None or row[0] not in spellings:
        return row
    return (spellings[row[0]], *row[1:])
