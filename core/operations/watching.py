"""`status --watch`: how things stand, again and again, read from the store by any host.

A holder writes its progress to the store anyway, so whoever watches needs nothing from it. Once
a second two small records are read for each job: its lease, and the interval at work. Only when
one of them has changed, or after `REFRESH`, because clocks change what is shown too, is
everything read. All reads are on one connection; one that breaks is opened again, and a person
sees meanwhile what was read last, with a word that it is old.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

from ..errors import ReconcileError, StoreBusy, StoreUnreachable
from ..model import Kind, LeaseKey
from .overview import read_status

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from ..ports import Store
    from ..status import StatusReport
    from .application import Application
    from .views import Choice

EVERY = 1.0
"""Seconds between two looks."""
REFRESH = 10.0
"""Seconds after which everything is read again, whatever has changed."""

Signature = tuple[object, ...]


def watch(
    app: Application, job: str | None, interval: str | None, choice: Choice
) -> Generator[StatusReport, None, None]:
    """How things stand: at once, then about once a second where something has changed.

    Ends when somebody asks this process to stop and, of one interval, when that has a final
    state. Raises what `status` raises; where the store is lost later on, it is waited for.
    """
    names = [job] if job is not None else sorted(app.config.jobs)
    clock, never = app.runtime.clock, Event()
    store: Store | None = app.open_store()
    last: StatusReport | None = None
    seen: Signature | None = None
    read_at = 0.0
    try:
        while app.runtime.stop.reason is None:
            try:
                if store is None:
                    store = app.open_store()
                stands = signature(store, names)
                if last is None or stands != seen or clock.boot() - read_at >= REFRESH:
                    last = read_status(app, store, job, interval, choice)
                    seen, read_at = stands, clock.boot()
                    yield last
                    if last.interval is not None and last.interval.view.record.state.is_final:
                        return
            except (StoreUnreachable, StoreBusy) as error:
                if last is None:
                    raise
                yield _old(last, error)
                seen = None
                with suppress(ReconcileError):
                    _close(store)
                store = None
            clock.wait(EVERY, never)
    finally:
        _close(store)


def _close(store: Store | None) -> None:
    if store is not None:
        store.close()


def _old(last: StatusReport, error: ReconcileError) -> StatusReport:
    return replace(last, notes=[*last.notes, f"this is old, and is tried again: {error}"])


def signature(store: Store, names: Sequence[str]) -> Signature:
    """What changes whenever somebody works: grants, progress, checkpoints, and lets go."""
    found: list[object] = []
    for name in names:
        lease = store.lease(LeaseKey(name))
        if lease is None:
            found.append(None)
            continue
        worked = None
        if lease.live:
            record = store.get(Kind.INTERVAL, name, lease.interval)
            worked = record.version if record is not None else 0
        found.append((lease.fence, lease.live, lease.progress, worked))
    return tuple(found)
