"""What is particular about each database: how it is addressed, begun, and what its errors mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
    StatementError,
)
from sqlalchemy.pool import NullPool

from ...errors import AccessDenied, ConfigError, ReconcileError, SourceUnreachable, SourceUnusable
from ...masking import server_shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import URL, Connection, Engine

CONNECT_SECONDS = 20
LOOK_AT_QUERY = "look at the source's query, table, scope and columns"
LOOK_AT_SERVER = "check that the server runs, and the source's url"
LOOK_AT_RIGHTS = "let this user read what the source names, or name another user in the url"


class Dialect(Protocol):
    """One database at one address."""

    shown: str
    errors: tuple[type[Exception], ...]
    quotes: bool
    """Whether a name in quotes is the same as without."""

    def connect(self) -> Connection:
        """A connection of its own."""
        ...

    def begin(self, connection: Connection) -> None:
        """Begin a read-only transaction that has time, and speaks plainly."""
        ...

    def mend(self, columns: Sequence[tuple[str, Any]]) -> dict[int, Callable[[Any], Any]]:
        """What a driver gives otherwise than it is, by position, from names and types."""
        ...

    def refusal(self, error: Exception) -> ReconcileError:
        """What an error of this database is to us."""
        ...

    def interrupt(self, driver: Any) -> None:
        """Break off what another thread does on a connection of the driver's."""
        ...

    def abandon(self, driver: Any) -> None:
        """No more rows of it are wanted, or will come; to close it must not wait for them."""
        ...

    def notes(self) -> list[str]:
        """What a person ought to know of it."""
        ...


def dialect_of(url: str, setting: str = "source.url") -> Dialect:
    """The database at a normalised address whose placeholders are filled in. Raises
    `ConfigError`."""
    kind = url.partition(":")[0].lower()
    if kind == "sqlite":
        from .sqlite import Sqlite

        return Sqlite(url)
    if kind in ("postgresql", "postgres", "postgresql+psycopg"):
        from .postgres import Postgres

        return Postgres(url, setting)
    if kind.partition("+")[0] in ("mysql", "mariadb"):
        from .mysql import MySql

        return MySql(url, setting)
    return Other(url, setting)


class Other:
    """Any database that SQLAlchemy reaches. Implements `Dialect`."""

    errors: tuple[type[Exception], ...] = (SQLAlchemyError, UnicodeError, OSError)
    """Drivers raise some of their own too."""
    quotes = False

    def __init__(self, url: str, setting: str) -> None:
        self.shown = server_shown(url)
        self._secret = unquote(url.partition("://")[2].rpartition("@")[0].partition(":")[2])
        try:
            self._engine = self.engine(make_url(url))
        except NoSuchModuleError as error:
            raise ConfigError(
                f"{setting}: SQLAlchemy knows no database {url.partition(':')[0]}",
                hint="look whether its driver's package is installed beside reconcile",
            ) from error
        except (ArgumentError, ValueError) as error:
            raise ConfigError(
                f"{setting}: SQLAlchemy cannot read this address",
                hint="write DATABASE://USER@HOST:PORT/NAME; in a password / @ : and % are"
                " percent-encoded",
            ) from error
        except ImportError as error:
            raise ConfigError(
                f"{setting}: the driver {error.name} is not installed",
                hint="install it into the Python of reconcile",
            ) from error

    def engine(self, url: URL) -> Engine:
        """What makes connections; connects to nothing yet."""
        return create_engine(url, poolclass=NullPool, hide_parameters=True)

    def connect(self) -> Connection:
        """See `Dialect`."""
        return self._engine.connect()

    def begin(self, connection: Connection) -> None:
        """See `Dialect`. One statement is one snapshot."""

    def mend(self, columns: Sequence[tuple[str, Any]]) -> dict[int, Callable[[Any], Any]]:
        """See `Dialect`."""
        return {}

    def refusal(self, error: Exception) -> ReconcileError:
        """See `Dialect`. What DB-API calls operational is not the query's fault."""
        said = self.said(error)
        if isinstance(error, OperationalError | InterfaceError | OSError) or lost(error):
            return self.unreachable(said)
        return self.unusable(said)

    def interrupt(self, driver: Any) -> None:
        """See `Dialect`."""

    def abandon(self, driver: Any) -> None:
        """See `Dialect`."""

    def notes(self) -> list[str]:
        """See `Dialect`."""
        return []

    def said(self, error: Exception) -> str:
        """The driver's own words in one line, without the password."""
        origin = error.orig if isinstance(error, StatementError) and error.orig else error
        words = origin.args[-1] if origin.args and isinstance(origin.args[-1], str) else origin
        text = " ".join(str(words).split()) or type(origin).__name__
        return text.replace(self._secret, "…") if self._secret else text

    def unreachable(self, said: str) -> SourceUnreachable:
        """It is away, or broke off."""
        return SourceUnreachable(f"{self.shown} cannot be read: {said}", hint=LOOK_AT_SERVER)

    def unusable(self, said: str) -> SourceUnusable:
        """It does not know what it is asked for."""
        return SourceUnusable(f"{self.shown}: {said}", hint=LOOK_AT_QUERY)

    def denied(self, said: str) -> AccessDenied:
        """It does not let this user do that."""
        return AccessDenied(f"{self.shown} refuses this user: {said}", hint=LOOK_AT_RIGHTS)


def lost(error: Exception) -> bool:
    """Whether the connection broke off."""
    return isinstance(error, DBAPIError) and error.connection_invalidated
