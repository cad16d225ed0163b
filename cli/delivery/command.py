"""Calls the command that gets alerts.

No shell is between. It has its own process group, so that all of it can be ended when it takes
too long, and so that a Ctrl-C meant for us does not cut a page in half. What it prints is not
ours to show: its output is dropped, and of its errors the last line explains a failure.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from ...core.errors import NotDelivered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SECONDS = 30.0
"""So long may it take."""
_LONGEST = 200


def call(argv: Sequence[str], text: str, folder: Path, seconds: float = SECONDS) -> None:
    """Run it with the text on standard input. Raises `NotDelivered` where it cannot be begun,
    takes too long, or exits with anything but 0."""
    name = argv[0]
    try:
        # A file and not a pipe: a command that does not read it cannot keep us waiting.
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write(text.encode("utf-8", "backslashreplace"))
            given.seek(0)
            process = subprocess.Popen(
                argv,
                cwd=folder,
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            _wait(process, name, seconds)
            if process.returncode:
                errors.seek(0)
                raise NotDelivered(f"{name} {_how(process.returncode)}{_last_line(errors.read())}")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotDelivered(
            f"{name} cannot be called: {reason}", hint="see [alerts] command"
        ) from None


def _wait(process: subprocess.Popen[bytes], name: str, seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        raise NotDelivered(f"{name} took longer than {seconds:g}s and was ended") from None
    except BaseException:
        _end(process)
        raise


def _how(code: int) -> str:
    return f"exited {code}" if code > 0 else f"was ended by {_signal(-code)}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """The whole group, whoever of it is left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_line(errors: bytes) -> str:
    lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
    return f": {lines[-1].strip()[:_LONGEST]}" if lines else ""
