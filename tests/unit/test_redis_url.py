"""Addresses of Redis and Valkey stores."""

from __future__ import annotations

import pytest

from reconcile.core.errors import ConfigError
from reconcile.stores.redis_url import SCHEMES, parse

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "location", "nodes", "database"),
    [
        ("redis://h", "redis://h:6379/0", [("h", 6379)], 0),
        ("valkey://h:7000/3", "valkey://h:7000/3", [("h", 7000)], 3),
        ("REDISS://h/", "rediss://h:6379/0", [("h", 6379)], 0),
        ("redis://", "redis://localhost:6379/0", [("localhost", 6379)], 0),
        ("valkeys://[::1]:7000/1", "valkeys://[::1]:7000/1", [("::1", 7000)], 1),
        ("redis://[::1]", "redis://[::1]:6379/0", [("::1", 6379)], 0),
        (f"redis://ops:{SECRET}@h/2", "redis://h:6379/2", [("h", 6379)], 2),
        ("redis://h?prefix=ours", "redis://h:6379/0?prefix=ours", [("h", 6379)], 0),
    ],
)
def test_an_address_names_host_port_and_database(
    url: str, location: str, nodes: list[tuple[str, int]], database: int
) -> None:
    address = parse(url)
    assert address.location == location
    assert list(address.nodes) == nodes
    assert address.database == database
    assert address.tls == url.lower().startswith(("rediss", "valkeys"))
    assert SECRET not in address.location


@pytest.mark.parametrize(
    ("login", "user", "password"),
    [
        ("", None, None),
        ("ops@", "ops", None),
        (f":{SECRET}@", None, SECRET),
        (f"ops:{SECRET}@", "ops", SECRET),
        ("o%40ps:p%2Fw%3A%40%25@", "o@ps", "p/w:@%"),
        ("ops:p@w@", "ops", "p@w"),
        ("ops:p:w@", "ops", "p:w"),
        ("ops:p/w@", "ops", "p/w"),
    ],
)
def test_user_and_password_are_percent_decoded(
    login: str, user: str | None, password: str | None
) -> None:
    for url in (f"redis://{login}h", f"valkey+sentinel://{login}h/service"):
        address = parse(url)
        assert (address.user, address.password) == (user, password)
        assert address.nodes[0][0] == "h"


def test_a_socket_is_a_path() -> None:
    for scheme in ("unix", "redis+unix", "valkey+unix"):
        address = parse(f"{scheme}://ops:{SECRET}@/run/my%20redis/s?db=2&wait=1")
        assert (address.socket, address.database, address.wait) == ("/run/my redis/s", 2, 1)
        assert (address.user, address.password, address.nodes) == ("ops", SECRET, ())
        assert address.location == f"{scheme}:///run/my%20redis/s?db=2"


def test_sentinels_are_several_hosts_and_a_service() -> None:
    address = parse(
        f"rediss+sentinel://ops:{SECRET}@a,b:7000,[::1]/main/2"
        "?sentinel_user=s&sentinel_password=p%26w&wait=2&ca=/etc/ca.pem&prefix=x"
    )
    assert address.nodes == (("a", 26379), ("b", 7000), ("::1", 26379))
    assert (address.service, address.database, address.tls) == ("main", 2, True)
    assert (address.sentinel_user, address.sentinel_password) == ("s", "p&w")
    assert (address.wait, address.ca, address.prefix) == (2, "/etc/ca.pem", "x")
    assert address.location == "rediss+sentinel://a:26379,b:7000,[::1]:26379/main/2?prefix=x"


@pytest.mark.parametrize(
    ("url", "says", "do"),
    [
        ("http://h", "no address of a Redis or Valkey server", "redis://HOST/0"),
        ("redis://h:port", "a port that is no number", "percent-encode"),
        ("redis://[::1", "a [ that no ] ends", "redis://[::1]:6379/0"),
        ("redis://[::1]7", "a [ that no ] ends", "redis://[::1]:6379/0"),
        ("redis+sentinel://a,[::1/s", "a [ that no ] ends", "redis://[::1]:6379/0"),
        ("redis://h:0", "a port that is no number", "percent-encode"),
        ("redis://h:65536", "a port that is no number", "percent-encode"),
        (f"redis://:{SECRET}?x@h", "an option that is not known", "known are wait, prefix"),
        (f"redis://:{SECRET}#x@h:y", "a port that is no number", "percent-encode"),
        ("redis://h/name", "no number for the database", "redis://HOST/0"),
        ("redis://h/-1", "no number for the database", "redis://HOST/0"),
        ("redis://h/1/2", "no number for the database", "redis://HOST/0"),
        ("redis://a,b/0", "several hosts", "redis+sentinel://"),
        ("redis://h?wait=some", "no number for wait", "whole number"),
        ("redis://h?wait=1&wait=2", "has wait twice", "once"),
        (f"redis://h?password={SECRET}", "an option that is not known", "known are"),
        ("redis://h?ca=/etc/ca.pem", "an option that is not known", "known are wait, prefix"),
        ("redis://h?prefix=", "a prefix that keys cannot begin with", "letters"),
        ("redis://h?prefix={x}", "a prefix that keys cannot begin with", "letters"),
        ("unix://relative/s", "names no socket", "unix:///absolute"),
        ("unix:///", "names no socket", "unix:///absolute"),
        ("unix:///s?db=x", "no number for db", "whole number"),
        ("redis+sentinel://h", "names no service", "redis+sentinel://HOST:26379/SERVICE"),
        ("redis+sentinel://h/s/x", "no number for the database", "whole number"),
    ],
)
def test_an_address_that_cannot_be_is_refused_without_its_secrets(
    url: str, says: str, do: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(url)
    assert says in str(refused.value)
    assert do in refused.value.hint
    assert SECRET not in str(refused.value) + refused.value.hint


def test_the_registry_knows_each_scheme() -> None:
    from reconcile.stores.registry import _BUILT_IN

    assert set(SCHEMES) <= set(_BUILT_IN)
