"""Functions as work: `python = "module:function"`, a generator that yields checkpoints.

It runs in a process of its own, under the same supervisor, by the same protocol, as any command
does (`supervision`, `progress`, `surroundings`): the process is `runner.py`, under the Python that
runs us, so that a function finds what is installed beside us.

What it can import
    Modules beside the job (`cwd`) come first, as if the job were a script there. So a `json.py`
    beside it is what it gets by `import json`. But nothing of ours imports what is there: the
    runner has imported all that it needs before, and then forgets those of its own that have a
    namesake in `cwd`. Only the name `reconcile` is always ours.

What a yield means
    The generator goes on when what it yielded is durable: a second line is written behind each
    checkpoint, and there is room for one only, so that it waits (`supervision/slot.py`). Killed at
    any moment, a function repeats at most the step under way.

How it ends
    Asked to stop (SIGTERM), it is closed at its next yield, so that its `finally` is carried out;
    within `kill_after`, then it is killed. An exception is a traceback in the log, from which our
    own part is cut, and a failure of the run. What keeps it from being called at all (no such
    module or function, no generator), or from going on (it yields what is no checkpoint), is
    said in one line that begins with `SAYS`, and its exit status is `REFUSED`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

REFUSED = 78
SAYS = "reconcile: "
_RUNNER = Path(__file__).with_name("runner.py")


def call_of(function: str) -> Sequence[str]:
    """The command that runs `module:function`. `-P`: the folder of the runner is none to import
    from; `-u`: what is printed is seen when it is printed."""
    return (sys.executable, "-P", "-u", str(_RUNNER), function)


def refusal(status: int | None, tail: Sequence[str]) -> str | None:
    """What the runner said in place of calling; None where that is not how it ended."""
    if status != REFUSED or not tail or not tail[-1].startswith(SAYS):
        return None
    return tail[-1].removeprefix(SAYS)
