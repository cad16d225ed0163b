"""Nights whose source is an API, killed and stopped on their way; calls are counted there."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from queue import SimpleQueue

import pytest
from support.api import api_scene
from support.provider import Answer, Fault, Provider, grants, silent, status
from support.scene import NIGHTS, Scene

PAGES = 11


def table(provider: Provider) -> dict[tuple[str, str], str]:
    return {(i["account_id"], i["entitlement"]): i["level"] for i in provider.items}


def sending(number: signal.Signals, caller: SimpleQueue[int]) -> Fault:
    """The caller gets a signal instead of its answer."""

    def fault(_: Provider, answer: Answer) -> None:
        os.kill(caller.get(timeout=30), number)
        answer.reset = True

    return fault


def run_with(scene: Scene, provider: Provider, number: signal.Signals, at: int) -> int:
    """One run that gets the signal when it asks for the page that begins at that item."""
    caller: SimpleQueue[int] = SimpleQueue()
    provider.faults[at] = [sending(number, caller)]
    process = scene.start_process("run", "entitlements")
    caller.put(process.pid)
    return scene.end(process).code


@pytest.mark.parametrize("at", [0, 600, 1000])
def test_killed_at_a_page_the_next_run_asks_for_that_page_and_those_after_it(
    at: int, tmp_path: Path
) -> None:
    with Provider(grants(1050)) as provider:
        scene = api_scene(tmp_path, provider)
        assert run_with(scene, provider, signal.SIGKILL, at) == -signal.SIGKILL
        assert scene.run("run", "entitlements").code == 0
        assert (scene.rows(), len(provider.calls)) == (table(provider), PAGES + 1)


def test_a_signal_ends_a_listing_at_its_next_page_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with Provider(grants(1050)) as provider:
        scene = api_scene(tmp_path, provider)
        assert run_with(scene, provider, signal.SIGTERM, 600) == 128 + signal.SIGTERM
        assert len(provider.calls) == 7
        assert scene.run("run", "entitlements").code == 0
        assert (scene.rows(), len(provider.calls)) == (table(provider), PAGES + 1)


@pytest.mark.parametrize("step", ["range_planned:3:SIGKILL", "range_committed:7:SIGKILL"])
def test_killed_while_it_plans_or_applies_the_api_is_not_asked_again(
    step: str, tmp_path: Path
) -> None:
    with Provider(grants(1050)) as provider:
        scene = api_scene(tmp_path, provider)
        assert scene.run("run", "entitlements", step=step).code == -signal.SIGKILL
        assert scene.run("run", "entitlements").code == 0
        assert (scene.rows(), len(provider.calls)) == (table(provider), PAGES)
        assert len(scene.log(NIGHTS[-1])) == 1050


def test_time_that_is_up_ends_a_listing_at_its_next_page(tmp_path: Path) -> None:
    with Provider(grants(1050)) as provider:
        scene = api_scene(tmp_path, provider)
        provider.faults[300] = [silent(1.5)]
        assert scene.run("run", "entitlements", "--max-runtime", "1s").code == 124
        assert not scene.rows()
        assert len(provider.calls) <= 4
        assert scene.run("run", "entitlements").code == 0
        assert (scene.rows(), len(provider.calls)) == (table(provider), PAGES + 1)


def test_a_signal_ends_the_wait_for_a_pause(tmp_path: Path) -> None:
    with Provider(grants(1050)) as provider:
        scene = api_scene(tmp_path, provider)
        provider.faults[300] = [status(429, Retry_After="50")]
        process = scene.start_process("run", "entitlements")
        until = time.monotonic() + 30
        while len(provider.calls) < 4 and time.monotonic() < until:
            time.sleep(0.01)
        begun = time.monotonic()
        process.terminate()
        assert scene.end(process).code == 128 + signal.SIGTERM
        assert time.monotonic() - begun < 20
        assert scene.run("run", "entitlements").code == 0
        assert (scene.rows(), len(provider.calls)) == (table(provider), PAGES + 1)
