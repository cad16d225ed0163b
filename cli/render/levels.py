"""How urgent a line is, in syslog(3)'s numbers: what `journalctl -p` picks by, and colours.

The journal takes the number from a prefix of each line (sd-daemon(3)); nobody else gets one, and
INFO needs none, for that is what it takes a line for. That somebody else is at work is nobody's
fault, and no warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.model import Outcome

if TYPE_CHECKING:
    from ...core.events import IntervalReport, RunReport

ERROR = 3
WARNING = 4
NOTICE = 5
INFO = 6
DEBUG = 7

_LEVELS = {
    Outcome.FAILED: ERROR,
    Outcome.INCOMPLETE: ERROR,
    Outcome.NEEDS_APPROVAL: WARNING,
    Outcome.FENCED_OUT: WARNING,
    Outcome.INTERRUPTED: NOTICE,
    Outcome.OUT_OF_TIME: NOTICE,
}


def level_of(report: IntervalReport | RunReport) -> int:
    """That of an outcome; what was told of this interval before is not told as loudly again."""
    level = _LEVELS.get(report.outcome, INFO)
    return max(level, NOTICE) if getattr(report, "known_before", False) else level
