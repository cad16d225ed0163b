from __future__ import annotations

import errno
import signal

import pytest

from reconcile.cli.exit_codes import ExitCode, exit_code_of_error
from reconcile.core.errors import CommandFailed, ReconcileError
from reconcile.core.work.commands.endings import fault, signal_name
from reconcile.core.work.commands.supervision import Ended, NotExecuted, Why


def told(ended: Ended) -> ReconcileError | None:
    return fault(ended, "b.sh", job="b", interval="2026-11-30", tail=["last"], at_range="")


def of(status: int | None = None, number: int | None = None, why: Why = "itself") -> Ended:
    return Ended(status, number, None, why)


def test_each_exit_status_is_told_and_none_is_passed_on() -> None:
    assert told(of(0)) is None
    for status in range(1, 256):
        error = told(of(status))
        assert isinstance(error, CommandFailed)
        assert str(error) == f"b.sh exited {status}"
        assert error.facts == {"exit_status": status}
        assert exit_code_of_error(error) == ExitCode.FAILED


@pytest.mark.parametrize("number", range(1, signal.NSIG))
def test_each_signal_is_told_by_its_name(number: int) -> None:
    error = told(of(number=number))
    assert isinstance(error, CommandFailed)
    assert str(error) == f"b.sh was ended by {signal_name(number)}"
    assert error.facts == {"signal": signal_name(number)}
    assert exit_code_of_error(error) == ExitCode.FAILED
    if number < signal.SIGRTMIN and number not in (32, 33):
        assert signal_name(number) == signal.Signals(number).name


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOENT, ExitCode.UNREACHABLE),
        (errno.ENOTDIR, ExitCode.UNREACHABLE),
        (errno.ENOMEM, ExitCode.UNREACHABLE),
        (errno.EAGAIN, ExitCode.UNREACHABLE),
        (errno.ETXTBSY, ExitCode.UNREACHABLE),
        (errno.EACCES, ExitCode.ACCESS_DENIED),
        (errno.EPERM, ExitCode.ACCESS_DENIED),
        (errno.ENOEXEC, ExitCode.CONFIGURATION),
        (errno.E2BIG, ExitCode.CONFIGURATION),
    ],
)
@pytest.mark.parametrize("what", ["program", "cwd"])
def test_each_reason_not_to_begin_has_its_code_and_its_mend(
    number: int, code: ExitCode, what: str
) -> None:
    error = told(Ended(None, None, NotExecuted(what, number, "b.sh: why"), "itself"))  # type: ignore[arg-type]
    assert error is not None
    assert str(error) == "b.sh: why"
    assert error.hint
    assert exit_code_of_error(error) == code


def test_that_it_was_ended_with_its_supervisor_is_told() -> None:
    error = told(of(why="supervisor"))
    assert isinstance(error, CommandFailed)
    assert "with its supervisor" in str(error)
    assert error.tail == ("last",)
