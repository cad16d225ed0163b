"""`doctor`: looks at everything that a job needs, and says how to mend what is wrong.

It goes on whatever it finds: a refusal of one part is a finding, and the others are looked at all
the same. It takes no lease and writes nothing; a store that is not there yet is not made. Each
call over a network is bounded in time. Every check is a function of values that returns
findings; what stands outside (files, crontabs, timers) comes as values from
`premises.Premises`, and what only a store, source or target can say comes from it.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from ...errors import ReconcileError
from ...findings import STORE, Level, noted, refused
from ..look import look
from . import alerting, clocks, configuration, standing, triggers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from ...config import Job
    from ...findings import Finding, StoreLook
    from ...model import StoreFacts
    from ...ports import Store
    from ..application import Application
    from ..look import Look
    from .premises import Premises
    from .standing import Awaited


class Parts(NamedTuple):
    """What is looked at. `files` with their `texts` are the configuration's; `look_at_store` looks
    without opening; `examine` looks at what a job works on, for the interval that its source is
    awaited for."""

    app: Application
    premises: Premises
    files: Sequence[str]
    texts: Sequence[str]
    look_at_store: Callable[[], StoreLook]
    examine: Callable[[Job, Awaited | None], Iterable[Finding]]
    owner_of_store: str | None = None


class _Seen(NamedTuple):
    """What the store's records say of the jobs; empty where it could not be read."""

    facts: StoreFacts | None
    asked: clocks.Asked | None
    looks: dict[str, Look]
    begun: dict[str, datetime | None]
    findings: list[Finding]


def doctor(parts: Parts, only: str | None = None, *, deliver: bool = True) -> Iterator[Finding]:
    """All findings, those of one subject together; of one job and what all share with `only`
    (`UnknownJob`). Without `deliver` the channels of alerts are not looked at, because they are
    about to be called."""
    app = parts.app
    config = app.config
    names = [only] if only is not None else sorted(config.jobs)
    jobs = [app.job(name) for name in names]
    yield from configuration.configuration(config, parts.files, parts.premises, parts.texts)
    yield from configuration.user(parts.premises, parts.owner_of_store)
    found = parts.look_at_store()
    yield from found.findings
    seen = _read(app, jobs) if found.ready else _Seen(None, None, {}, {}, [])
    yield from (one for one in seen.findings if one.subject == STORE)
    yield from _clock(parts, seen, jobs)
    now = app.runtime.clock.now() if seen.facts is None else seen.facts.now
    yield from triggers.triggers(config, jobs, parts.premises, now, seen.begun)
    for job in jobs:
        yield from (one for one in seen.findings if one.subject == job.name)
        yield from _job(parts, job, standing.awaited(job, seen.looks.get(job.name), now))
    if deliver:
        yield from alerting.alerts(config, jobs, parts.premises)


def failed(findings: Iterable[Finding]) -> int:
    """How many have to be mended."""
    return sum(one.level is Level.FAIL for one in findings)


def _read(app: Application, jobs: Sequence[Job]) -> _Seen:
    """Open the store and look at every job in it."""
    seen = _Seen(None, None, {}, {}, [])
    clock = app.runtime.clock
    try:
        with closing(app.open_store()) as store:
            before = clock.now()
            facts = store.facts()
            asked = clocks.Asked(before, facts.now, clock.now())
            seen = seen._replace(facts=facts, asked=asked)
            seen.findings.extend(map(noted, facts.warnings))
            for job in jobs:
                _look(store, job, facts.now, seen)
    except ReconcileError as error:
        seen.findings.append(refused(STORE, error))
    return seen


def _look(store: Store, job: Job, now: datetime, seen: _Seen) -> None:
    found = look(store, job, now)
    seen.looks[job.name] = found
    seen.begun[job.name] = standing.begun(store, job, found)
    seen.findings.extend(standing.standing(store, job, found))


def _clock(parts: Parts, seen: _Seen, jobs: Sequence[Job]) -> Iterator[Finding]:
    if seen.facts is not None and seen.asked is not None:
        holder = parts.app.runtime.host.holder()
        yield from clocks.clock(seen.asked, shared=not seen.facts.single_host, holder=holder)
    yield from clocks.zones(parts.premises.zones(), jobs)


def _job(parts: Parts, job: Job, waits: Awaited | None) -> Iterator[Finding]:
    try:
        yield from parts.examine(job, waits)
    except ReconcileError as error:
        yield refused(job.name, error)
