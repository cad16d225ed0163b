"""Makes scheduled work safe.

What the command `reconcile run` does, for a scheduled (serverless) function or a scheduler
that lives in a Python process::

    import reconcile

    outcome = reconcile.run("entitlements", config="reconcile.toml", max_runtime="14m")

And what a function that is a job is called with and yields, `RunContext` and `Checkpoint`::

    def nightly(context: reconcile.RunContext) -> Iterator[reconcile.Checkpoint]:
        for step in range(context.cursor or 0, 1000):
            ...
            yield {"cursor": step + 1}

Importing this costs next to nothing: what `run` needs is imported when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta
    from os import PathLike
    from threading import Event

    from .cli.function import IntervalOutcome, RunOutcome
    from .core.errors import (
        AccessDenied,
        ConfigError,
        FencedOut,
        ReconcileError,
        SourceUnreachable,
        SourceUnusable,
        StoreUnreachable,
        StoreUnusable,
        TargetUnreachable,
        TargetUnusable,
        UnknownJob,
        UnsupportedPlatform,
        UsageError,
    )
    from .core.model import Outcome
    from .core.work.commands.functions.context import Checkpoint, RunContext

__all__ = [
    "AccessDenied",
    "Checkpoint",
    "ConfigError",
    "FencedOut",
    "IntervalOutcome",
    "Outcome",
    "ReconcileError",
    "RunContext",
    "RunOutcome",
    "SourceUnreachable",
    "SourceUnusable",
    "StoreUnreachable",
    "StoreUnusable",
    "TargetUnreachable",
    "TargetUnusable",
    "UnknownJob",
    "UnsupportedPlatform",
    "UsageError",
    "run",
]

_FUNCTIONS = "core.work.commands.functions.context"
_PLACES = {
    "Checkpoint": _FUNCTIONS,
    "IntervalOutcome": "cli.function",
    "Outcome": "core.model",
    "RunContext": _FUNCTIONS,
    "RunOutcome": "cli.function",
}


def run(
    job: str,
    *,
    config: str | PathLike[str] | None = None,
    store: str | None = None,
    interval: str | None = None,
    max_runtime: timedelta | str | None = None,
    wait: timedelta | str | None = None,
    stop: Event | None = None,
) -> RunOutcome:
    """Do what is due of a job, as `reconcile run JOB` does, and say what became of it.

    `config` is found as the command finds it where it is not given; `store` and `interval`
    are as `--store` and `--interval`. `max_runtime` ends at a checkpoint once it is over, and
    the next call goes on there: leave the time of one account range between it and what the
    platform allows. `wait` stays for a busy lease. Durations are timedeltas, or texts as
    `"14m"`. Once `stop` is set, the run ends at its next checkpoint (outcome `interrupted`).

    How the work ended is never an exception: a source that cannot be read, a guard that waits
    for a person, another holder at work, each is an outcome, with the exit status of the
    command. Raised is what the command refuses before there is any work: a `ReconcileError`
    (`ConfigError`, `UnknownJob`, `UsageError`, `AccessDenied`, `StoreUnreachable` …) whose
    `hint` says what to do.

    Prints nothing, handles no signals, and may be called from any thread, and from several:
    each call is a holder of its own. In one case it ends the whole process: when its lease is
    gone and the work does not come back from what it does, because it must have stopped before
    somebody else begins.
    """
    from .cli.function import run as call

    return call(
        job,
        config=config,
        store=store,
        interval=interval,
        max_runtime=max_runtime,
        wait=wait,
        stop=stop,
    )


def __getattr__(name: str) -> object:
    """The public names, imported when they are first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f".{_PLACES.get(name, 'core.errors')}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
