"""A scene whose store is on a server, of either kind, so that a test can be about both."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import redis

from reconcile.cli.environment import SystemClock
from reconcile.core.model import LeaseKey
from reconcile.stores.registry import opener

from .forks import DRIVERS
from .postgres_server import fresh_name, shared_server
from .scene import NIGHTS, Scene, drifted, night
from .valkey import fresh_url, shared_url

if TYPE_CHECKING:
    from reconcile.core.model import Lease
    from reconcile.core.ports import Store

KINDS = ("postgres", "valkey")
FIRST, SECOND = NIGHTS[1:]
RUN = ("run", "entitlements")


def opened(url: str) -> Store:
    """The store there, for who only looks."""
    names: Any = SimpleNamespace(token=lambda: "watch")
    return opener(url, clock=SystemClock(), host=names, entropy=names)()


class Hosted(Scene):
    """Two nights, the first of them completed."""

    variables: ClassVar[dict[str, str]] = DRIVERS
    url: str
    schema: str

    @classmethod
    def made(cls, kind: str, folder: Path, ttl: str, step: int = 50) -> Hosted:
        """On the server of this process, where nothing is yet."""
        schema = fresh_name("hosted")
        url = shared_server().url(schema) if kind == "postgres" else fresh_url(shared_url())
        extra = f'[store]\nurl = "{url}"\n[jobs.entitlements.lease]\nttl = "{ttl}"\n'
        scene = cls(folder, FIRST, range_size=step, extra=extra)
        scene.url, scene.schema = url, schema if kind == "postgres" else ""
        truth = night(51, 400)
        scene.write_night(FIRST, truth)
        scene.write_night(SECOND, drifted(truth, 52))
        done = scene.run(*RUN, "--interval", FIRST)
        assert done.code == 0, done.err
        return scene

    def open(self) -> Store:
        """The store as another host sees it."""
        return opened(self.url)

    def lease(self) -> Lease:
        """The newest grant."""
        with closing(self.open()) as store:
            found = store.lease(LeaseKey("entitlements"))
        assert found is not None
        return found

    def ranges_of(self, date: str) -> int:
        """So many ranges of a night are in the target."""
        query = f"SELECT count(*) FROM reconcile_ranges WHERE interval = '{date}'"
        return int(self.ask(self.target, query)[0][0])

    def wipe(self) -> None:
        """Everything is gone from the server."""
        if self.schema:
            shared_server().drop(self.schema)
            return
        with closing(redis.Redis.from_url(shared_url())) as client:
            prefix = self.url.rpartition("prefix=")[2]
            for name in client.scan_iter(f"{prefix}:*"):
                client.delete(name)
