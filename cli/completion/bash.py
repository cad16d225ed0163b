"""The script for bash, 4.4 or newer. It needs nothing of the package bash-completion.

bash cuts words at `:` and `=`, which interval ids and options have, so the line is cut anew at
blanks; what is offered is then shortened by what bash takes for a word of its own. Nothing that
was asked for is expanded by the shell (`compgen -W` would): a job may have any name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tables import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .tables import Opt, Table

_SCRIPT = r"""# bash completion for reconcile, made by `reconcile completion bash`: do not edit.

_reconcile_kind() { # COMMAND OPTION: what its value is; nothing for a flag
  case $1:$2 in
@OPTIONS@
  esac
}

_reconcile_choices() { # COMMAND OPTION
  case $1:$2 in
@CHOICES@
  esac
}

_reconcile_argument() { # COMMAND PLACE
  case $1:$2 in
@ARGUMENTS@
  esac
}

_reconcile_options() { # COMMAND
  case $1 in
@LISTS@
  esac
  printf '%s\n' @SHARED@
}

_reconcile() {
  local IFS=$' \t\n' line=${COMP_LINE:0:COMP_POINT}
  local -a words pass=() offered=()
  local cur option= command= job= kind= word head= n at=0 plain=
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local last=$((${#words[@]} - 1))
  cur=${words[last]}
  for ((n = 1; n < last; n++)); do
    word=${words[n]}
    if [[ -n $plain || ($word != -* && -n $word) ]]; then
      if [[ -z $command ]]; then
        command=$word
      else
        ((at++)) || job=$word
      fi
    elif [[ $word == -- ]]; then
      plain=1
    elif [[ $word != *=* && -n $(_reconcile_kind "$command" "$word") ]]; then
      if ((n + 1 == last)); then
        option=$word
      elif [[ $word == -c || $word == --config || $word == --store ]]; then
        pass+=("$word" "${words[n + 1]/#\~\//$HOME/}")
      fi
      ((n++))
    elif [[ $word == --config=* || $word == --store=* ]]; then
      pass+=("$word")
    fi
  done
  if [[ -z $option && -z $plain && $cur == --*=* ]]; then
    option=${cur%%=*}
    head=$option=
    cur=${cur#*=}
  fi
  if [[ -n $option ]]; then
    kind=$(_reconcile_kind "$command" "$option")
  elif [[ -z $plain && $cur == -* ]]; then
    kind=option
  elif [[ -z $command ]]; then
    kind=command
  else
    kind=$(_reconcile_argument "$command" "$at")
  fi
  local program=${words[0]/#\~\//$HOME/}
  COMPREPLY=()
  case $kind in
    file | folder)
      [[ $kind == file ]] && n=-f || n=-d
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen $n -- "$cur")
      return
      ;;
    program)
      mapfile -t COMPREPLY < <(compgen -c -- "$cur")
      return
      ;;
    job) mapfile -t offered < <("$program" complete jobs "${pass[@]}" 2>/dev/null) ;;
    interval)
      mapfile -t offered < <("$program" complete intervals "$job" "${pass[@]}" 2>/dev/null)
      compopt -o nosort 2>/dev/null
      ;;
    choice) mapfile -t offered < <(_reconcile_choices "$command" "$option") ;;
    option) mapfile -t offered < <(_reconcile_options "$command") ;;
    command) offered=(@COMMANDS@) ;;
  esac
  for word in "${offered[@]}"; do
    [[ $word == "$cur"* ]] && COMPREPLY+=("$head$(printf %q "$word")")
  done
  # What bash takes for earlier words is not said again.
  local before=$head$cur
  if [[ $before == *:* && $COMP_WORDBREAKS == *:* ]]; then
    before=${before%"${before##*:}"}
  elif [[ $before == *=* && $COMP_WORDBREAKS == *=* ]]; then
    before=${before%"${before##*=}"}
  else
    before=
  fi
  COMPREPLY=("${COMPREPLY[@]#"$before"}")
}

complete -F _reconcile reconcile
"""


def script(table: Table) -> str:
    """The script for these commands."""
    kinds = [f"    *:{one}) echo {kind} ;;" for one, kind in _valued(table.shared)]
    for command in table.commands:
        kinds += [f"    {command.name}:{one}) echo {k} ;;" for one, k in _valued(command.options)]
    parts = {
        "OPTIONS": kinds,
        "CHOICES": list(_choices(table)),
        "ARGUMENTS": list(_arguments(table)),
        "LISTS": [
            f"    {command.name}) printf '%s\\n' {' '.join(_spellings(command.options))} ;;"
            for command in table.commands
            if command.options
        ],
    }
    text = _SCRIPT
    for name, lines in parts.items():
        text = text.replace(f"@{name}@", "\n".join(lines))
    text = text.replace("@SHARED@", " ".join([*_spellings(table.shared), "--help"]))
    return text.replace("@COMMANDS@", " ".join(command.name for command in table.commands))


def _valued(options: Sequence[Opt]) -> Iterator[tuple[str, Kind]]:
    for option in options:
        if option.kind is not Kind.FLAG:
            yield from ((spelling, option.kind) for spelling in option.spellings)


def _spellings(options: Sequence[Opt]) -> list[str]:
    return [spelling for option in options for spelling in option.spellings]


def _choices(table: Table) -> Iterator[str]:
    for command in table.commands:
        for option in command.options:
            if option.choices:
                keys = "|".join(f"{command.name}:{one}" for one in option.spellings)
                yield f"    {keys}) printf '%s\\n' {' '.join(option.choices)} ;;"


def _arguments(table: Table) -> Iterator[str]:
    for command in table.commands:
        for place, argument in enumerate(command.arguments):
            if argument.kind is not Kind.TEXT:
                yield f"    {command.name}:{place}) echo {argument.kind} ;;"
