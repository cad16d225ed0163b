"""`reconcile init`: a configuration to begin with, or a ready demo."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Annotated

from ..demo import SOURCE, TARGET, DemoFacts, make_config, make_demo
from ..options import Call, Option

if TYPE_CHECKING:
    from pathlib import Path

JOB = "entitlements"
DemoOption = Annotated[bool, Option(("--demo",), "With a job, a source and a target to try it on.")]


def init(
    call: Call,
    demo: DemoOption = False,
) -> int:
    """Write a commented reconcile.toml here, or where --config says. Never overwrites.

    Exit status 0, or 2 where a file is there already.
    """
    path = call.env.cwd / (call.options.config or "reconcile.toml")
    if demo:
        facts = make_demo(path, call.env.clock.now().date())
        names = [path.name, SOURCE, TARGET]
        text = _demo_text(call, path, facts)
    else:
        make_config(path)
        names = [path.name]
        text = _text(call, path)
    if call.options.json:
        files = [str(path.with_name(name)) for name in names]
        call.env.data(json.dumps({"schema": 1, "files": files}) + "\n")
    elif not call.options.quiet:
        call.env.words(text)
    return 0


def _demo_text(call: Call, path: Path, facts: DemoFacts) -> str:
    wide = max(len(path.name), len(SOURCE), len(TARGET))
    me = _command(call, path)
    run = f"{me} run {JOB}"
    return (
        f"  {path.name:{wide}}   one job, {JOB}: nightly at 00:00 UTC, due now\n"
        f"  {SOURCE:{wide}}   what accounts should have: {facts.source_rows:,} rows,"
        f" {facts.accounts:,} accounts\n"
        f"  {TARGET:{wide}}   what they have now: table {JOB}, {facts.target_rows:,} rows\n"
        "\n"
        "Next:\n"
        f"  {run + ' --dry-run':{len(run) + 10}}   see what would change\n"
        f"  {run:{len(run) + 10}}   change it\n"
        f"  {me + ' status':{len(run) + 10}}   see what happened\n"
    )


def _text(call: Call, path: Path) -> str:
    me = _command(call, path)
    wide = len(f"{me} run {JOB} --dry-run")
    return (
        f"  {path.name}   no job yet, one as an example\n"
        "\n"
        "Next:\n"
        f"  edit {shlex.quote(str(path))}\n"
        f"  {me + ' config':{wide}}   check it, and see what it means\n"
        f"  {me + f' run {JOB} --dry-run':{wide}}   look at both sides, change nothing\n"
    )


def _command(call: Call, path: Path) -> str:
    """The program with what it takes to find that configuration again."""
    name = shlex.quote(call.env.program)
    return name if call.options.config is None else f"{name} -c {shlex.quote(str(path))}"
