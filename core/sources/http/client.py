"""One GET over HTTP, and nothing more: no retry, no redirect, no cookie, no proxy.

urllib3 is asked for all of it. It checks that as many bytes came as the server said, so that
a body which was cut is an error and not a short list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...errors import ConfigError, SourceUnreachable
from ...extras import install
from ...masking import mask_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from urllib3 import PoolManager

LONGEST = 64 << 20
"""Bytes that an answer may have, unpacked."""


class Reply(NamedTuple):
    """An answer, whatever its status; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unanswered(Exception):
    """No whole answer came; says why."""


class Client:
    """Connections to one API; may be used by several threads."""

    def __init__(self, timeout: float, connections: int) -> None:
        """`timeout` in seconds: so long may a connection be made, or be silent. Raises
        `ConfigError` where the extra is not installed."""
        try:
            import urllib3
        except ImportError as error:
            raise ConfigError(
                "an HTTP source needs urllib3, which is not installed", hint=install("http")
            ) from error
        self._errors = urllib3.exceptions.HTTPError
        self._pool: PoolManager = urllib3.PoolManager(
            num_pools=2,
            maxsize=connections,
            block=False,
            retries=False,
            timeout=urllib3.Timeout(connect=timeout, read=timeout),
        )

    def get(self, url: str, headers: Mapping[str, str]) -> Reply:
        """GET. Raises `Unanswered`."""
        return self._send("GET", url, headers, None)

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """POST; for tokens. Raises `Unanswered`."""
        return self._send("POST", url, headers, body)

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        try:
            answer = self._pool.request(
                method,
                url,
                headers=dict(headers),
                body=body,
                redirect=False,
                preload_content=False,
            )
            try:
                data = _read(answer)
            except BaseException:
                answer.close()
                raise
            answer.release_conn()
        except self._errors as error:
            raise Unanswered(_why(error)) from error
        except (OSError, ValueError) as error:
            raise Unanswered(str(error) or type(error).__name__) from error
        found = {name.lower(): value for name, value in answer.headers.items()}
        return Reply(answer.status, found, data)

    def close(self) -> None:
        """Close all connections. Harmless when repeated."""
        self._pool.clear()


def _read(answer: object) -> bytes:
    parts, size = [], 0
    for part in answer.stream(1 << 16, decode_content=True):  # type: ignore[attr-defined]
        size += len(part)
        if size > LONGEST:
            raise ValueError(f"the answer is longer than {LONGEST:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _why(error: BaseException) -> str:
    """An error of urllib3 without the objects it prints."""
    names = {
        "ConnectTimeoutError": "no connection was made in time",
        "ReadTimeoutError": "it was silent for too long",
        "IncompleteRead": "the answer was cut short",
        "NameResolutionError": "its name is not known",
    }
    cause: BaseException | None = error
    told = ""
    while cause is not None:
        name = type(cause).__name__
        if name in names:
            return names[name]
        if isinstance(cause, OSError) and cause.strerror:
            told = cause.strerror
        inner = next((arg for arg in reversed(cause.args) if isinstance(arg, Exception)), None)
        cause = inner or getattr(cause, "reason", None) or cause.__cause__
        if not isinstance(cause, BaseException):
            break
    return told or type(error).__name__


def unreachable(url: str, why: str) -> SourceUnreachable:
    """What to say of an address that gives no answer."""
    return SourceUnreachable(
        f"{shown(url)} does not answer: {why}",
        hint="look whether the API is up, and the source's url, rate and timeout",
    )


def shown(url: str) -> str:
    """An address for messages: what stands in its query may be a secret, or a person."""
    return mask_address(url.partition("?")[0])
