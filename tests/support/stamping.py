"""A job that is a command of two processes that ignore SIGTERM, one of them a daemon in a session
of its own, of which no pipe knows. Each leaves readings of the boot clock in a file."""

from __future__ import annotations

from typing import ClassVar

from .commands import wait_for
from .forks import DRIVERS
from .scene import Scene

STAMP = """
trap '' TERM
while read now idle < /proc/uptime; do echo $RECONCILE_GENERATION $now >> $1; sleep 0.01; done
"""
BOTH = "sh stamp.sh main & setsid sh stamp.sh daemon > /dev/null 2>&1 3>&- & trap '' TERM; wait"


class Stamping(Scene):
    """A job `stamps` on demand. `extra` is the store's address."""

    variables: ClassVar[dict[str, str]] = DRIVERS
    ttl = 3.0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "reconcile.toml").write_text(
            f'[store]\nurl = "{self.extra}"\n[jobs.stamps]\ncommand = ["sh", "-c", "{BOTH}"]\n'
            f'kill_after = "1s"\n[jobs.stamps.lease]\nttl = "{self.ttl:g}s"\n'
        )
        (self.folder / "stamp.sh").write_text(STAMP)

    def stamps(self) -> dict[int, list[float]]:
        """All whole ones, in order, by generation."""
        found: dict[int, list[float]] = {}
        for name in ("main", "daemon"):
            path = self.folder / name
            for line in path.read_text().split("\n")[:-1] if path.exists() else []:
                generation, stamp = line.split()
                found.setdefault(int(generation), []).append(float(stamp))
        return {generation: sorted(found[generation]) for generation in sorted(found)}

    def wait_for_both(self) -> None:
        """Until each has left one."""
        names = ("main", "daemon")
        wait_for(lambda: all((self.folder / name).exists() for name in names), "both")
        assert self.stamps()
