"""What an error of psycopg or the server is to whoever uses a Postgres store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.errors import (
    AccessDenied,
    ConfigError,
    ReconcileError,
    StoreBusy,
    StoreUnreachable,
    StoreUnusable,
)
from ..core.postgres.errors import Meaning, fault_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from .postgres_address import Address

_TRANSACTION_TIMEOUT = "25P04"
_NOT_THERE = "check that the server runs, and the address in [store] url"
_UNREACHABLE = {
    Meaning.SILENT: ("did not answer in time", "check the server and the network"),
    Meaning.UNREACHABLE: ("cannot be reached ({text})", _NOT_THERE),
    Meaning.READ_ONLY: (
        "takes no writes ({text}): it is a replica, or may only be read",
        "name the primary in [store] url; of several hosts the one that takes writes is used",
    ),
    Meaning.TOO_SLOW: ("cannot be reached ({text})", _NOT_THERE),
}


def gone(address: Address) -> StoreUnreachable:
    """The tables went away while the store was open."""
    return StoreUnreachable(
        f"the tables of the store {address.shown} are gone: the schema {address.schema} was "
        "dropped or renamed while the store was open",
        hint="bring them back; without, the next run makes new ones and goes on from what the "
        "target knows",
    )


def replaced(address: Address) -> StoreUnreachable:
    """Other tables stand where the store's were."""
    return StoreUnreachable(
        f"the store {address.shown} was wiped or replaced while it was open",
        hint="run again: the next run opens what is there now",
    )


def refusal(
    error: psycopg.Error, address: Address, *, in_doubt: bool = False, first: bool = False
) -> ReconcileError:
    """The refusal that a driver's error stands for. `in_doubt`: COMMIT had been sent. `first`:
    the store has not been open yet."""
    meaning, text, state = fault_of(error, address)
    if state == _TRANSACTION_TIMEOUT:
        return _too_short(address, first=first, in_doubt=in_doubt)
    unreachable = _UNREACHABLE.get(meaning)
    if unreachable is not None:
        words, hint = unreachable
        said = f"the store {address.shown} {words.format(text=text)}" + _doubt(in_doubt)
        return StoreUnreachable(said, hint=hint)
    known = _KNOWN.get(meaning)
    if known is not None:
        return known(text, address)
    return StoreUnusable(
        f"the store {address.shown} is damaged, or its tables were changed ({text}; SQLSTATE"
        f" {state})",
        hint="restore it from a copy, or name another schema in [store] url: a new store is "
        "created and goes on from what the target knows",
    )


def _too_short(address: Address, *, first: bool, in_doubt: bool) -> ReconcileError:
    """We lift that limit: one which ends a transaction before that is a few milliseconds."""
    said = f"the store {address.shown} ends each transaction at once: the transaction_timeout of"
    said += " this role or database is too short"
    hint = "ALTER ROLE … RESET transaction_timeout, and ALTER DATABASE likewise; show it: SHOW"
    hint += " transaction_timeout"
    if first:
        return ConfigError(f"[store] url: {said}", hint=hint)
    return StoreUnreachable(said + _doubt(in_doubt), hint=hint)


def _locked(text: str, address: Address) -> StoreBusy:
    return StoreBusy(
        f"the store {address.shown} is locked: somebody keeps a row or table of it",
        hint="see pg_stat_activity and pg_blocking_pids() for who it is",
    )


def _misconfigured(text: str, address: Address) -> ConfigError:
    return ConfigError(
        f"[store] url: the connection is not made as asked for: {text}",
        hint="see libpq's documentation of the url's options (sslmode, sslrootcert …)",
    )


def _denied(text: str, address: Address) -> AccessDenied:
    return AccessDenied(
        f"the store {address.shown} refuses this user or password ({text})",
        hint="check the user and the password in [store] url, PGPASSWORD or ~/.pgpass, and the "
        "server's pg_hba.conf",
    )


def _forbidden(text: str, address: Address) -> AccessDenied:
    """The user is known, and has no right to do this."""
    hint = 'the rights that are needed, as GRANT statements: python -c "from reconcile.stores.'
    hint += f"postgres import least_privileges as p; print(p({address.schema!r}, 'ROLE'))\""
    if "for database" in text:
        hint = "the first use makes the tables: let a role do that which has CREATE on the "
        hint += f"database, or let an administrator: CREATE SCHEMA {address.schema} "
        hint += "AUTHORIZATION this user"
    return AccessDenied(
        f"the store {address.shown} does not let this user do what a store needs ({text})",
        hint=hint,
    )


def _missing(text: str, address: Address) -> ConfigError:
    return ConfigError(
        f"[store] url: {text}", hint="create the database, or name another in the url"
    )


def _doubt(in_doubt: bool) -> str:
    return "; whether the last write was made is unknown" if in_doubt else ""


_KNOWN: dict[Meaning, Callable[[str, Address], ReconcileError]] = {
    Meaning.LOCKED: _locked,
    Meaning.GONE: lambda _, address: gone(address),
    Meaning.MISCONFIGURED: _misconfigured,
    Meaning.DENIED: _denied,
    Meaning.FORBIDDEN: _forbidden,
    Meaning.MISSING: _missing,
}
