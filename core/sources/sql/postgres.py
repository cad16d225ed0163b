"""A PostgreSQL server as the source. A replica may be one: what it shows is a snapshot too."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from ...errors import ConfigError
from ...extras import install
from .dialects import CONNECT_SECONDS, Other

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

    from ...errors import ReconcileError

_BEGIN = (
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL DateStyle = 'ISO, YMD'",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL extra_float_digits = 1",
    "SET LOCAL bytea_output = 'hex'",
    "SET LOCAL cursor_tuple_fraction = 1",
)
"""In the transaction only, so that PgBouncer may give it any session. All rows are wanted, not the
first ones soon."""
_CANCEL_SECONDS = 2.0
_COLLATION = (
    "SELECT datname, datcollversion, pg_catalog.pg_database_collation_actual_version(oid)"
    " FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
)
_WITH_VERSIONS = (15,)


class Postgres(Other):
    """Implements `dialects.Dialect`."""

    quotes = True

    def __init__(self, url: str, setting: str) -> None:
        try:
            from ...postgres.address import PATIENT, read_address
        except ImportError as error:
            raise ConfigError(
                "a PostgreSQL source needs psycopg, which is not installed",
                hint=install("postgres"),
            ) from error
        plain = url.partition(":")[2]
        any_host = {**PATIENT, "target_session_attrs": "any"}
        self._address = read_address(f"postgresql:{plain}", setting, any_host)
        super().__init__("postgresql+psycopg://", setting)
        self.shown = self._address.shown

    def engine(self, url: URL) -> Engine:
        """See `Other`."""
        return create_engine(
            url,
            creator=self._connected,
            poolclass=NullPool,
            hide_parameters=True,
            isolation_level="REPEATABLE READ",
        )

    def begin(self, connection: Connection) -> None:
        """See `Other`."""
        connection.execution_options(postgresql_readonly=True)
        for statement in _BEGIN:
            connection.exec_driver_sql(statement)

    def refusal(self, error: Exception) -> ReconcileError:
        """See `Other`."""
        from psycopg import Error

        from ...postgres.errors import Meaning, fault_of

        origin = getattr(error, "orig", None)
        if not isinstance(origin, Error):
            return super().refusal(error)
        fault = fault_of(origin, self._address)
        if fault.meaning in (Meaning.DENIED, Meaning.FORBIDDEN):
            return self.denied(fault.text)
        if fault.meaning in (Meaning.MISSING, Meaning.MISCONFIGURED):
            return ConfigError(
                f"source.url: {fault.text}",
                hint="see the address: the name of the database, and libpq's options",
            )
        if fault.meaning in (Meaning.GONE, Meaning.ROW, Meaning.OTHER):
            return self.unusable(fault.text)
        return self.unreachable(fault.text)

    def interrupt(self, driver: Any) -> None:
        """See `Other`."""
        from psycopg import Error

        if driver is not None:
            with suppress(Error):  # a courtesy to the server
                driver.cancel_safe(timeout=_CANCEL_SECONDS)

    def notes(self) -> list[str]:
        """See `Other`. An index that a new C library has made wrong misses rows, whoever asks."""
        with self.connect() as connection:
            if (connection.dialect.server_version_info or ()) < _WITH_VERSIONS:
                return []
            (name, was, now) = connection.exec_driver_sql(_COLLATION).one()
        return collation_notes(self.shown, name, was, now)

    def _connected(self) -> Any:
        import psycopg

        from .postgres_values import register

        connection: psycopg.Connection[Any] = psycopg.connect(
            self._address.conninfo, connect_timeout=CONNECT_SECONDS, prepare_threshold=None
        )
        register(connection.adapters)
        return connection


def collation_notes(shown: str, name: str, was: str | None, now: str | None) -> list[str]:
    """What to say of a database whose collation was made by a version, where the server has one."""
    if was is None or now is None or was == now:
        return []
    return [
        f"{shown}: the collation of database {name} was made by version {was}, and the"
        f" server has {now}: look-ups by an index on text may miss rows until it is made anew"
    ]
