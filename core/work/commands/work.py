"""A command as the engine sees it: called under a supervisor, heard, stopped, proved.

One call after the other, one for each range, or one in all. What a call says on its progress pipe
is made durable as it comes, the newest line of those that wait; exit status 0 is the last
checkpoint of its range. A run goes on at the range where the cursor stands, and hands the call
the cursor that it left.

Whether it moves: a command that has never said so counts as moving while it lives, and only
`max_runtime` bounds it. Once it has written a line of progress it is held to that: without another
one within `progress_deadline` the lease is not renewed, and the supervisor ends the command
before the lease could be somebody else's. The deadline that the supervisor enforces follows each
renewal, from the thread that renews.

A command keeps no fence. So nobody else is granted its lease before that has expired, or its
holder and all that it had begun are gone (see `supervision`).
"""

from __future__ import annotations

from pathlib import PurePath
from threading import Event, Lock
from typing import TYPE_CHECKING

from ...endpoints import BrokenOff
from ...errors import LeaseLapsed, NotProved, ProgressUnusable
from ...events import Printed, Progress, Warned
from ...model import Reported, Unproved
from ...placeholders import fill_words
from ...steps import Step
from .endings import fault
from .leftovers import tell_of_leftovers
from .logs import Tail
from .progress import Standing, read_line
from .supervision import Ended, Output, Spec
from .surroundings import read_env_file, variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ...config import CommandConfig
    from ...errors import ReconcileError
    from ...events import DryRun
    from ...model import Fence, FenceRow, Interval, Json, JsonObject, LeaseKey, Proof, Write
    from ...ports import Clock, Reader, WorkOrder
    from ...rows import Change
    from .logs import Logs, RunLog
    from .supervision import SupervisedCommand

    Start = Callable[[Spec, float], SupervisedCommand]

LISTEN_SECONDS = 0.1
"""So long is a silent command listened to before signals and the lease are looked at."""


class CommandWork:
    """One interval of a job that is a command. `start` begins a call under a supervisor, up to a
    reading of `CLOCK_BOOTTIME`; `holder` is this process's token, by which its calls are known."""

    fenced = False

    def __init__(
        self,
        config: CommandConfig,
        start: Start,
        environ: Mapping[str, str],
        logs: Logs,
        clock: Clock,
        holder: str,
    ) -> None:
        self._config = config
        self._start = start
        self._environ = environ
        self._logs = logs
        self._clock = clock
        self._holder = holder
        self._stands = Standing(ranges=config.ranges)
        self._lock = Lock()
        self._child: SupervisedCommand | None = None
        self._broken_off = False
        self._log: RunLog | None = None

    def floor(self, key: LeaseKey) -> FenceRow | None:
        """See `ports.Work`."""
        return None

    def raise_fence(self, fence: Fence, store_id: str) -> FenceRow | None:
        """See `ports.Work`."""
        return None

    def steps(self, order: WorkOrder) -> Iterator[Step]:
        """See `ports.Work`. Raises what `endings.fault` gives, `ProgressUnusable`, `NotProved` for
        a range whose figures are not what was expected, and `BrokenOff`."""
        self._stands = self._standing(order)
        if self._heed_last_words(order):
            yield self._step(order)
        while self._stands.done < (self._config.ranges or 1):
            if order.stop_asked():
                raise BrokenOff
            yield from self._call(order, self._stands.done + 1)
            wrong = self._stands.disagreement() if self._config.ranges else None
            if wrong is not None:
                raise NotProved(f"range {self._stands.done + 1}: {wrong}", hint=_look(order))
            if self._config.ranges:
                self._stands = self._stands.next_range()
                order.reached("range_ended")
                yield self._step(order, ended=True)
            else:
                return

    def prove(self, order: WorkOrder) -> Reported | Unproved:
        """See `ports.Work`."""
        stands = self._stands
        if self._config.ranges:
            return Reported(stands.total)
        wrong = stands.disagreement()
        return Reported(stands.count, stands.checksum) if wrong is None else Unproved(wrong)

    def complete(self, order: WorkOrder, proof: Proof | Reported) -> Sequence[Write]:
        """See `ports.Work`."""
        return ()

    def key(self) -> Sequence[int]:
        """See `ports.Work`."""
        return ()

    def changes(
        self, interval: str | None, account: str | None
    ) -> Iterator[tuple[JsonObject, Change]]:
        """See `ports.Work`. There is no log of what a command changes."""
        return iter(())

    def preview(self, records: Reader, interval: Interval, limit: int) -> DryRun | None:
        """See `ports.Work`."""
        return None

    def still_waits(self, interval: Interval, waiting: JsonObject) -> bool:
        """See `ports.Work`."""
        return False

    def trust(self, until: float) -> None:
        """See `ports.Work`."""
        with self._lock:
            if self._child is not None:
                self._child.extend(until)

    def interrupt(self) -> None:
        """See `ports.Work`."""
        with self._lock:
            self._broken_off = True
            if self._child is not None:
                self._child.kill()

    def close(self) -> None:
        """See `ports.Work`."""
        self._end_call()
        if self._log is not None:
            self._log.close()

    # --- one call

    def _standing(self, order: WorkOrder) -> Standing:
        """Where the interval's cursor stands, if it was cut into as many ranges as now."""
        record = order.record
        begin = Standing(ranges=self._config.ranges)
        if record.cursor is None:
            return begin
        found = Standing.from_json(record.cursor)
        if found.ranges != self._config.ranges:
            text = "ranges was changed: it is worked from its first range"
            order.report(Warned(order.interval.job, text, order.now()))
            return begin
        if (record.failure or {}).get("exit") == NotProved.name:
            # What this range reported was wrong: its cursor leads to the end of that.
            return begin._replace(done=found.done, total=found.total)
        return found

    def _heed_last_words(self, order: WorkOrder) -> bool:
        """Go on from the lines that the run before was killed over, if it was in this range and
        pass; the supervisor has left them. Whether there is a checkpoint among them."""
        path = self._last_words(order, order.record.runs - 1, self._stands.done + 1)
        try:
            lines = path.read_bytes()
            path.unlink()
        except OSError:
            return False
        stands, checkpoint = self._stands, False
        for one in lines.split(b"\n")[:-1]:
            try:
                said = read_line(one)
            except ProgressUnusable:
                break  # a part of a long one
            stands = stands.after(said)
            if said.is_checkpoint:
                self._stands, checkpoint = stands, True
        return checkpoint

    def _last_words(self, order: WorkOrder, run: int, number: int) -> Path:
        """Where a run of this pass leaves them, of that range."""
        log = self._logs.path(order.interval, run)
        name = f"{log.name}-r{order.record.rerun}-{number}of{self._config.ranges or 1}.line"
        return log.with_name(name)

    def _call(self, order: WorkOrder, number: int) -> Iterator[Step]:
        """Call the command for a range, until it has ended well."""
        words = fill_words(self._config.command, order.interval)
        self._begin_call(order, words, number)
        listener = _Listener(self, order)
        try:
            while listener.ended is None:
                if listener.listen():
                    self._stands = listener.stands
                    yield self._step(order)
                listener.look()
        finally:
            self._end_call()
        ended, self._stands = listener.ended, listener.stands
        tell_of_leftovers(order, ended, self._log.fault if self._log is not None else None)
        if ended.why in ("deadline", "holder") or self._broken_off:
            self._lost(order)
        order.check()
        if listener.fault is not None:
            raise listener.fault
        # Also where it heeds SIGTERM by a status of its own; one that ended well has ended well.
        failed = fault(
            ended,
            self._config.python or PurePath(words[0]).name,
            job=order.interval.job,
            interval=order.interval.id,
            tail=listener.tail.lines(),
            at_range=f" in range {number}" if self._config.ranges else "",
            is_function=self._config.python is not None,
        )
        if failed is not None and listener.asked and ended.not_executed is None:
            raise BrokenOff
        if failed is not None:
            raise failed

    def _begin_call(self, order: WorkOrder, words: Sequence[str], number: int) -> None:
        order.progressed()
        config = self._config
        file = {} if config.env_file is None else read_env_file(config.env_file)
        told = variables(order, self._stands, number)
        spec = Spec(
            argv=words,
            cwd=config.cwd,
            env={**self._environ, **file, **config.env, **told},
            kill_after=config.kill_after.total_seconds(),
            run=order.fence.run,
            holder=self._holder,
            last_words=str(self._last_words(order, order.record.runs, number)),
        )
        if self._log is None:
            self._log = self._logs.open(order.interval, order.record.runs)
            self._log.write(b"")  # that it printed nothing can be seen
        child = self._start(spec, order.trusted_until())
        with self._lock:
            self._child = child
            # It may have been renewed, or lost, while the supervisor was started.
            child.extend(order.trusted_until())
            if self._broken_off:
                child.kill()
        order.reached("command_started")

    def _end_call(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.close()

    def _lost(self, order: WorkOrder) -> None:
        """The command was ended before the window was over; wait for what the lease says. Where
        that was renewed at the last moment, the interval is left to the next trigger all the
        same."""
        until, never = order.trusted_until(), Event()
        while self._clock.boot() < until:
            order.check()
            self._clock.wait(0.05, never)
        order.check()
        raise LeaseLapsed(
            f"the lease of {order.interval.job} was not renewed in time, and its command was ended",
            hint="the next trigger goes on from the last checkpoint",
        )

    def _step(self, order: WorkOrder, *, ended: bool = False) -> Step:
        stands, ranges = self._stands, self._config.ranges
        show: dict[str, Json] = {"ranges_done": stands.done}
        if ranges:
            show["ranges_total"] = ranges
        if ended:
            show["committed"] = stands.done
        counts = [count for count in (stands.total, stands.count) if count is not None]
        if counts:
            show["reported"] = Reported(sum(counts)).to_json()
        report = Progress(
            job=order.interval.job,
            interval=order.interval.id,
            phase="command",
            range=stands.done,
            total=ranges,
            exact=True,
            accounts=sum(counts),
            grant=0,
            revoke=0,
            update=0,
        )
        return Step(stands.to_json(), (), show, report, goes_on=True)

    # --- what it says

    def hear(self, order: WorkOrder, data: bytes) -> None:
        """Pass on what the command printed, into its log and to who watches."""
        assert self._log is not None, "a call is under way"
        self._log.write(data)
        order.report(Printed(order.interval.job, order.interval.id, data))

    @property
    def child(self) -> SupervisedCommand:
        """The call under way."""
        assert self._child is not None, "a call is under way"
        return self._child

    @property
    def stands(self) -> Standing:
        """How far it is, by its last checkpoint or what was reported since."""
        return self._stands


class _Listener:
    """Hears one call out."""

    def __init__(self, work: CommandWork, order: WorkOrder) -> None:
        self._work = work
        self._order = order
        self.stands = work.stands
        self.tail = Tail()
        self.ended: Ended | None = None
        self.fault: ReconcileError | None = None
        self.asked = False
        self._moves = False  # it has said so, and is held to it
        self._moved = False

    def listen(self) -> bool:
        """Take what has come; whether there was a checkpoint among it."""
        checkpoint = self._moved = False
        for event in self._work.child.events(LISTEN_SECONDS):
            if isinstance(event, Output):
                self.tail.feed(event.data)
                self._work.hear(self._order, event.data)
            elif isinstance(event, Ended):
                self.ended = event
            elif self.fault is None:
                checkpoint = self._read(event.data, is_cut=event.is_cut) or checkpoint
        return checkpoint

    def _read(self, data: bytes, *, is_cut: bool) -> bool:
        if not data.strip() and not is_cut:
            return False
        try:
            said = read_line(data, is_cut=is_cut)
        except ProgressUnusable as error:
            self.fault = error
            self._work.child.terminate()
            return False
        self._moves = self._moved = True
        self.stands = self.stands.after(said)
        return said.is_checkpoint

    def look(self) -> None:
        """After each time: is the lease good, does it move, is it to stop?"""
        if self._moved or not self._moves:
            self._order.progressed()
        else:
            self._order.check()
        if not self.asked and self._order.stop_asked():
            self.asked = True
            self._work.child.terminate()


def _look(order: WorkOrder) -> str:
    return f"see its output: reconcile logs {order.interval.job} {order.interval.id}"
