"""MySQL and MariaDB as the source, through PyMySQL unless the address names another driver."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from ...errors import ConfigError, SourceUnusable
from .dialects import CONNECT_SECONDS, Other, lost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import URL, Connection, Engine

    from ...errors import ReconcileError

_FLOAT, _TIMESTAMP, _BIT = 4, 7, 16
"""Types of columns in the protocol."""
_DENIED = frozenset((1044, 1045, 1095, 1130, 1142, 1143, 1227, 1370, 1698, 3118, 4151))
_AWAY = frozenset(
    (
        *(1040, 1053, 1077, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1205, 1213, 1226, 1317, 1927),
        *(1969, 2002, 2003, 2006, 2013, 2014, 2027, 2055, 3024, 4031),
    )
)
"""No server, none that takes connections, one that broke off, or whose locks were not had."""
_NO_DATABASE = (1046, 1049)
_BEGIN = (
    "SET SESSION time_zone = '+00:00'",
    # A limit that an administrator set for people would be a list cut short, and no error.
    "SET SESSION sql_select_limit = 18446744073709551615",
    "SET SESSION net_write_timeout = 3600",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION READ ONLY",
)


class MySql(Other):
    """Implements `dialects.Dialect`."""

    quotes = True

    def engine(self, url: URL) -> Engine:
        """See `Other`."""
        if "+" not in url.drivername:
            url = url.set(drivername=f"{url.drivername}+pymysql")
        arguments: dict[str, Any] = {}
        if url.drivername.endswith("+pymysql"):
            # Of any other charset the server would write what it lacks as a question mark.
            arguments = {"charset": "utf8mb4", "connect_timeout": CONNECT_SECONDS}
        return create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=arguments)

    def begin(self, connection: Connection) -> None:
        """See `Other`."""
        is_mariadb = getattr(connection.dialect, "is_mariadb", False)
        limit = "max_statement_time" if is_mariadb else "max_execution_time"
        for statement in (*_BEGIN, f"SET SESSION {limit} = 0"):
            connection.exec_driver_sql(statement)
        # What stands open since the first of them is not read only yet.
        connection.rollback()

    def mend(self, columns: Sequence[tuple[str, Any]]) -> dict[int, Callable[[Any], Any]]:
        """See `Other`. Raises `SourceUnusable`."""
        narrow = next((name for name, kind in columns if kind == _FLOAT), None)
        if narrow is not None:
            raise SourceUnusable(
                f"{self.shown}: column {narrow} is FLOAT, of which six digits are given over",
                hint=f"take CAST({narrow} AS DOUBLE) AS {narrow} in the query",
            )
        known = {_TIMESTAMP: _instant, _BIT: _number}
        return {at: known[kind] for at, (_, kind) in enumerate(columns) if kind in known}

    def refusal(self, error: Exception) -> ReconcileError:
        """See `Other`."""
        said = self.said(error)
        origin = getattr(error, "orig", None)
        code = origin.args[0] if origin is not None and origin.args else None
        if code in _DENIED:
            return self.denied(said)
        if code in _NO_DATABASE:
            return ConfigError(f"source.url: {said}", hint="name the database in the url")
        if code in _AWAY or lost(error) or not isinstance(code, int) or code == 0:
            return self.unreachable(said)
        return self.unusable(said)

    def interrupt(self, driver: Any) -> None:
        """See `Other`. To close it would wait for whoever reads from it."""
        _forget_rows(driver)
        socket = getattr(driver, "_sock", None)
        if socket is not None:
            with suppress(OSError):
                socket.shutdown(SHUT_RDWR)

    def abandon(self, driver: Any) -> None:
        """See `Other`. PyMySQL would read all rows that are left, or fail aloud to."""
        if _forget_rows(driver):
            driver._force_close()


def _forget_rows(driver: Any) -> bool:
    """Have PyMySQL take its result for read to its end; whether it was not."""
    result = getattr(driver, "_result", None)
    if result is None or not getattr(result, "unbuffered_active", False):
        return False
    result.unbuffered_active = False
    return True


def _instant(value: Any) -> Any:
    """A TIMESTAMP is an instant, which the session shows in UTC."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def _number(value: Any) -> Any:
    return int.from_bytes(value, "big") if isinstance(value, bytes) else value
