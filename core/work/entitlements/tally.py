"""The most frequent of many names, in bounded memory.

`Tally` keeps so many counters and no more, whatever it is shown. Where there are more names
than counters, each name that finds none takes one from all (Misra and Gries), so that a name
which makes up more than one in `COUNTERS` of all that was shown is surely left in the end.
The counts of those that are left are too low by then: they are counted anew in a second
pass, exactly.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

COUNTERS = 1000


class Tally:
    """Counts names. `exact`: no name was left out, and the counts are right."""

    def __init__(self, counters: int = COUNTERS) -> None:
        self.exact = True
        self.counts: Counter[str] = Counter()
        self._counters = counters

    def add(self, name: str) -> None:
        """It was seen once more."""
        counts = self.counts
        if name in counts or len(counts) < self._counters:
            counts[name] += 1
            return
        self.exact = False
        self.counts = Counter({name: count - 1 for name, count in counts.items() if count > 1})


def most_common(
    names: Callable[[], Iterable[str]], shown: int, counters: int = COUNTERS
) -> Sequence[tuple[str, int]]:
    """The most frequent names with their counts; `names` is asked for a second pass where there
    are more of them than counters."""
    tally = Tally(counters)
    for name in names():
        tally.add(name)
    if tally.exact:
        return tally.counts.most_common(shown)
    counts = dict.fromkeys(tally.counts, 0)
    for name in names():
        if name in counts:
            counts[name] += 1
    return Counter(counts).most_common(shown)
