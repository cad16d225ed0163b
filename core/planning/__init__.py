"""Which intervals are due: the schedule minus the records. Pure; nothing is kept between calls.

There is no next-run pointer that a crash could leave behind. Each decision walks the
scheduled instants from the job's horizon to now beside the records, in order of time, and
whatever has no record is *new*. So an interval cannot be lost: either it has a record, or
the next decision finds it again.

New intervals, and pending ones that nobody has begun, go through the catch-up policy:

- older than ``catch_up.window``: skipped (`catch_up_window`), whatever the policy;
- ``all``: each is due, oldest first;
- ``latest``: only the newest scheduled instant is due, older ones are skipped
  (`superseded`); an unfinished one that never reached a checkpoint is overtaken in the same
  way, for nothing of it was done;
- ``none``: due before its deadline, afterwards skipped (`catch_up_window`).

A dated source tells the truth of its night, so one that is older than the newest completed
interval (`completed`) may no longer be applied: it is *overtaken*, begun or not, and whatever
it waits for. Only one with an open run is left to whoever takes that run over.

Else what was begun is never given up for its age. It is due again at once after a kill or an
interruption, after a failure once `retry_at` has come, and while a guard waits for somebody
only when the plan it waits with is the one that was approved. What was begun by hand
(rerun, backfill, manual) is not subject to the policy: a person asked for it.

A skip is a decision with a record too; a job that was down for months has more of them than
is sensible, so a long contiguous run of them is one *span*: one record that stands for its
first instant and `span` - 1 later ones up to `until`. Counting is done by the day
(`Schedule.count`), and only the first due ones are made into values, because a trigger
works one interval and decides again: 250,000 missed intervals take milliseconds.

To read only the newest records, the caller keeps `Decision.settled` (`JobRecord.settled_at`)
once the skips are written, and gives it as the next horizon (`floor`).

With `on_failed = "block"` nothing new is begun while an older interval, that triggers had begun,
is not finished: it waits for its retry or for somebody, or has failed for good. The last of these
holds until a person acts on it, or by hand completes a newer one.

A time that clocks have left out, and that `dst_gap` says to skip, is recorded as that.

What fell into a pause goes by a rule of its own (see `pauses`); while it lasts, nothing is
decided about it.

The store's clock may have jumped ahead and come back. Records, failures and horizons later
than its now are void: they neither cover nor delay anything.
"""

from .decisions import Blocked, Decision, Due, Skip, Waiting
from .pauses import Pause, in_force, paused, pauses_of, unpaused
from .policy import deadline, deadline_of, hits, knock, retry_at, window
from .versions import first_horizon, floor, schedule_of, seen, timezone_at
from .walk import LONG_SKIP, decide

__all__ = [
    "LONG_SKIP",
    "Blocked",
    "Decision",
    "Due",
    "Pause",
    "Skip",
    "Waiting",
    "deadline",
    "deadline_of",
    "decide",
    "first_horizon",
    "floor",
    "hits",
    "in_force",
    "knock",
    "paused",
    "pauses_of",
    "retry_at",
    "schedule_of",
    "seen",
    "timezone_at",
    "unpaused",
    "window",
]
