"""A job that is a Python function and goes on where it stood.

[jobs.steps-in-a-function]
python = "function_steps:work"
"""

from collections.abc import Iterator
from pathlib import Path

import reconcile

STEPS = 1000


def work(context: reconcile.RunContext) -> Iterator[reconcile.Checkpoint]:
    """Each step is done, and then said to be done: a step whose yield did not return may be done
    again, any other never."""
    for step in range((context.cursor or 0) + 1, STEPS + 1):
        with Path("done").open("a", encoding="utf-8") as done:
            done.write(f"{step} {context.interval}\n")
        yield {"cursor": step, "count": step}
    yield {"expected_count": STEPS}
