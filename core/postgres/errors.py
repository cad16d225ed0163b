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
"""A statement and its values do not fit: the connection is as good as before."""
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
    return state != _PROTOCOL and (state in _LOST_STATES or state.startswith(_LOST))


def is_undone(error: psycopg.Error) -> bool:
    """Whether the server undid the transaction for another's sake: to be tried again."""
    return error.sqlstate in _UNDONE


def fault_of(error: psycopg.Error, address: Reachable) -> Fault:
    """What a driver's error means."""
    text = _words(error, address)
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
    if 'database "' in text and "does not exist" in text:
        return Fault(Meaning.MISSING, text, state)
    found = next((what for known, what in _BY_TEXT if known in text), None)
    return Fault(found or Meaning.UNREACHABLE, text, state)


def _words(error: psycopg.Error, address: Reachable) -> str:
    """What was said, in one line and without the password."""
    said = error.diag.message_primary or str(error)
    text = _PREFIX.sub("", said.strip().partition("\n")[0])
    secrets = psycopg.conninfo.conninfo_to_dict(address.conninfo)
    for name in ("password", "sslpassword"):
        secret = secrets.get(name)
        if secret:
            text = text.replace(str(secret), "…")
    return text
