"""One rehearsal: a scene, a connection to the store, and waiting for what is to happen."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...model import Kind, LeaseKey
from ...records import IntervalRecord, RunRecord
from .findings import Broke, Interrupted, NotRehearsed
from .scratch import COLUMNS, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ...ports import Runtime, Store
    from .stage import Actor, Scene, ScratchRow, Script, Stage

T = TypeVar("T")
LONG = 20.0
"""Seconds within which a process gets wherever it is to get, on a machine that is busy."""
LOOK = 0.03


class Proved(NamedTuple):
    """A scratch night that was completed: what the store says of it, and what was to be."""

    scene: Scene
    record: IntervalRecord
    source: Sequence[ScratchRow]


class Rehearsal:
    """What the rehearsals share. Everything is measured: by the store's records, by plain SQL in
    the scratch target, and by this host's clock."""

    def __init__(
        self,
        runtime: Runtime,
        store: Store,
        stage: Stage,
        script: Script,
        now: datetime,
        ends: float,
    ) -> None:
        """`now` is by the store's clock; at `ends`, seconds since boot, all waiting is over."""
        self.runtime = runtime
        self.store = store
        self.now = now
        self._ends = ends
        self.script = script
        self.scene = stage.scene(script)
        self.key = LeaseKey(script.job)

    def clock(self) -> float:
        """Seconds since boot."""
        return self.runtime.clock.boot()

    def until(self, what: Callable[[], T | None], awaited: str, seconds: float = LONG) -> T:
        """What `what` gives once that is true. Raises `NotRehearsed` where it never is, and
        `Interrupted` where somebody asked to stop."""
        give_up = self.clock() + seconds
        while True:
            found = what()
            if found:
                return found
            if self.runtime.stop.reason is not None:
                raise Interrupted
            if self.clock() > self._ends:
                raise NotRehearsed(f"{awaited} was waited for until the drill's time was over")
            if self.clock() > give_up:
                raise NotRehearsed(f"{awaited} was waited for in vain for {seconds:.0f} s")
            self.runtime.clock.wait(LOOK, Event())

    def hear(self, actor: Actor, step: str, times: int = 1) -> None:
        """Read the lines of a process up to the so-manieth one of that step."""

        def heard() -> bool:
            if actor.steps.count(step) >= times:
                return True
            if not actor.hear(LOOK) and actor.ended() is not None:
                raise NotRehearsed(
                    f"the process ended with {actor.ended()} before {step} {times}:"
                    f" {actor.last_words()}"
                )
            return actor.steps.count(step) >= times

        self.until(heard, f"step {step} {times} of the process")

    def end(self, actor: Actor) -> int:
        """The exit status of a process that nothing stops any more."""
        actor.let_go()
        self.until(lambda: actor.ended() is not None, "the end of a process")
        code = actor.ended()
        assert code is not None, "it was waited for"
        return code

    def completes(self) -> int:
        """Run the job once, to its end; the steps it took are many. Raises `NotRehearsed`."""
        actor = self.scene.start()
        code = self.end(actor)
        if code:
            raise NotRehearsed(f"the run ended with {code}: {actor.last_words()}")
        return code

    # --- what the store and the target say

    def runs(self) -> list[RunRecord]:
        """All runs of the job, oldest first."""
        found = self.store.scan(Kind.RUN, self.script.job)
        return [RunRecord.from_json(one.value) for one in found]

    def intervals(self) -> list[IntervalRecord]:
        """All intervals of the job that are on record, oldest first."""
        found = self.store.scan(Kind.INTERVAL, self.script.job)
        return [IntervalRecord.from_json(one.value) for one in found]

    def interval(self) -> IntervalRecord:
        """The one interval of the job. Raises `Broke` where it is not one."""
        found = self.intervals()
        if len(found) != 1:
            raise Broke(5, f"1 night was due, and {len(found)} are on record")
        return found[0]

    def committed(self) -> int:
        """How many ranges the target has a marker of."""
        found = self.scene.ask("SELECT count(*) FROM reconcile_ranges")
        return int(found[0][0]) if found else 0

    def fenced_at(self) -> int:
        """The generation of the target's fence row; 0 where there is none."""
        found = self.scene.ask("SELECT generation FROM reconcile_fence")
        return int(found[0][0]) if found else 0

    def table(self) -> list[ScratchRow]:
        """The rows of the target, in order."""
        return self.scene.ask(f"SELECT {', '.join(COLUMNS)} FROM {TABLE} ORDER BY 1, 2")

    def everything(self) -> tuple[object, ...]:
        """All that the target keeps, and what the store says of intervals and runs."""
        tables = (TABLE, "reconcile_fence", "reconcile_ranges", "reconcile_changes")
        return (
            [
                self.scene.ask(f"SELECT * FROM {one} ORDER BY 1, 2, 3, 4, 5, 6")
                for one in tables[1:]
            ],
            self.table(),
            self.intervals(),
            self.runs(),
            len(self.store.scan(Kind.EVENT, self.script.job)),
        )

    def proved(self, record: IntervalRecord) -> Proved:
        """For the recount at the end."""
        return Proved(self.scene, record, self.script.source)
