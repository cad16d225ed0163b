"""How a command is kept within the lease: the words; `events.py` has them all.

A command runs under a small process of its own, the supervisor, which is told each renewed
deadline, enforces it alone, and ends every descendant of the command, so that none can write once
the lease may be somebody else's, whatever became of the process that holds it.
"""

from .events import (
    LONGEST_LINE,
    Ended,
    Event,
    NotExecuted,
    Output,
    Process,
    ProgressLine,
    Spec,
    SupervisedCommand,
    Why,
)

__all__ = [
    "LONGEST_LINE",
    "Ended",
    "Event",
    "NotExecuted",
    "Output",
    "Process",
    "ProgressLine",
    "Spec",
    "SupervisedCommand",
    "Why",
]
