"""Network calls that come back in time, whatever the network does.

A time-out of a socket does not bound a name that cannot be looked up, nor a server that sends a
byte a minute. So the call is made in a thread that nobody waits for longer than was said, and
that does not keep the process alive.
"""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T | None:
    """What the call returns; None where it takes longer, raises, or cannot be begun."""
    results: list[T] = []

    def work() -> None:
        try:
            results.append(call())
        except Exception:  # it may quote the address of a service, which is a secret
            return

    thread = begun(work)
    if thread is not None:
        thread.join(seconds)
    return results[0] if results else None


def begun(work: Callable[[], object]) -> Thread | None:
    """A thread that does it and that nobody waits for; None where the system has none left."""
    thread = Thread(target=work, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread
