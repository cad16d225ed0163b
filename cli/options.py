"""Options that every command takes, and what several commands parse alike.

Values on the way of every trigger are named tuples here and in `plain`: making a frozen
dataclass takes half a millisecond at each start.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from ..core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from datetime import timedelta

    from .environment import Environment


class Option(NamedTuple):
    """An option: its spellings, what its value is called (a flag has none), and its help.

    Declared in our own words, so that a plain command line is read without typer.
    """

    spellings: tuple[str, ...]
    help: str
    metavar: str | None = None
    least: int | None = None
    most: int | None = None


class Argument(NamedTuple):
    """A word that is no option."""

    metavar: str
    help: str


ConfigOption = Annotated[
    Path | None, Option(("--config", "-c"), "The configuration to use.", "FILE")
]
StoreOption = Annotated[
    str | None, Option(("--store",), "Use this store, not the configured one.", "URL")
]
QuietOption = Annotated[
    bool, Option(("--quiet", "-q"), "Print nothing unless something new is wrong.")
]
VerboseOption = Annotated[bool, Option(("--verbose", "-v"), "Print each step on standard error.")]
JsonOption = Annotated[bool, Option(("--json",), "Print one JSON object on standard output.")]
JobArgument = Annotated[str, Argument("JOB", "The job's name.")]
IntervalOption = Annotated[
    str | None, Option(("--interval",), "Work this interval: an id, latest, oldest.", "ID")
]
ReasonOption = Annotated[str | None, Option(("--reason", "-m"), "Why; kept on record.", "TEXT")]
ActorOption = Annotated[str | None, Option(("--actor",), "Who acts; kept on record.", "NAME")]


class GlobalOptions(NamedTuple):
    """What may stand before the command as well as after it."""

    config: Path | None = None
    store: str | None = None
    quiet: bool = False
    verbose: bool = False
    json: bool = False

    def program(self, name: str) -> str:
        """How a command to type begins, so that it finds this program, called by that name,
        its configuration and its store again; a password in the store's address is left to
        whoever types it."""
        from shlex import quote

        words = [quote(name)]
        if self.config is not None:
            words += ["-c", quote(_without_secret(str(self.config)))]
        if self.store is not None:
            words += ["--store", quote(_without_secret(self.store))]
        return " ".join(words)

    def then(self, later: GlobalOptions) -> GlobalOptions:
        """Both together; of two values the later one counts.

        Raises `UsageError` for `-q` with `-v`.
        """
        both = GlobalOptions(
            config=later.config or self.config,
            store=self.store if later.store is None else later.store,
            quiet=later.quiet or self.quiet,
            verbose=later.verbose or self.verbose,
            json=later.json or self.json,
        )
        if both.quiet and both.verbose:
            raise UsageError("-q and -v exclude each other", hint="leave one of them out")
        return both


def _without_secret(address: str) -> str:
    """An address to be shown; what cannot hold a secret is known at once, at each start."""
    if "@" not in address and "=" not in address:
        return address
    from ..core.masking import mask_address

    return mask_address(address)


def global_options(
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    json: JsonOption = False,
) -> GlobalOptions:
    """The options that every command takes; their declaration."""
    return GlobalOptions(config, store, quiet, verbose, json)


class Call:
    """One call of a command: where it runs and what it was given in general.

    Filled in while the command line is read, so that whoever reports a refusal knows as much
    as was understood by then. `busy_exit` is the exit status of being busy.
    """

    def __init__(self, env: Environment, options: GlobalOptions, busy_exit: int) -> None:
        self.env = env
        self.options = options
        self.busy_exit = busy_exit


def duration_of(text: str | None, option: str) -> timedelta | None:
    """`90s`, `10m`, `6h`, `3d` of an option. Raises `UsageError`."""
    from ..core.toml_values import parse_duration

    if text is None:
        return None
    try:
        return parse_duration(text)
    except ConfigError as error:
        raise UsageError(f"{option} {text!r} is not a duration", hint=error.hint) from error


def actor_of(env: Environment, given: str | None) -> str:
    """Who acts: as told, else who called sudo, else who is logged in."""
    environ = env.environ
    names = (given, environ.get("RECONCILE_ACTOR"), environ.get("SUDO_USER"), env.login)
    return next((name.strip() for name in names if name and name.strip()), "")


def reason_of(env: Environment, given: str | None, act: str) -> str:
    """Why somebody acts by hand: as told, else asked for where there is somebody to ask.

    Raises `UsageError` where there is nobody, or no answer.
    """
    reason = (given or "").strip()
    if not reason and env.stdin_is_terminal and env.stderr_is_terminal:
        env.words(f"Why ({act})? ")
        answer = env.stdin.readline()
        if not answer.endswith("\n"):
            env.words("\n")  # Ctrl-D leaves the cursor behind the question
        reason = answer.strip()
    if not reason:
        raise UsageError(f"{act} needs a reason, which is kept on record", hint='add -m "why"')
    return reason
