"""What psycopg and the server say, as our own refusals.

An established connection gives a SQLSTATE. A connection that was never made gives libpq's
text only, so that is looked at: in English, which is what servers say before they know a
session's language; another language is taken for "cannot be reached", with the text shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg

from ..core.errors import (
    AccessDenied,
    ConfigError,
    ReconcileError,
    StoreBusy,
    StoreUnreachable,
    StoreUnusable,
)

if TYPE_CHECKING:
    from .postgres_address import Address


class NoAnswer(psycopg.OperationalError):
    """Nothing came within the time that a method has."""


_PREFIX = re.compile(
    r"^connection (failed|is bad): |connection to server (at|on) .*? failed: |(FATAL|ERROR): +"
)
_LOST = ("08", "57P", "58")
_LOST_STATES = frozenset({"25006", "25P03", "25P04"})
"""The server became a standby; it ended a transaction that was silent, or took too long."""
_UNREACHABLE = (*_LOST, "53", "57014")
"""Also: no more room on the server, a statement that took too long."""
_FORBIDDEN = "42501"
_GONE = frozenset({"42P01", "3F000"})
_UNDONE = frozenset({"40001", "40P01"})
_DENIED_TEXTS = (
    "password authentication failed",
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "pg_hba.conf rejects",
    "permission denied",
    "is not permitted to log in",
    "certificate authentication failed",
    "no such user",
    'role "',
)
_MISSING_TEXTS = ("no such database",)
_CONFIGURED_TEXTS = (
    ' value: "',
    "does not support SSL",
    "root certificate file",
    "certificate verify failed",
    "server certificate for",
)
_NOT_THERE = "check that the server runs, and the address in [store] url"


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, or of no more use."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state in _LOST_STATES or state.startswith(_LOST)


def is_undone(error: psycopg.Error) -> bool:
    """Whether the server undid the transaction for another's sake: to be tried again."""
    return error.sqlstate in _UNDONE


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


def refusal(error: psycopg.Error, address: Address, *, in_doubt: bool = False) -> ReconcileError:
    """The refusal that a driver's error stands for. `in_doubt`: COMMIT had been sent."""
    if isinstance(error, NoAnswer | psycopg.errors.ConnectionTimeout):
        return StoreUnreachable(
            f"the store {address.shown} did not answer in time" + _doubt(in_doubt),
            hint="check the server and the network",
        )
    text = _words(error, address)
    if error.sqlstate is None:
        return _unconnected(text, address, in_doubt)
    return _refused(error.sqlstate, text, address, in_doubt)


def _refused(state: str, text: str, address: Address, in_doubt: bool) -> ReconcileError:
    """What the SQLSTATE of a connection once made says."""
    where = address.shown
    if state == "55P03":
        return StoreBusy(
            f"the store {where} is locked: somebody keeps a row or table of it",
            hint="see pg_stat_activity and pg_blocking_pids() for who it is",
        )
    if state in _GONE:
        return gone(address)
    if state.startswith(("28", _FORBIDDEN)):
        return (_forbidden if state == _FORBIDDEN else _denied)(text, address)
    if state == "3D000":
        return _missing(text)
    if state.startswith(_UNREACHABLE) or state in _LOST_STATES:
        return StoreUnreachable(
            f"the store {where} cannot be reached ({text})" + _doubt(in_doubt), hint=_NOT_THERE
        )
    return StoreUnusable(
        f"the store {where} is damaged, or its tables were changed ({text}; SQLSTATE {state})",
        hint="restore it from a copy, or name another schema in [store] url: a new store is "
        "created and goes on from what the target knows",
    )


def _unconnected(text: str, address: Address, in_doubt: bool) -> ReconcileError:
    """What libpq's words about a connection that was not made, or broke, say."""
    if any(known in text for known in _MISSING_TEXTS) or (
        'database "' in text and "does not exist" in text
    ):
        return _missing(text)
    if any(known in text for known in _DENIED_TEXTS):
        return _denied(text, address)
    if any(known in text for known in _CONFIGURED_TEXTS):
        return ConfigError(
            f"[store] url: the connection is not made as asked for: {text}",
            hint="see libpq's documentation of the url's options (sslmode, sslrootcert …)",
        )
    return StoreUnreachable(
        f"the store {address.shown} cannot be reached ({text})" + _doubt(in_doubt),
        hint=_NOT_THERE,
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


def _missing(text: str) -> ConfigError:
    return ConfigError(
        f"[store] url: {text}", hint="create the database, or name another in the url"
    )


def _words(error: psycopg.Error, address: Address) -> str:
    """What was said, in one line and without the password."""
    said = error.diag.message_primary or str(error)
    text = _PREFIX.sub("", said.strip().partition("\n")[0])
    secrets = psycopg.conninfo.conninfo_to_dict(address.conninfo)
    for name in ("password", "sslpassword"):
        secret = secrets.get(name)
        if secret:
            text = text.replace(str(secret), "…")
    return text


def _doubt(in_doubt: bool) -> str:
    return "; whether the last write was made is unknown" if in_doubt else ""
