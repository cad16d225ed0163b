"""What an error of a PostgreSQL target is to us: who is to do what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import (
    AccessDenied,
    ConfigError,
    ReconcileError,
    TargetLocked,
    TargetUnreachable,
    TargetUnusable,
)
from ..postgres.errors import Meaning, fault_of

if TYPE_CHECKING:
    import psycopg

    from ..postgres.address import Address
    from ..postgres.errors import Fault


def refusal(error: psycopg.Error, address: Address, what: str = "") -> ReconcileError:
    """What an error of psycopg is to us; `what` says to which row it happened."""
    fault = fault_of(error, address)
    where = f"{address.shown}{what}"
    meaning = fault.meaning
    if meaning is Meaning.LOCKED:
        return TargetLocked(
            f"{where} is locked by another session",
            hint="find it with: SELECT pid, pg_blocking_pids(pid), usename, query FROM"
            " pg_stat_activity",
        )
    if meaning is Meaning.FORBIDDEN:
        return AccessDenied(
            f"{where} does not let this role do what is needed: {fault.text}",
            hint="see the rights that the manual lists for a target in PostgreSQL",
        )
    found = _OF_CONNECTION.get(meaning)
    if found is not None:
        kind, words, hint = found
        return kind(words.format(where=where, text=fault.text), hint=hint)
    return TargetUnusable(f"{where}: {fault.text}{_state(fault)}", hint=_LOOK)


_LOOK = "look at the table, its columns and triggers"
_NOT_THERE = "check that the server runs, and the address in target.url"
_OF_CONNECTION: dict[Meaning, tuple[type[ReconcileError], str, str]] = {
    Meaning.SILENT: (
        TargetUnreachable,
        "{where} did not answer in time",
        "check the server and the network",
    ),
    Meaning.UNREACHABLE: (TargetUnreachable, "{where} cannot be reached: {text}", _NOT_THERE),
    Meaning.READ_ONLY: (
        TargetUnreachable,
        "{where} takes no writes: it is a replica, or may only be read ({text})",
        "name the primary in target.url: what a replica shows may be old, and is not acted on",
    ),
    Meaning.TOO_SLOW: (
        TargetUnreachable,
        "{where} was too slow: {text}",
        "see what else the server does; a longer lease.ttl or a smaller range_size leave more time",
    ),
    Meaning.UNDONE: (
        TargetUnreachable,
        "{where}: {text}",
        "another program writes to the same rows in another order; the next run tries again",
    ),
    Meaning.DENIED: (
        AccessDenied,
        "{where} refuses this user or password: {text}",
        "check the user and the password in target.url, PGPASSWORD or ~/.pgpass, and the"
        " server's pg_hba.conf",
    ),
    Meaning.MISSING: (
        ConfigError,
        "target.url: {text}",
        "create the database, or name another in the url",
    ),
    Meaning.MISCONFIGURED: (
        ConfigError,
        "target.url: the connection is not made as asked for: {text}",
        "see libpq's documentation of the url's options (sslmode, sslrootcert …)",
    ),
}


def _state(fault: Fault) -> str:
    return f" (SQLSTATE {fault.state})" if fault.state and fault.meaning is Meaning.OTHER else ""
