"""A call that nobody waits for any more."""

from __future__ import annotations

from threading import Event

import pytest
from support.fakes import eventually

from reconcile.core.background import Background


def watch() -> None:
    raise TimeoutError


def test_what_the_call_gives_or_raises_is_had() -> None:
    assert Background(lambda: 7, print).result(watch) == 7
    with pytest.raises(ZeroDivisionError):
        Background(lambda: 1 / 0, print).result(watch)


def test_what_comes_too_late_is_undone() -> None:
    comes, undone = Event(), []
    call = Background(lambda: comes.wait(30), undone.append)
    with pytest.raises(TimeoutError):
        call.result(watch)
    assert undone == []
    comes.set()
    eventually(lambda: undone == [True], "it is undone")
