"""Applying a range's changes, and finding out why they could not be."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ..checksum import decode, encode_rows
from ..errors import AccountRefused, ChangedMeanwhile, TargetUnusable
from ..keys import listed
from ..rows import Action, Change
from .change_log import named
from .sqlite_key import account_like

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..errors import ReconcileError
    from ..rows import RangeChanges, Row
    from .sqlite_database import Database
    from .sqlite_table import BoundRow, Table

_KEY_CONFLICTS = {
    sqlite3.SQLITE_CONSTRAINT_UNIQUE,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
    sqlite3.SQLITE_CONSTRAINT_ROWID,
}


class Application:
    """One attempt to apply changes, in a transaction of the caller's."""

    def __init__(
        self,
        database: Database,
        table: Table,
        changes: Sequence[Change],
        normalise: Callable[[str], str],
    ) -> None:
        """The changes are in the table's own spellings, which `normalise` leads to accounts."""
        self._database = database
        self._table = table
        self._normalise = normalise
        self._of: dict[Action, list[Change]] = {action: [] for action in Action}
        for change in changes:
            self._of[change.action].append(change)
        self._current: Change | None = None
        self._conflict: TargetUnusable | None = None

    @property
    def counts(self) -> dict[Action, int]:
        """How many changes there are of each kind."""
        return {action: len(changes) for action, changes in self._of.items()}

    def run(self) -> bool:
        """Apply them all; False where a row was not its before-image, or a key was taken.

        Revokes come first: with a key that ignores case, a grant may need the room.
        Raises `TargetUnusable` naming the account for a constraint or trigger that refuses.
        """
        for action in (Action.REVOKE, Action.UPDATE, Action.GRANT):
            changes = self._of[action]
            if changes and self._applied(action, changes) != len(changes):
                return False
        return True

    def why(self) -> ReconcileError | None:
        """Why `run` said False, looked up once its transaction is as it was before.

        None where every row still is as it was compared.
        """
        changed: list[Change] = []
        for action in (Action.REVOKE, Action.UPDATE):
            for change, bound in self._befores(action):
                if self._database.rows(self._table.count_as_it_was(), bound)[0][0] != 1:
                    changed.append(change)
        for change in self._of[Action.GRANT]:
            key = self._table.bind_key(change.row)
            count, in_scope = self._database.rows(self._table.count_of_key(), key)[0]
            if count and not in_scope:
                return self._refused(
                    change,
                    f"{self._database.path}, {named(change)}: a row of that key is outside the"
                    f" scope {self._table.scope!r}",
                    "widen the target's scope, or settle whose row that is",
                )
            if count:
                changed.append(change)
        if changed:
            return ChangedMeanwhile(
                list(dict.fromkeys(self._normalise(c.row[0] or "") for c in changed))
            )
        if self._conflict is not None:
            return self._alike(self._conflict) or self._of_current(self._conflict)
        return None

    def first_refused(self) -> Change | None:
        """The first change that changes no row, though its row is as it was."""
        for action in (Action.REVOKE, Action.UPDATE, Action.GRANT):
            for change in self._of[action]:
                if self._applied(action, [change]) != 1:
                    return change
        return None

    # --- parts

    def _alike(self, conflict: TargetUnusable) -> TargetUnusable | None:
        """The refusal of a key that no row has, where another account is spelled nearly so: a
        unique index that is not just on the key's columns takes both for one."""
        refused = self._current.row[0] if self._current is not None else None
        if refused is None:
            return None
        granted = (change.row[0] for change in self._of[Action.GRANT])
        others = [account for account in granted if account not in (None, refused)]
        found = account_like(self._database, self._table, refused, others)
        if found is None:
            return None
        other, policy = found
        return TargetUnusable(
            f"{conflict}: the table takes accounts {listed([refused, other])} for one",
            hint=f'if they are one, let the job say key_policy = "{policy}"; if not, drop the index'
            " that says so",
        )

    def _applied(self, action: Action, changes: Sequence[Change]) -> int:
        sql, bound = self._statement(action, changes)
        try:
            return self._database.execute_many(sql, self._watched(changes, bound))
        except sqlite3.Error as error:
            current = self._current
            what = f", {named(current)}" if current else ""
            refusal = self._database.error_for(error, what)
            if action is Action.GRANT and _code(error) in _KEY_CONFLICTS:
                assert isinstance(refusal, TargetUnusable)
                self._conflict = refusal
                return -1
            if isinstance(error, sqlite3.IntegrityError):
                refusal = self._of_current(refusal)
            raise refusal from error

    def _of_current(self, refusal: ReconcileError) -> ReconcileError:
        """The refusal as one of the account whose row was being written, where that is known."""
        if self._current is None:
            return refusal
        return self._refused(self._current, str(refusal), refusal.hint)

    def _refused(self, change: Change, why: str, hint: str) -> AccountRefused:
        return AccountRefused(why, account=self._normalise(change.row[0] or ""), hint=hint)

    def _statement(self, action: Action, changes: Sequence[Change]) -> tuple[str, list[BoundRow]]:
        table = self._table
        if action is Action.GRANT:
            return table.grant(), table.bind(_rows(c.after for c in changes))
        was = table.bind_as_it_was(_rows(c.before for c in changes))
        if action is Action.REVOKE:
            return table.revoke(), was
        now = table.bind(_rows(c.after for c in changes), table.others)
        return table.update(), [(*a, *b) for a, b in zip(now, was, strict=True)]

    def _befores(self, action: Action) -> Iterator[tuple[Change, BoundRow]]:
        changes = self._of[action]
        bound = self._table.bind_as_it_was(_rows(c.before for c in changes))
        return zip(changes, bound, strict=True)

    def _watched(self, changes: Sequence[Change], bound: Iterable[BoundRow]) -> Iterator[BoundRow]:
        # sqlite3 does not say at which row an executemany failed; it takes them one by one.
        for change, row in zip(changes, bound, strict=True):
            self._current = change
            yield row


def why_unequal(
    database: Database,
    part: RangeChanges,
    before: Sequence[bytes],
    after: Sequence[bytes],
) -> ReconcileError:
    """Why a span does not sum up to what it should, though all changes were applied.

    `before` and `after` are its lines without and with the changes, under one lock.
    """
    lost = set(encode_rows(_rows(c.before for c in part.changes)))
    wanted = (set(before) - lost) | set(encode_rows(_rows(c.after for c in part.changes)))
    odd = sorted(wanted.symmetric_difference(after))
    if not odd:
        # All that was written stands as written; what the range was compared with does not.
        return ChangedMeanwhile(())
    row = decode(odd[0])
    missing = odd[0] in wanted
    return TargetUnusable(
        f"{database.path}, account {row[0]!r}: the table does not hold what was written to it:"
        f" {'it lacks' if missing else 'it has'} {list(row)!r}",
        hint="look for a trigger, a column type that changes values, or a scope that new rows"
        " are not in (give its columns a DEFAULT)",
    )


def _rows(rows: Iterable[Row | None]) -> list[Row]:
    return [row for row in rows if row is not None]


def _code(error: sqlite3.Error) -> int:
    found: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return found
