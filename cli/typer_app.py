"""The command line as a typer application: help, and everything that is wrong.

It is made of the same declarations that `plain` reads, each turned into typer's own words.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer

from .app import COMMANDS, HIDDEN, command_named
from .options import Argument, Call, Option, global_options

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def build() -> typer.Typer:
    """The application, with all commands."""
    app = typer.Typer(
        name="reconcile",
        help="Make scheduled work safe: leases, fences, checkpoints and proof.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_before_the_command())
    for name, (_, line) in COMMANDS.items():
        app.command(name, short_help=line)(_typed(command_named(name)))
    for name in HIDDEN:
        app.command(name, hidden=True)(_typed(command_named(name)))
    return app


def _before_the_command() -> Callable[..., None]:
    def called(context: typer.Context, **values: Any) -> None:
        del values["version"]
        call: Call = context.obj
        call.options = call.options.then(global_options(**values))

    version = Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ]
    last = inspect.Parameter("version", _KEYWORD, default=False, annotation=version)
    return _signed(called, [*_parameters(global_options), last])


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        call: Call = context.obj
        call.env.data(f"reconcile {version('reconcile')}\n")
        raise typer.Exit


def _typed(command: Callable[..., int]) -> Callable[..., int]:
    """The command with the global options' parameters in place of `call`."""
    shared = _parameters(global_options)

    def called(context: typer.Context, **values: Any) -> int:
        call: Call = context.obj
        later = {one.name: values.pop(one.name) for one in shared}
        call.options = call.options.then(global_options(**later))
        return command(call, **values)

    called.__doc__ = command.__doc__
    return _signed(called, [*_parameters(command), *shared])


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _signed(called: F, parameters: list[inspect.Parameter]) -> F:
    context = inspect.Parameter("context", _KEYWORD, annotation=typer.Context)
    signature = inspect.Signature([context, *parameters])
    called.__signature__ = signature  # type: ignore[attr-defined]
    return called


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The declared parameters of a function, in typer's words."""
    found = []
    for one in inspect.signature(function, eval_str=True).parameters.values():
        kind, *declared = get_args(one.annotation) or (None,)
        for info in declared:
            if isinstance(info, (Option, Argument)):
                annotation = Annotated[kind, _info(info)]  # type: ignore[valid-type]
                found.append(one.replace(kind=_KEYWORD, annotation=annotation))
    return found


def _info(declared: Option | Argument) -> Any:
    if isinstance(declared, Argument):
        # typer puts brackets around what may be left out, and dots behind several, by itself.
        name = declared.metavar.strip("[]").rstrip(".\N{HORIZONTAL ELLIPSIS}")
        return typer.Argument(metavar=name, help=declared.help)
    return typer.Option(
        *declared.spellings,
        metavar=declared.metavar,
        help=declared.help,
        min=declared.least,
        max=declared.most,
    )
