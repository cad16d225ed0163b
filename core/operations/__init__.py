"""The use cases behind the commands, and behind `reconcile.run()` of the root package.

Each is imported when it is used: what `status` needs would double the start-up of `run`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .application import Application, ResumeRequest, RunRequest
    from .by_hand import resume
    from .overview import status
    from .trigger import run

__all__ = ["Application", "ResumeRequest", "RunRequest", "resume", "run", "status"]

_MODULES = {
    "Application": "application",
    "ResumeRequest": "application",
    "RunRequest": "application",
    "resume": "by_hand",
    "run": "trigger",
    "status": "overview",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
