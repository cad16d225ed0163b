"""Whoever gets alerts, in the place of a command: keeps them, fails when told to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reconcile.core.errors import NotDelivered


@dataclass
class Pager:
    """Implements `core.ports.Notifier`. `broken` are channels that do not take anything."""

    channels: Sequence[str] = ("command",)
    wants_figures: bool = False
    broken: set[str] = field(default_factory=set)
    got: list[tuple[str, Any]] = field(default_factory=list)
    published: list[Any] = field(default_factory=list)
    before: Callable[[str, Any], None] = lambda channel, alert: None

    def send(self, channel: str, alert: Any) -> None:
        self.before(channel, alert)
        if channel in self.broken:
            raise NotDelivered(f"{channel} is out of order")
        self.got.append((channel, alert))

    def publish(self, figures: Any) -> None:
        if "figures" in self.broken:
            raise NotDelivered("the metrics file cannot be written")
        self.published.append(figures)

    def told(self) -> list[tuple[str, str, str]]:
        """Interval, kind and state of each alert since the last call."""
        told = [(alert["interval"], alert["kind"], alert["state"]) for _, alert in self.got]
        self.got.clear()
        return told
