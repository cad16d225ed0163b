"""The use cases behind the commands, and behind `reconcile.run()` of the root package."""

from __future__ import annotations

from .application import Application, ResumeRequest, RunRequest
from .by_hand import resume
from .overview import status
from .trigger import run

__all__ = ["Application", "ResumeRequest", "RunRequest", "resume", "run", "status"]
