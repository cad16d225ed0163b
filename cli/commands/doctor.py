"""`reconcile doctor`: look at everything a job needs, and say how to mend what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ...core.errors import ReconcileError, UsageError
from ..exit_codes import ExitCode
from ..options import Argument, Call, Option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...core.config import Job
    from ...core.findings import Finding
    from ...core.operations.doctor import Parts
    from ..premises import LinuxPremises

OneJobArgument = Annotated[str | None, Argument("[JOB]", "This job only; all jobs without it.")]
DdlOption = Annotated[
    bool,
    Option(("--ddl",), "Print what an administrator runs where jobs may not create tables."),
]
TestAlertOption = Annotated[
    bool, Option(("--test-alert",), "Send one alert to each channel, call each heartbeat once.")
]


def doctor(
    call: Call,
    job: OneJobArgument = None,
    ddl: DdlOption = False,
    test_alert: TestAlertOption = False,
) -> int:
    """Check configuration, store, clocks, rights, sources, targets, triggers and alerts.

    Each finding is ok, warn or FAIL, with how to mend it. Nothing is written, and no lease is
    taken. A heartbeat that --test-alert calls counts it as a success. Exit status 0, or 1 where
    something has to be mended.
    """
    if ddl:
        if test_alert or call.options.json:
            raise UsageError("--ddl prints statements alone", hint="call it without the others")
        return _ddl(call, job)
    findings = list(_findings(call, job, test_alert=test_alert))
    from ...core.operations.doctor import failed

    code = ExitCode.FAILED if failed(findings) else ExitCode.OK
    if call.options.json:
        from ..render.doctor import as_object
        from ..render.objects import line

        call.env.data(line(as_object(findings, code)))
        return code
    from ..render.doctor import text
    from ..render.watch import style_of

    style = style_of(call, terminal=call.env.stdout_is_terminal)
    call.env.data(text(findings, style, quiet=call.options.quiet))
    return code


def _findings(call: Call, job: str | None, *, test_alert: bool) -> Iterator[Finding]:
    from ...core.operations.doctor import clocks, configuration, doctor
    from ..premises import LinuxPremises

    premises = LinuxPremises(call.env.environ)
    try:
        parts = _parts(call, premises)
    except ReconcileError as error:
        yield from configuration.trouble(error)
        yield from clocks.zones(premises.zones(), ())
        return
    yield from doctor(parts, job, deliver=not test_alert)
    if test_alert:
        yield from _tested(call, parts, job)


def _parts(call: Call, premises: LinuxPremises) -> Parts:
    from ...core.operations.doctor import Parts
    from ..configuration import read
    from ..wiring import application, examiner, store_looker, store_owner

    app = application(
        call, lambda report: None, lambda step: None, makes_store=True, only_looks=True
    )
    files = read(call.options.config, environ=call.env.environ, cwd=call.env.cwd)
    return Parts(
        app=app,
        premises=premises,
        files=[str(path) for path, _ in files],
        texts=[text for _, text in files],
        look_at_store=store_looker(app.config, call.env),
        examine=examiner(app.config, call.env),
        owner_of_store=store_owner(app.config),
    )


def _tested(call: Call, parts: Parts, only: str | None) -> Iterator[Finding]:
    from ...core.operations.doctor import alerting

    config = parts.app.config
    jobs = [parts.app.job(only)] if only is not None else list(config.jobs.values())

    def beat(job: Job) -> str:
        from ..delivery.heartbeat import called_once

        assert job.heartbeat is not None, "it is called where there is one"
        return called_once(job.heartbeat, call.env.entropy.token())

    host = call.env.host.holder().host
    yield from alerting.tested(config, jobs, parts.app.notifier, call.env.clock, host, beat)


def _ddl(call: Call, only: str | None) -> int:
    from ..wiring import application, statements

    app = application(
        call, lambda report: None, lambda step: None, makes_store=True, only_looks=True
    )
    jobs = [app.job(only)] if only is not None else list(app.config.jobs.values())
    call.env.data("\n".join(statements(app.config, jobs, call.env)))
    return ExitCode.OK
