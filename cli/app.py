"""The table of commands, and how a plain command line becomes a call of one.

A command is a function of a `Call` and its own parameters, which `options.Option` and
`options.Argument` declare. The global options are added to each, so that they work after
the command as well as before it. A command line that is not plain is `typer_app`'s.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from . import plain
from .options import Call, global_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMANDS = {
    "run": ("run", "Do what is due; what cron and timers call."),
    "resume": ("resume", "Finish unfinished intervals, or approve a plan."),
    "status": ("status", "Show jobs, intervals and runs."),
    "rerun": ("acts", "Work a finished interval again."),
    "backfill": ("backfill", "Replay a span of past intervals."),
    "skip": ("acts", "Give an interval up."),
    "pause": ("acts", "Let no trigger start anything."),
    "unpause": ("acts", "Let triggers go on."),
    "stop": ("acts", "Ask the holder to stop, or fence it out."),
    "changes": ("changes", "Show what was changed, or what a plan would change."),
    "logs": ("logs", "Show what a command printed."),
    "drill": ("drill", "Rehearse kills, stalls and misses on your store."),
    "prune": ("prune", "Drop what is older than keep in [store]."),
    "config": ("config", "Check the configuration and print what it means."),
    "doctor": ("doctor", "Check everything, and say how to mend it."),
    "init": ("init", "Write a configuration, or a ready demo."),
    "add": ("add", "Append a job, as from a line of a crontab."),
    "units": ("units", "Print a crontab line, or a systemd service and timer."),
}
"""Name of each command, its module in `commands` (which has a function of the name), and
its line of help."""

HIDDEN = {
    "complete": ("complete", "Print what may be typed."),
    "completion": ("complete", "Print a completion script."),
}
"""The same of those that help does not show: programs call them."""
ALL = {**COMMANDS, **HIDDEN}


def command_named(name: str) -> Callable[..., int]:
    """The function of a command; imports its module."""
    module = import_module(f".commands.{ALL[name][0]}", __package__)
    found: Callable[..., int] = getattr(module, name)
    return found


def call_plainly(argv: Sequence[str], call: Call) -> int | None:
    """Call the command of a plain command line; None, with nothing done, for any other.

    Raises what the command raises.
    """
    words = iter(argv)
    try:
        shared = plain.declared(global_options)
        before, named = plain.read(words, shared, stop=True)
        if not named or named[0] not in ALL:
            return None
        command = command_named(named[0])
        table = plain.declared(command, global_options)
        after, rest = plain.read(words, table, stop=False)
        after.update(plain.arguments(rest, table))
    except plain.NotPlain:
        return None
    names = {one.name for one in shared.options.values()} & after.keys()
    later = {name: after.pop(name) for name in names}
    call.options = call.options.then(global_options(**before)).then(global_options(**later))
    return command(call, **after)
