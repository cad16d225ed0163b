"""The Redis store over TLS: whom it trusts, as whom it comes, and what is said otherwise."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from support.ports import free_port
from support.tls import certificates, tls_before
from support.valkey import fresh_url, start

from reconcile.cli.environment import SystemClock
from reconcile.core.errors import AccessDenied, ConfigError, StoreUnreachable
from reconcile.stores.registry import opener
from reconcile.stores.testing_support import A, cursor_at, grant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconcile.core.ports import Store


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server with an end of TLS before it, and with one that asks for certificates."""
    folder = tmp_path_factory.mktemp("certificates")
    certificates(folder)
    server = start(tmp_path_factory.mktemp("valkey"), tcp=True)
    with (
        tls_before(server.port, folder) as port,
        tls_before(server.port, folder, asks=True) as asking,
    ):
        yield SimpleNamespace(folder=folder, port=port, asking=asking, plain=server.port)
    server.terminate()


def opened(url: str, patience: float = 30.0) -> Store:
    host: Any = SimpleNamespace(holder=lambda: A)
    names: Any = SimpleNamespace(token=lambda: "5t0re")
    return opener(
        fresh_url(url), clock=SystemClock(), host=host, entropy=names, patience=patience
    )()


OURS = "?ca={folder}/ca.pem"
MINE = OURS + "&cert={folder}/client.pem&key={folder}/client.key"


@pytest.mark.parametrize(
    "url",
    [
        "rediss://localhost:{port}/1" + OURS,
        "valkeys://localhost:{port}/1" + OURS,
        "rediss://localhost:{asking}/1" + MINE,
    ],
)
def test_a_server_whose_certificate_our_authority_signed_is_a_store(place: Any, url: str) -> None:
    with closing(opened(url.format(**vars(place)))) as store:
        assert store.facts().location.startswith(url.partition("{")[0])
        assert str(place.folder) not in store.facts().location
        lease = grant(store, "r1")
        assert store.commit(lease.fence, 1, [cursor_at(1)])
        assert store.renew(lease.fence, 1).live


@pytest.mark.parametrize(
    ("url", "error", "says", "advises"),
    [
        ("rediss://localhost:{port}", ConfigError, "is not trusted", "?ca=FILE"),
        ("rediss://127.0.0.1:{port}" + OURS, ConfigError, "is for another host", "name the server"),
        ("rediss://localhost:{port}?ca={folder}/no", ConfigError, "No such file", "?ca="),
        ("rediss://localhost:{port}?ca={folder}/ca.key", ConfigError, "cannot be used", "PEM"),
        (
            "rediss://localhost:{asking}" + OURS + "&cert={folder}/client.pem&key={folder}/ca.key",
            ConfigError,
            "key values mismatch",
            "the key of that certificate",
        ),
        ("rediss://localhost:{asking}" + OURS, AccessDenied, "asks for a certificate", "cert"),
        ("redis://localhost:{port}", StoreUnreachable, "cannot be reached", "rediss://"),
        ("rediss://localhost:{plain}" + OURS, StoreUnreachable, "in time", "speaks TLS"),
        ("rediss://localhost:{closed}" + OURS, StoreUnreachable, "refused", "runs"),
    ],
)
def test_each_thing_that_may_be_wrong_is_told_apart(
    place: Any, url: str, error: type[Exception], says: str, advises: str
) -> None:
    waits = "{plain}" in url
    with pytest.raises(error) as refused:
        opened(url.format(**vars(place), closed=free_port()), patience=0.6 if waits else 30.0)
    assert says in str(refused.value)
    assert advises in refused.value.hint  # type: ignore[attr-defined]
    assert str(Path(place.folder)) not in str(refused.value)
