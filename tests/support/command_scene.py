"""A job that is a command, on disk, run by real processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .commands import wait_for
from .scene import Scene


@dataclass
class CommandScene(Scene):
    """One folder with a job `work` on demand, whose keys are `extra`, and its scripts."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "reconcile.toml").write_text(f"[jobs.work]\n{self.extra}")

    def script(self, text: str, name: str = "work.sh") -> None:
        """Write a program beside the configuration."""
        path = self.folder / name
        path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def lines(self, name: str) -> list[str]:
        """The whole lines of a file that a command writes to."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def wait_for_lines(self, name: str, number: int) -> None:
        """Until there are so many."""
        wait_for(lambda: len(self.lines(name)) >= number, f"line {number} of {name}")

    def interval(self, text: str = "latest") -> dict:  # type: ignore[type-arg]
        """All that `status` knows of one."""
        return self.run("status", "work", text, "--json").json()

    def logs(self) -> list[Path]:
        """The files of its output."""
        return sorted((self.folder / "logs").rglob("*.log*"))
