"""The script for zsh, as a function that compinit loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tables import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .tables import Arg, Command, Opt, Table

_SCRIPT = r"""#compdef reconcile
# zsh completion for reconcile, made by `reconcile completion zsh`: do not edit.

_reconcile_ask() { # WHAT [JOB]: one line for each
  local -a pass
  local n
  for ((n = 2; n < $#_reconcile_line; n++)); do
    case $_reconcile_line[n] in
      -c|--config|--store) pass+=($_reconcile_line[n] ${(Q)~_reconcile_line[n+1]}) ;;
      --config=*|--store=*) pass+=($_reconcile_line[n]) ;;
    esac
  done
  ${(Q)~_reconcile_line[1]} complete $@ $pass 2>/dev/null
}

_reconcile_jobs() {
  local -a found
  found=(${(f)"$(_reconcile_ask jobs)"})
  compadd -a found
}

_reconcile_intervals() {
  local -a found
  found=(${(f)"$(_reconcile_ask intervals ${(Q)line[1]})"})
  compadd -V intervals -a found
}

_reconcile() {
  local curcontext=$curcontext state line
  local -a _reconcile_line shared commands
  local -A opt_args
  _reconcile_line=("${words[@]}")
  shared=(
@SHARED@
    '(- *)'{-h,--help}'[Show help.]'
  )
  _arguments -C -s $shared '--version[Print the version.]' '1: :->command' '*:: :->arguments'
  case $state in
    command)
      commands=(
@COMMANDS@
      )
      _describe -t commands command commands
      ;;
    arguments)
      case $words[1] in
@CASES@
      esac
      ;;
  esac
}

if [[ $funcstack[1] == _reconcile ]]; then
  _reconcile "$@"
else
  compdef _reconcile reconcile
fi
"""
_ACTIONS = {
    Kind.FILE: "_files",
    Kind.FOLDER: "_files -/",
    Kind.JOB: "_reconcile_jobs",
    Kind.INTERVAL: "_reconcile_intervals",
    Kind.PROGRAM: "_command_names -e",
    Kind.TEXT: " ",
}


def script(table: Table) -> str:
    """The script for these commands."""
    commands = [f"        {_quoted(f'{c.name}:{c.help}')}" for c in table.commands]
    cases = [line for command in table.commands for line in _case(command)]
    text = _SCRIPT.replace("@SHARED@", "\n".join(f"    {_option(one)}" for one in table.shared))
    text = text.replace("@COMMANDS@", "\n".join(commands))
    return text.replace("@CASES@", "\n".join(cases))


def _case(command: Command) -> Iterator[str]:
    yield f"        {command.name})"
    specs = [*map(_option, command.options), *_arguments(command)]
    yield " \\\n".join(["          _arguments -s $shared", *(f"            {s}" for s in specs)])
    yield "          ;;"


def _option(option: Opt) -> str:
    told = f"[{_escaped(option.help)}]"
    if option.kind is not Kind.FLAG:
        action = f"({' '.join(option.choices)})" if option.choices else _ACTIONS[option.kind]
        told += f":{option.metavar}:{action}"
    if len(option.spellings) == 1:
        (only,) = option.spellings
        return _quoted(f"{only}{'=' if told.endswith(')') or ']:' in told else ''}{told}")
    long, short = option.spellings
    exclusive = f"'({long} {short})'"
    mark = "" if option.kind is Kind.FLAG else "="
    shorter = "" if option.kind is Kind.FLAG else "+"
    return f"{exclusive}{{{short}{shorter},{long}{mark}}}{_quoted(told)}"


def _arguments(command: Command) -> Iterator[str]:
    for place, argument in enumerate(command.arguments, 1):
        yield _quoted(_argument(place, argument))


def _argument(place: int, argument: Arg) -> str:
    name = argument.metavar.strip("[]")
    several = name.endswith((".", "\N{HORIZONTAL ELLIPSIS}"))
    where = "*" if several else f"{place}"
    optional = ":" if argument.metavar.startswith("[") and not several else ""
    return f"{where}:{optional}{name.rstrip('.')}:{_ACTIONS[argument.kind]}"


def _escaped(text: str) -> str:
    for mark in "\\[]:":
        text = text.replace(mark, f"\\{mark}")
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
