"""Makes reconcile.1, reconcile.toml.5 and the completion scripts from what the program declares:
python man/make.py.

Commands, options and exit statuses are the program's own declarations and docstrings; keys and
their defaults are those that it reads. Prose stands in the templates beside this file (`*.in`) and
in `keys`. A test compares the pages with what is made here, and mandoc has no fault to find.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from reconcile.cli.completion import SHELLS, script  # noqa: E402
from reconcile.cli.completion.tables import Arg, Command, Kind, Opt, table  # noqa: E402
from reconcile.cli.exit_codes import ExitCode  # noqa: E402
from reconcile.core import toml_defaults, toml_http, toml_sql  # noqa: E402

PAGES = ("reconcile.1", "reconcile.toml.5")
WIDTH = 70
_EXTRA = frozenset({"source.url"})
"""Keys that have no default, and are only in one kind of source."""
_TABLES = {
    "store": ("THE STORE", "In the table [store]."),
    "alerts": ("WHO IS TOLD", "In the table [alerts]."),
    "": ("JOBS", "In the table [jobs.NAME], one for each job."),
    "lease": ("THE LEASE", "In the table [jobs.NAME.lease]."),
    "catch_up": ("MISSED INTERVALS", "In the table [jobs.NAME.catch_up]."),
    "source": ("THE SOURCE", "In the table [jobs.NAME.source]."),
    "target": ("THE TARGET", "In the table [jobs.NAME.target]."),
    "guards": ("GUARDS", "In the table [jobs.NAME.guards]."),
}


def page(name: str) -> str:
    """The text of a page of `PAGES`."""
    text = (HERE / f"{name}.in").read_text(encoding="utf-8")
    parts = _of_commands() if name == "reconcile.1" else {"KEYS": _keys()}
    for mark, lines in parts.items():
        text = text.replace(f"@{mark}@", "\n".join(lines))
    return text


# --- reconcile.1


def _of_commands() -> Mapping[str, list[str]]:
    declared = table()
    return {
        "SHARED": [line for option in declared.shared for line in _option(option)],
        "COMMANDS": [line for command in declared.commands for line in _command(command)],
        "EXITS": list(_exits()),
    }


def _command(command: Command) -> Iterator[str]:
    yield f".Ss {command.name}"
    yield f".Nm reconcile {command.name}"
    yield from (_synopsis(option) for option in command.options)
    yield from (_argument(argument) for argument in command.arguments)
    for paragraph in command.text.split("\n\n"):
        yield ".Pp"
        yield from _prose(paragraph)
    if command.options:
        yield ".Bl -tag -width Ds"
        for option in command.options:
            yield from _option(option)
        yield ".El"


def _synopsis(option: Opt) -> str:
    shortest = min(option.spellings, key=len)
    value = "" if option.kind is Kind.FLAG else f" Ar {_text(option.metavar)}"
    return f".Op Fl {shortest[1:]}{value}"


def _argument(argument: Arg) -> str:
    name = argument.metavar.strip("[]")
    # Dots of several words are no end of a sentence.
    several = " ..." if name.endswith((".", "\N{HORIZONTAL ELLIPSIS}")) else ""
    name = _text(name.rstrip(".\N{HORIZONTAL ELLIPSIS}"))
    return f".Op Ar {name}{several}" if argument.metavar.startswith("[") else f".Ar {name}{several}"


def _option(option: Opt) -> Iterator[str]:
    spellings = sorted(option.spellings, key=len)
    value = "" if option.kind is Kind.FLAG else f" Ar {_text(option.metavar)}"
    yield ".It " + " , ".join(f"Fl {one[1:]}{value}" for one in spellings)
    yield from _prose(option.help)
    if option.choices and option.metavar == "S":
        yield from _prose(f"One of: {', '.join(option.choices)}.")


def _exits() -> Iterator[str]:
    for code, told in _told().items():
        yield f".It {code}"
        yield from _prose(told)


def _told() -> Mapping[int, str]:
    """What stands below each code in `cli/exit_codes.py`."""
    source = HERE.parent / "cli/exit_codes.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    (body,) = (n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "ExitCode")
    found: dict[int, str] = {}
    name = ""
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        elif name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found[ExitCode[name].value] = str(node.value.value)
    missing = [code for code in ExitCode if code.value not in found]
    if missing:
        raise SystemExit(f"cli/exit_codes.py says nothing below {', '.join(map(str, missing))}")
    return found


# --- reconcile.toml.5


def _keys() -> list[str]:
    known = defaults()
    told = _told_of_keys()
    missing = [key for key in known if key not in told]
    unknown = [key for key in told if key not in known]
    if missing or unknown:
        raise SystemExit(f"man/keys: lacks {missing}, and has what there is not: {unknown}")
    lines: list[str] = []
    for name, (heading, where) in _TABLES.items():
        lines += [f".Sh {heading}", *_prose(where), ".Bl -tag -width Ds"]
        for key, text in told.items():
            if _table_of(key) == name:
                shown = key.removeprefix(f"{name}.") if name else key
                lines += [f".It Cm {_text(shown)}", *_prose(text)]
                if known[key]:
                    lines += _prose(f"Default: {_sentence(known[key])}")
        lines.append(".El")
    return lines


def defaults() -> dict[str, str]:
    """Every key that there is, with what holds where the file says nothing; "" without."""
    found: dict[str, str] = dict.fromkeys(_EXTRA, "")
    for kind, without in toml_defaults.WITHOUT.items():
        found |= dict.fromkeys(without, "") | dict(toml_defaults.defaults(kind))
    # What files, APIs and databases have alike has the default of files.
    return {**toml_http.defaults(), **toml_sql.defaults(), **found}


def _table_of(key: str) -> str:
    first = key.partition(".")[0] if "." in key else ""
    return first if first in _TABLES else ""


def _told_of_keys() -> dict[str, str]:
    found: dict[str, str] = {}
    key = ""
    for line in (HERE / "keys").read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            key, _, rest = line.partition(" ")
            found[key] = rest.strip()
        else:
            found[key] = f"{found[key]} {line.strip()}".strip()
    return found


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


# --- roff


def _prose(text: str) -> Iterator[str]:
    """Text as lines of roff: each sentence begins a line, and none begins a request."""
    for sentence in re.split(r"(?<=[.:;?!])\s+(?=[A-Z{`])", " ".join(text.split())):
        for line in wrap(sentence, WIDTH, break_long_words=False, break_on_hyphens=False):
            yield _text(line)


def _text(line: str) -> str:
    quoted = (
        line.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    )
    return f"\\&{quoted}" if quoted.startswith((".", "'")) else quoted


if __name__ == "__main__":
    for one in PAGES:
        (HERE / one).write_text(page(one), encoding="utf-8")
    for shell, file in SHELLS.items():
        (HERE.parent / "completions" / file).write_text(script(shell), encoding="utf-8")
