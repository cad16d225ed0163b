"""Reading `reconcile.toml` and `conf.d/*.toml` into a `Config`, or refusing them.

Pure but for one thing: links in paths are followed, to see that store and target are two
files. A problem is never the end of reading: all problems of all files come in one
`ConfigError`, a line for each, `FILE line N: key: what is wrong`, with the mend below it.

What only a later version will know is refused by name, never accepted and ignored: a job
that seems to have a heartbeat and has none is worse than one that does not start.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from .config import (
    DAY,
    RESERVED,
    AlertsConfig,
    Config,
    EntitlementsConfig,
    Job,
    StoreConfig,
    TargetConfig,
    sqlite_path,
    sqlite_url,
)
from .errors import AccessDenied, ConfigError
from .toml_endpoints import database_url, scheme
from .toml_jobs import read_job
from .toml_values import Problems, Section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .toml_values import KeyPath, Problem

STORE_NAME = "reconcile.db"
SYSTEM_FOLDER = Path("/etc/reconcile")
SYSTEM_STORE = Path("/var/lib/reconcile/state.db")
SYSTEM_LOGS = Path("/var/log/reconcile")
LEAST_KEEP = 2 * DAY
"""Guards count what was revoked within a day."""

_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END = " (at end of document)"
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
JOB_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
NAME_RULE = "write up to 64 lower-case letters, digits, - and _; a letter or digit first"


def parse(
    files: Sequence[tuple[Path, str]],
    environ: Mapping[str, str],
    *,
    cwd: Path | None = None,
    store: str | None = None,
    read_secret: Callable[[Path], str] | None = None,
    check_store: Callable[[str], object] | None = None,
) -> Config:
    """The configuration of a main file and its drop-ins, which hold `[jobs.*]` only.

    `files` are absolute paths with their texts, the main file first. Relative paths in them
    are relative to the main file's folder. `cwd` only shortens the names of files in
    messages. `store` is a store's address that goes before the file's; relative paths in it
    are relative to `cwd`. `read_secret` gives what the file of a `KEY_file` holds. `check_store`
    raises `ConfigError` for an address that names no store that there is.

    Raises `ConfigError` with all problems; `AccessDenied` where that is all that is wrong.
    """
    main = files[0][0]
    problems = Problems(environ, main.parent, read_secret)
    url, keep = StoreConfig(default_store(main))
    alerts = AlertsConfig()
    jobs: dict[str, Job] = {}
    for number, (file, text) in enumerate(files):
        values = _values(file, text, problems)
        if values is None:
            continue
        top = Section(problems, file, (), values)
        if number == 0:
            if "alerts" in top:
                from .toml_alerts import read_alerts

                alerts = read_alerts(top.section("alerts"), main.parent)
            check = None if store is not None else check_store
            url, keep = _store(top.section("store"), main.parent, StoreConfig(url), check)
        else:
            for key in top.names():
                if key != "jobs":
                    top.raw(key)
                    top.wrong(key, "stands in a drop-in", f"put it into {_label(main, cwd)}")
        for job in _jobs(top.section("jobs"), main.parent, jobs, cwd):
            jobs[job.name] = job
        top.finish()
    if store is not None:
        url = database_url(store, cwd or main.parent)
    _check_files(url, jobs.values(), problems)
    if problems.found:
        error = _refusal(problems.found, files, cwd)
        if all(problem.denied for problem in problems.found):
            raise AccessDenied(str(error), hint=error.hint)
        raise error
    return Config(main, StoreConfig(url, keep), jobs, alerts)


def default_store(main: Path) -> str:
    """The store of a configuration that names none: beside the file, and for one under
    /etc/reconcile in /var/lib."""
    if main.is_relative_to(SYSTEM_FOLDER):
        return sqlite_url(SYSTEM_STORE)
    return sqlite_url(main.parent / STORE_NAME)


def _values(file: Path, text: str, problems: Problems) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except RecursionError:
        problems.add(file, (), "is nested too deeply", "write fewer brackets within brackets")
    except ValueError as error:
        what, place = str(error), _PLACE.search(str(error))
        line = int(place[1]) if place else None
        if what.endswith(_AT_END):
            line = max(1, len(text.splitlines()))
        what = _PLACE.sub("", what).removesuffix(_AT_END)
        text = f"not TOML: {what[:1].lower()}{what[1:]}"
        problems.add(file, (), text, "texts stand in quotes; see https://toml.io", line)
    return None


def _store(
    section: Section,
    folder: Path,
    usual: StoreConfig,
    check: Callable[[str], object] | None,
) -> StoreConfig:
    keep = section.duration("keep", least=LEAST_KEEP) or usual.keep
    key = "url_file" if "url_file" in section else "url"
    text = section.secret("url")
    section.finish()
    if text is None:
        return usual._replace(keep=keep)
    try:
        url = database_url(text, folder)
        if check is not None:
            check(url)
    except ConfigError as error:
        section.wrong(key, str(error).removeprefix("[store] url: "), error.hint)
        return usual
    return StoreConfig(url, keep)


def _jobs(
    section: Section, folder: Path, known: Mapping[str, Job], cwd: Path | None
) -> Iterator[Job]:
    for name in section.names():
        inner = section.section(name)
        if not JOB_NAME.fullmatch(name):
            section.wrong(
                name,
                "cannot be the name of a job",
                NAME_RULE,
            )
        elif name.startswith(RESERVED) and name != folder.name:
            section.wrong(name, "is a name that drill needs for itself", "give it another name")
        elif name in known:
            other = _label(known[name].origin, cwd)
            section.wrong(name, f"is a job of {other} too", "give it another name")
        elif (meant := _meant(name, section, known)) is not None:
            section.wrong(name, "is no job: it has neither source, target nor command", meant)
        else:
            job = read_job(inner, name, folder)
            if job is not None:
                yield job


def _meant(name: str, jobs: Section, known: Mapping[str, Job]) -> str | None:
    """The job whose name was mistyped over a table of its settings, as a question."""
    table = jobs.raw(name)
    if not isinstance(table, dict) or not all(isinstance(v, dict) for v in table.values()):
        return None
    if not table or {"source", "target", "command"} & table.keys():
        return None
    from difflib import get_close_matches

    others = [other for other in (*jobs.names(), *known) if other != name]
    near = get_close_matches(name, others, n=1)
    return f"did you mean jobs.{near[0]}.{next(iter(table))}?" if near else None


def _check_files(store: str, jobs: Iterable[Job], problems: Problems) -> None:
    """Refuse a target in the store's file, and two jobs that own the same rows."""
    owners: dict[tuple[str, str], list[tuple[Job, TargetConfig]]] = {}
    for job in jobs:
        if not isinstance(job.work, EntitlementsConfig):
            continue
        target, key = job.work.target, ("jobs", job.name, "target")
        both_files = scheme(store) == scheme(target.url) == "sqlite"
        if both_files and _real(store) == _real(target.url):
            problems.add(
                job.origin,
                key,
                "is the file of the store",
                "keep the store in a file of its own: [store] url",
            )
        others = owners.setdefault((target.url.partition("?")[0], target.table), [])
        for other, theirs in others:
            if theirs.scope is None or target.scope is None or theirs.scope == target.scope:
                problems.add(
                    job.origin,
                    key,
                    f"is the table of job {other.name} too, so each would undo the other's work",
                    "give each a scope of its own, or merge the jobs",
                )
        others.append((job, target))


def _real(url: str) -> Path:
    path = sqlite_path(url)
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links, which opening it will report
        return path


def _refusal(
    found: Sequence[Problem], files: Sequence[tuple[Path, str]], cwd: Path | None
) -> ConfigError:
    """One error for all problems, in the order of files and lines."""
    from .masking import mask
    from .toml_lines import key_lines

    lines: dict[Path, Mapping[KeyPath, int]] = {}
    for file, text in files:
        broken = any(problem.file == file and not problem.key for problem in found)
        lines[file] = {} if broken else key_lines(text)
    order = {file: number for number, (file, _) in enumerate(files)}
    placed = sorted(
        ((order[p.file], p.line or _line(lines[p.file], p.key) or 0, p) for p in found),
        key=lambda item: item[:2],
    )
    told: list[str] = []
    for _, line, problem in placed:
        place = _label(problem.file, cwd) + (f" line {line}" if line else "")
        key = ".".join(_spelled(part) for part in problem.key)
        told.append(": ".join(part for part in (place, key, problem.text) if part))
        told.append(f"  {problem.mend}" if problem.mend else "")
    problems = [
        (mask(text), mask(mend.strip())) for text, mend in zip(told[::2], told[1::2], strict=True)
    ]
    hint = told.pop().strip()
    error = ConfigError("\n".join(line for line in told if line), hint=hint)
    if len(problems) > 1:
        error.problems = problems
    return error


def _line(lines: Mapping[KeyPath, int], key: KeyPath) -> int | None:
    """The line of a key, or of the innermost table around it that is there."""
    return next((lines[key[:n]] for n in range(len(key), 0, -1) if key[:n] in lines), None)


def _spelled(part: str) -> str:
    return part if _BARE_KEY.fullmatch(part) else f'"{part}"'


def _label(file: Path, cwd: Path | None) -> str:
    """How a file is called in messages: from the current folder where it is inside."""
    if cwd is not None and file.is_relative_to(cwd):
        return str(file.relative_to(cwd))
    return str(file)
