"""The script for fish, 3.1 or newer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tables import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .tables import Arg, Command, Opt, Table

_SCRIPT = r"""# fish completion for reconcile, made by `reconcile completion fish`: do not edit.

function __reconcile_words # the command and its arguments, without options and their values
    set -l skip 0
    set -l plain 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if test $plain = 0 -a "$word" = --
            set plain 1
        else if test $plain = 0; and string match -q -- '-*' $word
            contains -- $word @VALUED@
            and set skip 1
        else
            echo -- $word
        end
    end
end

function __reconcile_none
    test (count (__reconcile_words)) = 0
end

function __reconcile_is -a name
    set -l words (__reconcile_words)
    test "$words[1]" = $name
end

function __reconcile_at -a name place
    set -l words (__reconcile_words)
    test "$words[1]" = $name -a (count $words) = (math $place + 1)
end

function __reconcile_ask -a what
    set -l tokens (commandline -opc)
    set -l words (__reconcile_words)
    set -l pass
    for n in (seq 2 (count $tokens))
        switch $tokens[$n]
            case -c --config --store
                set -a pass $tokens[$n] (string replace -r '^~/' $HOME/ -- $tokens[(math $n + 1)])
            case '--config=*' '--store=*'
                set -a pass $tokens[$n]
        end
    end 2>/dev/null
    set -l program (string replace -r '^~/' $HOME/ -- $tokens[1])
    if test $what = jobs
        command $program complete jobs $pass 2>/dev/null
    else
        command $program complete intervals $words[2] $pass 2>/dev/null
    end
end

complete -c reconcile -f
"""
_COMPLETE = "complete -c reconcile"


def script(table: Table) -> str:
    """The script for these commands."""
    lines = [
        *(_option(one, "") for one in table.shared),
        "complete -c reconcile -s h -l help -d 'Show help.'",
        "complete -c reconcile -n __reconcile_none -l version -d 'Print the version.'",
    ]
    for command in table.commands:
        lines += ["", *_command(command)]
    return _SCRIPT.replace("@VALUED@", " ".join(_valued(table))) + "\n".join(lines) + "\n"


def _valued(table: Table) -> list[str]:
    """Spellings of options that take a value; no command has a flag of the same spelling."""
    options = [*table.shared, *(one for c in table.commands for one in c.options)]
    flags = {s for one in options if one.kind is Kind.FLAG for s in one.spellings}
    valued = {s for one in options if one.kind is not Kind.FLAG for s in one.spellings}
    assert not flags & valued, f"a flag in one command, and no flag in another: {flags & valued}"
    return sorted(valued)


def _command(command: Command) -> Iterator[str]:
    yield f"{_COMPLETE} -n __reconcile_none -a {command.name} -d {_quoted(command.help)}"
    for option in command.options:
        yield _option(option, f" -n '__reconcile_is {command.name}'")
    for place, argument in enumerate(command.arguments):
        offered = _offered(argument)
        if offered:
            yield f"{_COMPLETE} -n '__reconcile_at {command.name} {place}' {offered}"


def _offered(one: Opt | Arg) -> str:
    if one.kind is Kind.FILE:
        return "-F"
    if one.kind is Kind.FOLDER:
        return "-a '(__fish_complete_directories)'"
    if one.kind is Kind.JOB:
        return "-a '(__reconcile_ask jobs)'"
    if one.kind is Kind.INTERVAL:
        return "-k -a '(__reconcile_ask intervals)'"
    if one.kind is Kind.PROGRAM:
        return "-a '(__fish_complete_command)'"
    return ""


def _option(option: Opt, condition: str) -> str:
    words = [_COMPLETE + condition]
    for spelling in option.spellings:
        bare = spelling.lstrip("-")
        words.append(f"-l {bare}" if spelling.startswith("--") else f"-s {bare}")
    if option.kind is not Kind.FLAG:
        words.append("-r" if option.kind is Kind.FILE else "-x")
        words.append(_offered(option))
    if option.choices:
        words.append(f"-a {_quoted(' '.join(option.choices))}")
    return " ".join([*filter(None, words), f"-d {_quoted(option.help)}"])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
