"""The table of commands, and the typer application made of those that argv names.

Building one command costs milliseconds, and cron calls `run` all day: only the command
that is called is imported and registered; all of them for `--help`, or where the name is
not known and the nearest ones are to be suggested.

A command is a function of a `Call` and its own parameters. The global options are added to
each here, so that they work after the command as well as before it.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    Call,
    ConfigOption,
    GlobalOptions,
    JsonOption,
    QuietOption,
    StoreOption,
    VerboseOption,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMANDS = {
    "run": ("run", "Do what is due; what cron and timers call."),
    "resume": ("resume", "Finish unfinished intervals, or approve a plan."),
    "status": ("status", "Show jobs, intervals and runs."),
    "init": ("init", "Write a configuration, or a ready demo."),
}
"""Name of each command, its module in `commands` (which has a function of the name), and
its line of help."""

_WITH_VALUE = ("--config", "--store")


def command_of(argv: Sequence[str]) -> str | None:
    """The first word that is neither an option of the program nor an option's value."""
    words = iter(argv)
    for word in words:
        if word in _WITH_VALUE or (word[:1] == "-" != word[1:2] and word[-1:] == "c"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def build(argv: Sequence[str]) -> typer.Typer:
    """The application, with as many commands as argv asks for."""
    app = typer.Typer(
        name="reconcile",
        help="Make scheduled work safe: leases, fences, checkpoints and proof.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_before_the_command)
    named = command_of(argv)
    for name in [named] if named in COMMANDS else COMMANDS:
        module, line = COMMANDS[name]
        function = getattr(import_module(f".commands.{module}", __package__), name)
        app.command(name, short_help=line)(_with_global_options(function))
    return app


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        call: Call = context.obj
        call.env.data(f"reconcile {version('reconcile')}\n")
        raise typer.Exit


def _before_the_command(
    context: typer.Context,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    json: JsonOption = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    del version
    call: Call = context.obj
    call.options = call.options.then(GlobalOptions(config, store, quiet, verbose, json))


def _global_options(
    context: typer.Context,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    json: JsonOption = False,
) -> Call:
    call: Call = context.obj
    call.options = call.options.then(GlobalOptions(config, store, quiet, verbose, json))
    return call


def _with_global_options(command: Callable[..., int]) -> Callable[..., int]:
    """The command as typer sees it: the global options' parameters in place of `call`."""
    shared = inspect.signature(_global_options, eval_str=True).parameters
    own = dict(inspect.signature(command, eval_str=True).parameters)
    del own["call"]

    def called(**values: Any) -> int:
        call = _global_options(**{name: values.pop(name) for name in shared})
        return command(call, **values)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [one.replace(kind=keyword) for one in (*own.values(), *shared.values())]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__doc__ = command.__doc__
    return called
