"""The process boundary: argv in, exit status out, and the one place where errors end.

Whatever happens, a user sees one message that says what to do, and never a traceback:
that of a defect goes to a file whose name is printed.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from ..core.errors import ReconcileError, UsageError
from .app import call_plainly
from .environment import OutputFailed, real_environment
from .exit_codes import ExitCode, exit_code_of_error
from .options import Call, GlobalOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer import Context
    from typer.exceptions import TyperException

    from .environment import Environment


class Bug(ReconcileError):
    """An exception nobody expected."""

    name = "bug"


def entry() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:], real_environment()))


def main(argv: Sequence[str], env: Environment) -> int:
    """Run one command line; its exit status. Raises nothing."""
    # Until the command line is understood, a program that wants JSON is taken at its word.
    call = Call(env, GlobalOptions(json="--json" in argv), ExitCode.BUSY)
    try:
        return _call(argv, call)
    except ReconcileError as error:
        return _refuse(call, error, exit_code_of_error(error))
    except KeyboardInterrupt:
        return ExitCode.SIGINT
    except Exception as error:  # a defect must not look like a job that failed (1)
        return _refuse(call, _bug(env, error), ExitCode.BUG)
    finally:
        if env.manager is not None:
            env.manager.stopping()


def _call(argv: Sequence[str], call: Call) -> int:
    code = call_plainly(argv, call)
    return _call_typer(argv, call) if code is None else code


def _call_typer(argv: Sequence[str], call: Call) -> int:
    from io import StringIO

    from typer import Abort
    from typer.exceptions import TyperException

    from .typer_app import build

    given = list(argv) or ["--help"]
    try:
        with redirect_stdout(StringIO()) as shown:  # typer prints its help itself
            code = build()(args=given, prog_name="reconcile", standalone_mode=False, obj=call)
    except Abort as error:
        raise KeyboardInterrupt from error
    except TyperException as error:
        raise _usage(error) from error
    # Nobody who gave no command has asked for data.
    show = call.env.data if argv else call.env.words
    show(shown.getvalue())
    return int(code or 0) if argv else ExitCode.USAGE


def _usage(error: TyperException) -> UsageError:
    """What typer has against the command line, in our words."""
    context: Context | None = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "reconcile"
    return UsageError(error.format_message(), hint=f"see {command} --help")


def _refuse(call: Call, error: ReconcileError, code: int) -> int:
    """Say what is wrong, once; with `-q` nothing of somebody else being at work."""
    from .render.errors import error_object, error_text
    from .render.levels import ERROR, INFO
    from .render.words import Style

    width = call.env.width if call.env.stderr_is_terminal else 0
    style = Style(width=width, program=call.options.program(call.env.program))
    exit_code = call.busy_exit if code == ExitCode.BUSY else code
    try:
        if call.options.json and not isinstance(error, OutputFailed):
            call.env.data(error_object(error, exit_code))
        elif not (call.options.quiet and code == ExitCode.BUSY):
            call.env.words(error_text(error, style), INFO if code == ExitCode.BUSY else ERROR)
    except ReconcileError as lost:
        call.env.words(error_text(lost, style), ERROR)
    return exit_code


def _bug(env: Environment, error: Exception) -> Bug:
    import tempfile
    from importlib.metadata import version
    from traceback import format_exception

    from ..core.masking import mask

    text = f"reconcile {version('reconcile')}, Python {sys.version}\n"
    text += mask("".join(format_exception(error)))
    for folder in (env.state_folder, None):
        try:
            if folder is not None:
                folder.mkdir(0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w",
                encoding="utf-8",
                errors="backslashreplace",
                prefix="reconcile-bug-",
                suffix=".txt",
                dir=folder,
                delete=False,
            ) as file:
                file.write(text)
        except OSError:
            continue
        hint = f"its traceback is in {file.name}; please report it"
        break
    else:
        hint = "its traceback could not be written to any folder"
    summary = f"{type(error).__name__}: {error}".rstrip(": ")
    return Bug(f"this is a defect of reconcile: {summary}", hint=hint)
