"""What Python 3.11 has no words for: prctl(2), and timers on the clock that counts suspend."""

from __future__ import annotations

import ctypes
import os
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_TFD_TIMER_ABSTIME = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int | bytes) -> None:
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    _checked(_libc.prctl(option, argument, 0, 0, 0))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def signal_when_parent_ends(number: int) -> None:
    """Be sent a signal when the thread that made this process ends. Whoever asks for this has
    to look afterwards whether it had ended before."""
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Become the parent of each descendant whose own has ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def name_this_process(name: bytes) -> None:
    """What `ps -o comm` shows; at most 15 bytes."""
    _prctl(_PR_SET_NAME, name)


def go_first() -> None:
    """Before everybody else when there is something to do, where we may: on a machine that is
    busy a deadline would be late by as long as one waits for a processor. Not so the children."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        pass  # that is for administrators; who sleeps nearly always is served soon all the same


def boot_offset() -> float:
    """Seconds that this time namespace adds to `CLOCK_BOOTTIME`; 0 where there is none."""
    try:
        with open("/proc/self/timens_offsets", encoding="ascii") as lines:
            for line in lines:
                name, seconds, nanoseconds = line.split()
                if name == "boottime":
                    return int(seconds) + int(nanoseconds) / 1e9
    except FileNotFoundError:  # a kernel without time namespaces
        pass
    return 0.0


def now() -> float:
    """`CLOCK_BOOTTIME` in seconds, as this time namespace has it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Timer:
    """A descriptor that can be read once a moment of `CLOCK_BOOTTIME` has come. After a suspend
    in which it came, that is at once; a timeout of poll(2) would go on where it stood."""

    def __init__(self) -> None:
        self.fd = _checked(_libc.timerfd_create(time.CLOCK_BOOTTIME, os.O_CLOEXEC | os.O_NONBLOCK))

    def set(self, at: float) -> None:
        """The moment, in seconds."""
        nanoseconds = max(1, int(at * 1e9))  # 0 would mean never
        spec = (ctypes.c_long * 4)(0, 0, nanoseconds // 10**9, nanoseconds % 10**9)
        _checked(_libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, spec, None))
