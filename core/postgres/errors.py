"""What psycopg and the server say, told apart by what it means to us.

An established connection gives a SQLSTATE. A connection that was never made gives libpq's
text only, so that is looked at: in English, which is what servers say before they know a
session's language; another language is taken for "cannot be reached", with the text shown.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

import psycopg

if TYPE_CHECKING:
    from .address import Reachable


class NoAnswer(psycopg.OperationalError):
    """Nothing came within the time that there was."""


class Meaning(Enum):
    """What an error is to us."""

    SILENT = auto()
    """No answer in time."""
    UNREACHABLE = auto()
    """No server, none that takes connections, or it broke off."""
    READ_ONLY = auto()
    """The server takes no writes: it is a replica, or has become one."""
    TOO_SLOW = auto()
    """The server ended a statement that took longer than it might."""
    LOCKED = auto()
    """Somebody else's lock was not had in time."""
    UNDONE = auto()
    """The server undid the transaction for another's sake: to be tried again."""
    DENIED = auto()
    """User or password are refused."""
    FORBIDDEN = auto()
    """The user is known, and lacks a right."""
    MISSING = auto()
    """There is no such database."""
    MISCONFIGURED = auto()
    """The connection cannot be made as the address says."""
    GONE = auto()
    """A table or schema is not there (any more)."""
    ROW = auto()
    """A value or row is refused: its type, a constraint, a trigger."""
    OTHER = auto()
    """Anything else: what stands there is not what we take it for."""


class Fault(NamedTuple):
    """An error's meaning, in one line of words without the password, and its SQLSTATE."""

    meaning: Meaning
    text: str
    state: str | None


_PREFIX = re.compile(
    r"^connection (failed|is bad): |connection to server (at|on) .*? failed: |(FATAL|ERROR): +"
)
_LOST = ("08", "57P", "58")
_READ_ONLY = "25006"
_LOST_STATES = frozenset({_READ_ONLY, "25P03", "25P04"})
"""The server became a replica; it ended a transaction that was silent, or took too long."""
_UNDONE = ("40001", "40P01")
_PROTOCOL = "08P01"
"""A statement and its values do not fit: the connection is as good as before, unless it is said
to be fatal. PgBouncer ends sessions so, whatever the reason is."""
_FATAL = ("FATAL", "PANIC")
_LONG = 8
"""Letters of a password that is no part of a message by chance."""
_BY_STATE = (
    ("55P03", Meaning.LOCKED),
    ("57014", Meaning.TOO_SLOW),
    *((state, Meaning.UNDONE) for state in _UNDONE),
    ("42501", Meaning.FORBIDDEN),
    ("42P01", Meaning.GONE),
    ("3F000", Meaning.GONE),
    ("3D000", Meaning.MISSING),
    ("28", Meaning.DENIED),
    ("53", Meaning.UNREACHABLE),
    ("22", Meaning.ROW),
    ("23", Meaning.ROW),
    ("44000", Meaning.ROW),
    ("P0", Meaning.ROW),
)
_BY_TEXT = (
    ("too many connections for", Meaning.UNREACHABLE),
    ("session is read-only", Meaning.READ_ONLY),
    ("server is in hot standby mode", Meaning.READ_ONLY),
    ("no such database", Meaning.MISSING),
    ("password authentication failed", Meaning.DENIED),
    ("authentication failed", Meaning.DENIED),
    ("no password supplied", Meaning.DENIED),
    ("no pg_hba.conf entry", Meaning.DENIED),
    ("pg_hba.conf rejects", Meaning.DENIED),
    ("permission denied", Meaning.DENIED),
    ("is not permitted to log in", Meaning.DENIED),
    ("no such user", Meaning.DENIED),
    ('role "', Meaning.DENIED),
    (' value: "', Meaning.MISCONFIGURED),
    ("invalid integer value", Meaning.MISCONFIGURED),
    ("invalid port number", Meaning.MISCONFIGURED),
    ("unrecognized configuration parameter", Meaning.MISCONFIGURED),
    ("could not match", Meaning.MISCONFIGURED),
    ("definition of service", Meaning.MISCONFIGURED),
    ("service file", Meaning.MISCONFIGURED),
    ("does not support SSL", Meaning.MISCONFIGURED),
    ("root certificate file", Meaning.MISCONFIGURED),
    ("certificate verify failed", Meaning.MISCONFIGURED),
    ("server certificate for", Meaning.MISCONFIGURED),
)


def is_lost(error: BaseException | None) -> bool:
    """Whether the connection is gone, or of no more use."""
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    if state == _PROTOCOL:
        return (error.diag.severity_nonlocalized or error.diag.severity) in _FATAL
    return state in _LOST_STATES or state.startswith(_LOST)


def is_undone(error: psycopg.Error) -> bool:
    """Whether the server undid the transaction for another's sake: to be tried again."""
    return error.sqlstate in _UNDONE


def fault_of(error: psycopg.Error, address: Reachable) -> Fault:
    """What a driver's error means."""
    said = _said(error)
    text = _without_secrets(said, address)
    state = error.sqlstate
    if isinstance(error, NoAnswer | psycopg.errors.ConnectionTimeout):
        return Fault(Meaning.SILENT, text, state)
    if is_lost(error) and state is not None:
        what = Meaning.READ_ONLY if state == _READ_ONLY else Meaning.UNREACHABLE
        return Fault(what, text, state)
    if state is not None:
        found = next((what for start, what in _BY_STATE if state.startswith(start)), None)
        return Fault(found or Meaning.OTHER, text, state)
    if not isinstance(error, psycopg.OperationalError):
        # psycopg's own refusal of a value, before anything was sent.
        return Fault(
            Meaning.ROW if isinstance(error, psycopg.DataError) else Meaning.OTHER, text, state
        )
    if 'database "' in said and "does not exist" in said:
        return Fault(Meaning.MISSING, text, state)
    found = next((what for known, what in _BY_TEXT if known in said), None)
    return Fault(found or Meaning.UNREACHABLE, text, state)


def _said(error: psycopg.Error) -> str:
    """What was said, in one line."""
    said = error.diag.message_primary or str(error)
    return _PREFIX.sub("", said.strip().partition("\n")[0])


def _without_secrets(text: str, address: Reachable) -> str:
    """The same without the password. A short one is a part of many words, where leaving it out
    would tell it; it is looked for as a word of its own."""
    parts = psycopg.conninfo.conninfo_to_dict(address.conninfo)
    for name in ("password", "sslpassword"):
        secret = str(parts.get(name) or "")
        if len(secret) >= _LONG:
            text = text.replace(secret, "…")
        elif secret:
            begin = r"(?<!\w)" if re.match(r"\w", secret) else ""
            end = r"(?!\w)" if re.search(r"\w\Z", secret) else ""
            text = re.sub(begin + re.escape(secret) + end, "…", text)
    return text
