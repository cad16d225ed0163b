"""Applying a range's changes in PostgreSQL as sets, and finding out why they could not be.

One statement for each kind of change says how many rows it found as they were compared. When
that is not how many there are, or the server refuses a row, all is taken back and it is looked
up why. Other sessions go on writing meanwhile: a row that is no longer as it was is compared
again, whoever changed it; one that still is, and is not taken, is the table's doing, and its
account is set apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from ..checksum import decode, encode, encode_rows
from ..errors import AccountRefused, ChangedMeanwhile
from ..postgres.errors import fault_of
from ..rows import Action, Change
from .change_log import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..errors import ReconcileError
    from ..rows import Row
    from .postgres_session import Session
    from .postgres_table import Table

SAVEPOINT = "SAVEPOINT reconcile_changes"
ROLLBACK = "ROLLBACK TO SAVEPOINT reconcile_changes"
_ORDER = (Action.REVOKE, Action.UPDATE, Action.GRANT)
"""Revokes come first: another index than the key's may need the room."""
_MEND = "mend the row in the source, or the table's constraint or trigger"


class Application:
    """One attempt to apply changes, in a transaction of the caller's."""

    def __init__(self, session: Session, table: Table, changes: Sequence[Change]) -> None:
        self._session = session
        self._table = table
        self._of: dict[Action, list[Change]] = {action: [] for action in Action}
        for change in changes:
            self._of[change.action].append(change)

    @property
    def counts(self) -> dict[Action, int]:
        """How many changes there are of each kind."""
        return {action: len(changes) for action, changes in self._of.items()}

    def run(self) -> bool:
        """Apply them all; False where a row was not its before-image, a key was taken, or the
        table refuses a row. Raises `AccountRefused` for a text that no table here can hold."""
        self._refuse_unstorable()
        self._session.execute(SAVEPOINT)
        for action in _ORDER:
            changes = self._of[action]
            if changes and self._session.tried(*self._statement(action, changes)) != len(changes):
                return False
        return True

    def take_back(self) -> None:
        """As if nothing had been applied."""
        self._session.execute(ROLLBACK)

    def why(self) -> ReconcileError:
        """Why `run` said False. What was applied is taken back."""
        self.take_back()
        changed = [
            *self._not_as_they_were(),
            *self._taken(),
        ]
        if changed:
            return ChangedMeanwhile(list(dict.fromkeys(c.row[0] or "" for c in changed)))
        for action in _ORDER:
            refused = self._first_refused(action, self._of[action])
            if refused is not None:
                return refused
        return ChangedMeanwhile(())

    def why_unequal(self, after: Sequence[bytes], before: Sequence[bytes]) -> ReconcileError:
        """Why a span does not sum up to what it should, though all changes were applied.

        `after` are its lines with the changes, whose rows nobody else can have touched since;
        `before` its lines once they were taken back.
        """
        there = set(after)
        for change in self._changes():
            if change.after is not None and encode(change.after) not in there:
                return self._odd(change, f"it lacks {list(change.after)!r}")
        keys = {self._key(c.row): c for c in self._of[Action.REVOKE]}
        rows = {line: decode(line) for line in there} if keys else {}
        for row in rows.values():
            if self._key(row) in keys:
                return self._odd(keys[self._key(row)], f"it has {list(row)!r}")
        lost = set(encode_rows([c.before for c in self._changes() if c.before is not None]))
        gained = encode_rows([c.after for c in self._changes() if c.after is not None])
        odd = ((set(before) - lost) | set(gained)) ^ there
        return ChangedMeanwhile(sorted({decode(line)[0] or "" for line in odd}))

    # --- parts

    def _changes(self) -> Iterable[Change]:
        for action in _ORDER:
            yield from self._of[action]

    def _key(self, row: Row) -> tuple[str | None, ...]:
        return tuple(row[i] for i in self._table.schema.key)

    def _statement(
        self, action: Action, changes: Sequence[Change], *, tolerant: bool = True
    ) -> tuple[str, list[object]]:
        befores = [c.before for c in changes if c.before is not None]
        afters = [c.after for c in changes if c.after is not None]
        if action is Action.GRANT:
            return self._table.grant(afters, tolerant=tolerant)
        if action is Action.REVOKE:
            return self._table.revoke(befores)
        return self._table.update(befores, afters)

    def _not_as_they_were(self) -> list[Change]:
        changes = [*self._of[Action.REVOKE], *self._of[Action.UPDATE]]
        if not changes:
            return []
        befores = [c.before for c in changes if c.before is not None]
        return [changes[at - 1] for (at,) in self._session.rows(*self._table.changed(befores))]

    def _taken(self) -> list[Change]:
        """Grants whose key is there. Raises `AccountRefused` where it is out of scope."""
        changes = self._of[Action.GRANT]
        if not changes:
            return []
        found = self._session.rows(*self._table.taken([c.row for c in changes]))
        for at, in_scope in found:
            if not in_scope:
                raise self._refused(
                    changes[at - 1],
                    f"a row of that key is outside the scope {self._table.scope!r}",
                    "widen the target's scope, or settle whose row that is",
                )
        return [changes[at - 1] for at, _ in found]

    def _first_refused(self, action: Action, changes: Sequence[Change]) -> AccountRefused | None:
        """The refusal of the first change that cannot be made, found by halves; what is before
        it stays made."""
        last: int | psycopg.Error | None = None
        while changes:
            half = changes[: (len(changes) + 1) // 2]
            statement = self._statement(action, half, tolerant=False)
            found = self._session.attempt(*statement, len(half))
            if found is None:
                changes = changes[len(half) :]
                continue
            last, changes = found, half
            if len(half) == 1:
                break
        if last is None or not changes:
            return None
        if isinstance(last, psycopg.Error):
            text = fault_of(last, self._session.address).text
            return self._refused(changes[0], text, _MEND)
        return self._refused(
            changes[0],
            "the table ignores the change",
            "look for a trigger that returns NULL, or a rule",
        )

    def _refuse_unstorable(self) -> None:
        for change in self._changes():
            if change.after is None:
                continue
            for value in change.after:
                if value is not None and not _is_storable(value):
                    raise self._refused(
                        change,
                        f"{value!r} has a NUL or half of a surrogate pair, which PostgreSQL does"
                        " not keep",
                        "mend the row in the source",
                    )

    def _odd(self, change: Change, what: str) -> AccountRefused:
        return self._refused(
            change,
            f"the table does not hold what was written to it: {what}",
            "look for a trigger, a column whose type rounds or pads, or a scope that new rows are"
            " not in (give its columns a DEFAULT)",
        )

    def _refused(self, change: Change, why: str, hint: str) -> AccountRefused:
        return AccountRefused(
            f"{self._session.shown}, {named(change)}: {why}",
            account=change.row[0] or "",
            hint=hint,
        )


def _is_storable(value: str) -> bool:
    if value.isascii():
        return "\0" not in value
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value
