"""The planning pass, seen by whoever waits for a sign of progress."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reconcile.core.config import EntitlementsConfig, SourceConfig, TargetConfig
from reconcile.core.model import Fence, Interval, LeaseKey, RunId
from reconcile.core.records import IntervalRecord
from reconcile.core.rows import Column, ColumnKind, KeySpan, Page, Schema
from reconcile.core.work.entitlements.plan import Planner

NOW = datetime(2026, 11, 30, tzinfo=UTC)
SCHEMA = Schema(
    (
        Column("account", ColumnKind.TEXT, nullable=False),
        Column("name", ColumnKind.TEXT, nullable=False),
    ),
    key=(0, 1),
)


@dataclass
class Order:
    """The engine's side; counts the signs of progress."""

    record: IntervalRecord
    interval: Interval = Interval("job", NOW, "2026-11-30")
    dry_run: bool = False
    progress: int = 0
    fence: Fence = Fence(LeaseKey("job"), 1, RunId("r"))
    records: None = None
    """A first plan has none before it to look up."""

    def progressed(self) -> None:
        self.progress += 1

    def reached(self, step: str) -> None:
        pass

    def new_id(self) -> str:
        return "plan"

    def now(self) -> datetime:
        return NOW


@dataclass
class Source:
    """Pages of one account each; keeps how much progress there was when each was asked for."""

    order: Order
    seen: list[int]
    fingerprint: str = "f"

    def pages(self, after: str | None = None, resume: Any = None) -> Iterator[Page]:
        for number in range(5):
            self.seen.append(self.order.progress)
            yield Page([(f"a{number}", "seats")])


class Empty:
    """A target without a row."""

    def bound(self, span: KeySpan, rows: int) -> str | None:
        return None

    def lines(self, span: KeySpan) -> list[bytes]:
        return []


def test_each_page_of_a_long_range_is_a_sign_of_progress() -> None:
    order = Order(IntervalRecord(id="2026-11-30", scheduled_at=NOW))
    source = Source(order, [])
    config = EntitlementsConfig(
        SourceConfig("csv", "/x.csv"), TargetConfig("sql", "sqlite:///x", "t"), range_size=100
    )
    planner = Planner(order, config, source, Empty(), SCHEMA)  # type: ignore[arg-type]
    (step,) = planner.steps(planner.new_plan(), None, None)
    assert step.show["accounts"] == 5
    assert source.seen == [0, 1, 2, 3, 4]
