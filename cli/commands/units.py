"""`reconcile units`: what cron or systemd needs to call a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ...core.errors import UsageError
from ..exit_codes import ExitCode
from ..options import Call, JobArgument, Option, duration_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from ..units.files import Written
    from ..units.plan import Plan

SystemdOption = Annotated[bool, Option(("--systemd",), "A service and a timer.")]
CrontabOption = Annotated[
    bool, Option(("--crontab",), "A crontab line; with --output, a file for /etc/cron.d.")
]
EveryOption = Annotated[
    str | None, Option(("--every",), "Knock so often; else 10m, 5m or 1m, as needed.", "D")
]
SpreadOption = Annotated[
    bool, Option(("--spread",), "Knock at minutes of its own, so that not all jobs begin at once.")
]
OutputOption = Annotated[
    Path | None, Option(("--output",), "Write files into this folder, not to the screen.", "DIR")
]
ForceOption = Annotated[bool, Option(("--force",), "Replace files that are there and differ.")]
UserOption = Annotated[
    str | None, Option(("--user",), "Run it as NAME; else as the store's owner, or you.", "NAME")
]
FailureOption = Annotated[
    str | None, Option(("--on-failure",), "Unit that systemd starts when a call fails.", "UNIT")
]
SYSTEMD_FOLDER = "/etc/systemd/system"


def units(
    call: Call,
    job: JobArgument,
    systemd: SystemdOption = False,
    crontab: CrontabOption = False,
    every: EveryOption = None,
    spread: SpreadOption = False,
    output: OutputOption = None,
    force: ForceOption = False,
    user: UserOption = None,
    on_failure: FailureOption = None,
) -> int:
    """Print what calls JOB: a crontab line, or a hardened service and its timer.

    They work as printed, from any folder and with an empty environment. Files that exist are
    left as they are where they differ, unless --force. Exit status 0, or 2 for such a file.
    """
    if systemd == crontab:
        raise UsageError(
            "say one of --systemd and --crontab", hint=f"write reconcile units {job} --crontab"
        )
    if on_failure is not None and not systemd:
        raise UsageError("--on-failure is for --systemd", hint="cron mails what is printed")
    if force and output is None:
        raise UsageError("--force is for --output", hint="add --output DIR")
    often = _every(every, systemd=systemd)
    found = _plan(call, job, often, user, systemd=systemd, spread=spread)
    texts = _texts(found, systemd=systemd, on_failure=on_failure, user=output is not None)
    if output is None:
        _print(call, found, texts, systemd=systemd)
    else:
        from ..units.files import write

        again = _again(call, job, "--systemd" if systemd else "--crontab", output)
        written = write(call.env.cwd / output, texts, force=force, again=again)
        _told(call, found, written, systemd=systemd)
    return ExitCode.OK


def _again(call: Call, job: str, kind: str, output: Path) -> str:
    from shlex import quote

    program = call.options.program(call.env.program)
    return f"{program} units {job} {kind} --output {quote(str(output))}"


def _every(text: str | None, *, systemd: bool) -> timedelta | None:
    """The time between knocks that was asked for. Raises `UsageError` for one that no clock has."""
    from ..units.plan import MINUTE, SECOND, divides

    every = duration_of(text, "--every")
    if every is not None and not divides(every, SECOND if systemd else MINUTE):
        seconds = "5, 10, 15, 20 or 30 seconds; " if systemd else ""
        raise UsageError(
            f"--every {text}: such knocks have no fixed place on a clock",
            hint=f"say {seconds}1, 2, 5, 10, 15, 20 or 30 minutes; 1, 2, 3, 4, 6, 8 or 12 hours;"
            " or 1d",
        )
    return every


def _plan(
    call: Call,
    name: str,
    every: timedelta | None,
    user: str | None,
    *,
    systemd: bool,
    spread: bool,
) -> Plan:
    from ...core.operations.application import job_named
    from ...core.toml import parse
    from ..configuration import read, read_secret
    from ..units.plan import plan
    from ..wiring import check_store

    env, options = call.env, call.options
    files = read(options.config, environ=env.environ, cwd=env.cwd)
    noting = _Noting(env.environ)
    config = parse(files, noting, cwd=env.cwd, store=options.store, read_secret=read_secret)
    check_store(config, env)
    made = plan(
        config,
        job_named(config, name),
        sorted(noting.asked),
        installation=env.installation,
        store=options.store,
        user=user or "",
        every=every,
        shift=env.ahead,
        local=not systemd,
        spread=spread,
    )
    return made if user else made._replace(user=_owner(made.needs.store) or env.login)


class _Noting(dict[str, str]):
    """Variables, of which it is noted which were asked for."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self.asked: set[str] = set()

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """The variable's value, which is noted."""
        self.asked.add(key)
        return super().get(key, default)


def _owner(store: Path | None) -> str | None:
    """Whose the store is: it is readable for its owner only, so nobody else can run the job."""
    from ..host import user_name

    if store is None:
        return None
    try:
        return user_name(store.stat().st_uid)
    except OSError:
        return None


def _texts(plan: Plan, *, systemd: bool, on_failure: str | None, user: bool) -> Mapping[str, str]:
    """Each file's text by its name."""
    if not systemd:
        from ..units.cron import lines

        return {plan.unit: lines(plan, user=user)}
    from ..units.systemd import service, timer

    return {
        f"{plan.unit}.service": service(plan, on_failure=on_failure),
        f"{plan.unit}.timer": timer(plan),
    }


def _print(call: Call, plan: Plan, texts: Mapping[str, str], *, systemd: bool) -> None:
    if call.options.json:
        _as_object(call, plan, [{"name": name, "text": text} for name, text in texts.items()])
        return
    for number, (name, text) in enumerate(texts.items()):
        head = f"# {SYSTEMD_FOLDER}/{name}\n" if systemd else ""
        call.env.data(("\n" if number else "") + head + text)
    _warn(call, plan)


def _told(call: Call, plan: Plan, written: Sequence[Written], *, systemd: bool) -> None:
    """What became of each file, and what to type next."""
    if call.options.json:
        files = [{"path": str(one.path), "became": one.became} for one in written]
        _as_object(call, plan, files)
        return
    if call.options.quiet:
        return
    from ..units.plan import often

    wide = max(len(str(one.path)) for one in written)
    last = f"due {plan.due}, knocks {often(plan.every)}"
    for number, one in enumerate(written, start=1):
        facts = [] if one.became == "written" else [one.became]
        facts += [last] if number == len(written) else []
        call.env.words(f"  {one.path!s:{wide}}  {'; '.join(facts)}".rstrip() + "\n")
    if systemd:
        timer = f"{plan.unit}.timer"
        call.env.words(f"\nNext:\n  systemctl daemon-reload\n  systemctl enable --now {timer}\n")
    _warn(call, plan)


def _as_object(call: Call, plan: Plan, files: Sequence[Mapping[str, str]]) -> None:
    from ..render.objects import line

    call.env.data(
        line(
            {
                "schema": 1,
                "job": plan.job,
                "every_seconds": int(plan.every.total_seconds()),
                "user": plan.user,
                "files": list(files),
                "variables": list(plan.variables),
                "notes": _notes(plan),
            }
        )
    )


def _warn(call: Call, plan: Plan) -> None:
    if not call.options.quiet:
        call.env.words("".join(f"warning: {note}\n" for note in _notes(plan)))


def _notes(plan: Plan) -> list[str]:
    """What a person has to know of this call."""
    from ..units.plan import often

    found = []
    if not plan.enough:
        found.append(
            f"{plan.job} is due {plan.due}: a knock {often(plan.every)} does not hit each of its"
            " times, which begin that much later"
        )
    if plan.variables:
        found.append(
            f"{plan.origin.name} reads {', '.join(plan.variables)}: neither cron nor systemd has"
            " what this shell has; see the comment for where to say it"
        )
    return found
