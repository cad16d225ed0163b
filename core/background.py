"""Calls that cannot be told how long they may take, and are waited for no longer all the same.

The system's look-up of a host's name is one: it has limits of its own, often more than half a
minute where the network is gone, and nothing breaks it off.
"""

from __future__ import annotations

from threading import Lock, Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
LOOKS_EVERY = 0.1
"""Seconds."""


class Background(Generic[_T]):
    """One call in a thread of its own, which is left to itself when nobody waits any more."""

    def __init__(self, call: Callable[[], _T], undo: Callable[[_T], object]) -> None:
        """Begin. `undo` is what becomes of a result that comes too late."""
        self._call = call
        self._undo = undo
        self._lock = Lock()
        self._is_left = False
        self._found: list[_T] = []
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, name="background", daemon=True)
        self._thread.start()

    def result(self, watch: Callable[[], None]) -> _T:
        """What the call returns or raises. `watch` is called again and again meanwhile; what it
        raises ends the waiting."""
        try:
            self._thread.join(LOOKS_EVERY)
            while self._thread.is_alive():
                watch()
                self._thread.join(LOOKS_EVERY)
        except BaseException:
            with self._lock:
                self._is_left = True
                late = self._found
            for found in late:
                self._undo(found)
            raise
        if self._error is not None:
            raise self._error
        return self._found[0]

    def _run(self) -> None:
        try:
            found = self._call()
        except Exception as error:  # noqa: BLE001  raised where it is waited for
            self._error = error
            return
        with self._lock:
            if not self._is_left:
                self._found.append(found)
                return
        self._undo(found)
