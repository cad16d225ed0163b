"""Code of several processes in one, one step at a time: each runs in a thread of its own, and
only one of them runs at any time.

A fiber runs until it parks, and goes on only when somebody resumes it, so that a test decides
who is next, exactly and repeatably. One that is killed unwinds from where it is parked
without going on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Killed(BaseException):
    """What unwinds the code of a process that is no more; nobody may catch it."""


class Fiber:
    """One line of execution. `at` names where it is parked, `until` is the boot time before
    which it may not go on unless `wake` is set."""

    _local = threading.local()

    def __init__(self, owner: Any, body: Callable[[], Any]) -> None:
        self.owner = owner
        self.at = "begin"
        self.until: float | None = None
        self.wake: threading.Event | None = None
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._body = body
        self._killed = False
        self._go = threading.Lock()
        self._back = threading.Lock()
        self._go.acquire()
        self._back.acquire()
        self._thread: threading.Thread | None = None

    @classmethod
    def current(cls) -> Fiber:
        """The fiber that runs now."""
        fiber = cls.running()
        assert fiber is not None
        return fiber

    @classmethod
    def running(cls) -> Fiber | None:
        """The fiber that runs now; None in the test's own thread."""
        return getattr(cls._local, "fiber", None)

    def is_ready(self, boot: float) -> bool:
        """Whether it waits for nothing any more."""
        woken = self.wake is not None and self.wake.is_set()
        return self.until is None or woken or boot >= self.until

    def resume(self) -> None:
        """Let it run until it parks again or ends."""
        assert not self.done
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._go.release()
        self._back.acquire()

    def park(self, at: str, until: float | None = None, wake: Any = None) -> None:
        """Called by the fiber itself: let others run."""
        if self._killed:
            raise Killed
        self.at, self.until, self.wake = at, until, wake
        self._back.release()
        self._go.acquire()
        if self._killed:
            raise Killed

    def kill(self) -> None:
        """It never goes on. Its `finally` blocks run, and must have no effect."""
        self._killed = True
        if self._thread is None:
            self.done = True
        elif self is self.running():
            raise Killed
        elif not self.done:
            self._go.release()
            self._back.acquire()

    def _run(self) -> None:
        Fiber._local.fiber = self
        try:
            self.result = self._body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  (whoever resumes it looks at it)
            self.error = error
        self.done = True
        self.at = "end"
        self._back.release()
