"""Who the caller is: a header that goes with each call.

An OAuth token (client credentials, RFC 6749 section 4.4) is had when the first call needs it,
and once more when the API refuses it, which it does when the token is over. It is kept in
memory only.
"""

from __future__ import annotations

from base64 import b64encode
from json import JSONDecodeError
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, urlencode

from ...errors import AccessDenied, SourceUnreachable
from ..json_text import Refused, whole_text
from .client import Unanswered, shown, unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...http_config import AuthConfig
    from .client import Client, Reply


class Auth:
    """The headers of one source's calls."""

    def __init__(self, config: AuthConfig | None, client: Client) -> None:
        self._config = config
        self._client = client
        self._token: str | None = None

    def headers(self) -> Mapping[str, str]:
        """What goes with each call, after `prepare`."""
        config = self._config
        if config is None:
            return {}
        if config.kind == "basic":
            return {"Authorization": _basic(config.name, config.secret)}
        if config.kind == "header":
            return {config.name: config.secret}
        token = config.secret if config.kind == "bearer" else self._token
        return {"Authorization": f"Bearer {token}"}

    def prepare(self) -> None:
        """Have a token where one is needed. Raises `AccessDenied`, `SourceUnreachable`."""
        config = self._config
        if config is None or config.kind != "oauth" or self._token is not None:
            return
        form = {"grant_type": "client_credentials"}
        if config.scope is not None:
            form["scope"] = config.scope
        headers = {
            "Authorization": _basic(quote_plus(config.name), quote_plus(config.secret)),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        try:
            reply = self._client.post(config.token_url, headers, urlencode(form).encode())
        except Unanswered as error:
            raise unreachable(config.token_url, str(error)) from error
        self._token = _token(config.token_url, reply)

    def renew(self) -> None:
        """The token was refused: have another for the next call."""
        self._token = None


def _token(url: str, reply: Reply) -> str:
    if reply.status >= 500:
        raise SourceUnreachable(
            f"{shown(url)} answers {reply.status}", hint="look whether it is up"
        )
    try:
        said = whole_text(reply.body.decode())
        token = said["access_token"]
        if reply.status == 200 and isinstance(token, str) and token.isprintable():
            return token
    except (UnicodeDecodeError, JSONDecodeError, Refused, KeyError, TypeError, RecursionError):
        pass
    raise AccessDenied(
        f"{shown(url)} answers {reply.status} and gives no access_token",
        hint="look at source.auth: token_url, client_id, client_secret and scope",
    )


def _basic(name: str, secret: str) -> str:
    return "Basic " + b64encode(f"{name}:{secret}".encode()).decode()
