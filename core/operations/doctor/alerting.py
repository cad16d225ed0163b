"""Whether somebody would hear of trouble; with `--test-alert` whether somebody does.

A test calls each channel once with an alert of its own kind, `test`, and each heartbeat once as
a success does, so that its switch counts one.
"""

from __future__ import annotations

from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from ...errors import NotDelivered
from ...findings import fail, ok, warn
from ...masking import beyond_host, whose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...config import Config, Job
    from ...findings import Finding
    from ...model import JsonObject
    from ...ports import Clock, Notifier
    from .premises import Premises

SUBJECT = "alerts"
KIND = "test"
_TO_CALL = "(to call it: --test-alert)"


def alerts(config: Config, jobs: Sequence[Job], premises: Premises) -> Iterator[Finding]:
    """The channels, called by nobody."""
    wanted = config.alerts
    folder = str(config.path.parent)
    if wanted.command:
        name = wanted.command[0]
        found = premises.program(name, folder)
        if found is None:
            yield fail(
                SUBJECT,
                f"command {name} is not there, or may not be executed by {premises.user}",
                f"see [alerts] command; ls -l {name}",
            )
        else:
            yield ok(SUBJECT, f"command {found} {_TO_CALL}")
    for address in wanted.notify:
        yield ok(SUBJECT, f"{whose(address)} {_TO_CALL}")
    for job in jobs:
        if job.heartbeat is not None:
            yield ok(SUBJECT, f"heartbeat {beyond_host(job.heartbeat)} of {job.name} {_TO_CALL}")
    if wanted.metrics_file is not None:
        yield _metrics(wanted.metrics_file, premises)
    if not (wanted.command or wanted.notify or any(job.heartbeat for job in jobs)):
        yield warn(
            SUBJECT,
            "nobody is told when an interval is overdue or has failed",
            "name a command in [alerts], or let monitoring call: reconcile status --check",
        )


def _metrics(path: str, premises: Premises) -> Finding:
    folder = str(PurePath(path).parent)
    facts = premises.file(folder)
    if facts is None or not facts.is_folder:
        return fail(
            SUBJECT, f"the folder of metrics_file {path} is not there", f"mkdir -p {folder}"
        )
    if not facts.writable:
        return fail(
            SUBJECT,
            f"{premises.user} may not write metrics_file in {folder}",
            f"let {premises.user} write there: ls -ld {folder}",
        )
    return ok(SUBJECT, f"metrics_file {path}")


def tested(
    config: Config,
    jobs: Sequence[Job],
    notifier: Notifier | None,
    clock: Clock,
    host: str,
    beat: Callable[[Job], str],
) -> Iterator[Finding]:
    """The channels, each called once. `beat` calls a job's heartbeat: what it answered, or
    `NotDelivered`."""
    channels = notifier.channels if notifier is not None else ()
    for channel, shown in zip(channels, _shown(config), strict=True):
        assert notifier is not None, "else there is no channel"
        send = partial(notifier.send, channel, _alert(config, clock, host))
        yield _tried(shown, clock, send)
    for job in jobs:
        if job.heartbeat is not None:
            shown = f"heartbeat {beyond_host(job.heartbeat)} of {job.name}"
            yield _tried(shown, clock, partial(beat, job))
    if not channels and not any(job.heartbeat for job in jobs):
        yield warn(SUBJECT, "there is nobody to tell", "name a command in [alerts]")


def _shown(config: Config) -> Iterator[str]:
    if config.alerts.command:
        yield f"command {config.alerts.command[0]}"
    yield from map(whose, config.alerts.notify)


def _tried(shown: str, clock: Clock, send: Callable[[], str | None]) -> Finding:
    begin = clock.boot()
    try:
        answer = send()
    except NotDelivered as error:
        # Whoever refuses names the command or service first, and so does this line.
        said = str(error).removeprefix(shown.rsplit(maxsplit=1)[-1]).lstrip()
        return fail(SUBJECT, f"{shown}: {said}", error.hint or "see [alerts] in the configuration")
    seconds = clock.boot() - begin
    return ok(SUBJECT, f"{shown}: {answer or 'took it'} in {seconds:.1f} s")


def _alert(config: Config, clock: Clock, host: str) -> JsonObject:
    now = clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "schema": 1,
        "kind": KIND,
        "state": "raised",
        "id": f"{KIND}/{now}",
        "job": "doctor",
        "interval": "",
        "since": now,
        "age_seconds": 0,
        "host": host,
        "text": f"a test by reconcile doctor of {config.path}: nothing is wrong",
        "next": "reconcile status",
    }
