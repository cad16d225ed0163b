"""Bounds of ranges are kept as they are by every store, whatever the accounts are made of, and a
night that is killed behind any of them goes on there."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, ClassVar

import pytest
from support.forks import DRIVERS
from support.postgres_server import fresh_name, shared_server
from support.scene import NIGHTS, Scene
from support.valkey import fresh_url, shared_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TONIGHT = NIGHTS[2]
RUN = ("run", "entitlements")
ACCOUNTS = [
    "'",
    "''; --",
    '"',
    '\\"',
    "%s %(x)s {0} $1 :a ?",
    "0b7d6a1e-5a5f-4a0e-9a39-1d2c3b4a5968",
    "\x01\x7f",
    "\u00e9",
    "e\u0301",
    "\u2028line\u2029",
    "漢字の口座",
    "\ufffd",
    "\uffff",
    "🌍",
    "🌍\u200d🌍",
    "\U0010ffff",
]
"""In order of code points, the last ones beyond what two bytes can be."""

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
KILLS = ("range_planned:7", "range_committed:3", "range_committed:8")


def on_sqlite() -> str:
    return "reconcile.db"


def on_valkey() -> str:
    return fresh_url(shared_url())


def on_postgres() -> str:
    return shared_server().url(fresh_name("bounds"))


class Odd(Scene):
    """A scene of accounts that are hard to spell."""

    variables: ClassVar[dict[str, str]] = DRIVERS


@pytest.mark.parametrize("store", [on_sqlite, on_valkey, *[on_postgres] * LONG])
def test_a_night_of_odd_accounts_is_resumed_behind_any_bound(
    store: Callable[[], str], tmp_path: Path
) -> None:
    extra = f'[store]\nurl = "{store()}"\n'
    scene = Odd(tmp_path / "scene", TONIGHT, range_size=1, extra=extra)
    scene.write_night(TONIGHT, {(account, "sso"): "1" for account in ACCOUNTS})
    before = {(account, "sso"): "2" for account in ACCOUNTS[::2]}
    before |= {(f"{account}\u0002", "sso"): "" for account in ACCOUNTS[::3]}
    scene.fill(before)
    for step in KILLS:
        killed = scene.run(*RUN, step=f"{step}:SIGKILL")
        assert killed.code == -signal.SIGKILL, killed.err
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(TONIGHT, before)
    bounds = scene.ask(scene.target, "SELECT upper FROM reconcile_ranges WHERE upper IS NOT NULL")
    assert {upper for (upper,) in bounds} <= set(ACCOUNTS)
    assert len(bounds) == len(ACCOUNTS) - 1
