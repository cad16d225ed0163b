"""A source that is an API of ours: read in this process under a clock that costs no time, or by
the command line in a scene."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from reconcile.core.config import SourceConfig
from reconcile.core.endpoints import BrokenOff
from reconcile.core.http_config import AccountsConfig, HttpConfig, PagingConfig
from reconcile.core.model import Interval, Rate
from reconcile.core.rows import Column, ColumnKind, Row, Schema
from reconcile.core.sources import open_source
from reconcile.core.sources.http.reading import HttpReading
from reconcile.core.sources.spool import Spools

from .provider import Provider
from .scene import NIGHTS, Scene

TONIGHT = Interval("entitlements", datetime(2026, 11, 30, tzinfo=UTC), "2026-11-30")
SCHEMA = Schema(
    (
        Column("account_id", ColumnKind.TEXT, nullable=False),
        Column("entitlement", ColumnKind.TEXT, nullable=False),
        Column("level", ColumnKind.TEXT),
    ),
    (0, 1),
)
CURSOR = PagingConfig("cursor", 10, param="cursor", next="next", more="has_more", total="total")
PAGINGS = {
    "cursor": CURSOR,
    "last": CURSOR._replace(next=None, last="id"),
    "link": PagingConfig("link", 10, total="total"),
    "page": PagingConfig("page", 10, param="page", total="total"),
    "offset": PagingConfig("offset", 10, param="offset", total="total"),
}
"""Ways to page through the provider, ten items at a time."""
PATHS = {"last": "cursor"}


class Calls:
    """What a run gives to a source, in no time. `waits` are those asked for."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)
        self.waits: list[float] = []
        self.taken: list[tuple[str, Rate]] = []
        self.to_wait: list[float] = []
        self.stop_after: int | None = None
        self.ids = 0
        self.there: list[str] = []

    def now(self) -> datetime:
        return self.at

    def take(self, bucket: str, rate: Rate) -> float:
        self.taken.append((bucket, rate))
        return self.to_wait.pop(0) if self.to_wait else 0.0

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at += timedelta(seconds=seconds)

    def go_on(self) -> None:
        if self.stop_after is not None:
            self.stop_after -= 1
            if self.stop_after < 0:
                raise BrokenOff

    def accounts(self) -> Iterator[str]:
        yield from self.there

    def stand_by(self) -> None:
        if self.stop_after is not None and self.stop_after <= 0:
            raise BrokenOff

    def new_id(self) -> str:
        self.ids += 1
        return f"{self.at:%H%M%S}-{self.ids}"


@contextmanager
def reading(
    provider: Provider,
    folder: Path,
    calls: Calls,
    by: str = "cursor",
    change: Callable[[HttpConfig], HttpConfig] = lambda http: http,
) -> Iterator[HttpReading]:
    """The provider's grants as one run reads them."""
    http = change(
        HttpConfig(rows="data", paging=PAGINGS.get(by, CURSOR), timeout=timedelta(seconds=1))
    )
    path = f"{provider.url}/{PATHS.get(by, by)}"
    if by in ("lookups", "target"):
        listing = f"{provider.url}/users" if by == "lookups" else None
        accounts = AccountsConfig(listing, "data" if listing else "")
        http = change(HttpConfig(rows="grants", accounts=accounts))
        path = f"{provider.url}/users/{{account}}"
    source = open_source(SourceConfig("http", path, http=http), Spools(folder, "entitlements"))
    found = source.open(TONIGHT, SCHEMA, calls)
    assert isinstance(found, HttpReading)
    try:
        yield found
    finally:
        found.close()


def rows(found: HttpReading) -> list[Row]:
    """All rows of a reading; nobody is left out of them."""
    pages = list(found.pages())
    assert not any(page.bad for page in pages)
    return [row for page in pages for row in page.rows]


def truth(provider: Provider) -> list[Row]:
    """What the provider has, in order of account."""
    found = ((i["account_id"], i["entitlement"], i["level"]) for i in provider.items)
    return sorted(found)


def api_scene(folder: Path, provider: Provider, more: str = "", **options: object) -> Scene:
    """A scene of the newest night whose source is the provider's /cursor, 100 at a time."""
    scene = Scene(folder, start=NIGHTS[-1], **options)  # type: ignore[arg-type]
    file = folder / "reconcile.toml"
    text = file.read_text().replace('source = "exports/{date}.csv"\n', "")
    file.write_text(
        f'{text}\n[jobs.entitlements.source]\nurl = "{provider.url}/cursor"\nrows = "data"\n'
        f'{more}\n[jobs.entitlements.source.paging]\nby = "cursor"\nsize = 100\n'
        'next = "next"\nmore = "has_more"\ntotal = "total"\n'
    )
    return scene
