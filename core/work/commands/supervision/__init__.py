"""How a command is kept within the lease, whatever becomes of the process that holds it.

Who does what
    The *holder* (`Supervised`) has the lease. The *supervisor* (`supervisor/`), a small process
    between it and the command, is told each renewed deadline and enforces it alone. The *command*
    and all that it starts have ended before the deadline, which is the end of the trust window::

        holder ── deadlines, terminate, kill ──> supervisor ── fork, signals ──> command
          ^  ^ <────────── how it ended ───────────┘                              |   |
          |  └──────────────── output, a pipe ────────────────────────────────────┘   |
          └─────────────────── progress, a pipe ──────────────────────────────────────┘

    What the command writes never passes the supervisor, which therefore waits for nobody: a
    holder that is stopped fills its pipes and makes the command wait, and that is all.

The deadline
    A reading of `CLOCK_BOOTTIME`, for which there is a timer that counts suspend. SIGTERM is sent
    early enough that SIGTERM, `kill_after` and SIGKILL are over before it. They may take a quarter
    of the window: a renewal comes each fifth of the TTL and, after one that failed, in half of
    what is left, so that one late answer does not end a command. Where `kill_after` does not fit
    it is shortened, and `Ended.shortened` says to what. After a suspend in which the deadline
    came, the timer fires at once; what the command does until then nobody can prevent. Where it
    may, the supervisor has a real-time priority (SCHED_RR 1), for a machine that is busy must not
    make it late; it sleeps but for these moments. What it starts has none.

Who is a descendant
    The supervisor is a subreaper: whoever loses its parent, by a double fork or a session of its
    own, becomes its child. So nothing is left exactly when it has no child any more. SIGTERM and
    SIGCONT go to all descendants that /proc shows, as systemd does it; SIGKILL goes to their
    process groups, in which nobody can fork past it, until nobody is left
    (`supervisor/ending.py`). Where a control group was delegated to us the command is in one of
    its own, which is killed as one. What cannot be ended (another user's, one in a system call
    that does not return) is named.

What can go wrong, and what happens
    holder stopped      No deadline is renewed; the command ends before the last one.
    holder killed       The control socket ends, the kernel signals the supervisor, and it has
                        another parent: SIGTERM, and SIGKILL after `kill_after`, before the
                        deadline. What it tells of progress until then is left to the next run.
                        Until all is over the supervisor lives, and so the holder is not dead
                        (below).
    holder killed while The supervisor looks, after it asked to be signalled, whether its parent
    it starts one       is the one that it was told of; else nothing is begun.
    the command ends,   It has a second for ending by itself, as the last part of a pipeline does;
    something of it     then SIGTERM and SIGKILL as above. `Ended.leftovers` names it.
    goes on
    signal to the       SIGTERM, SIGINT, SIGHUP and SIGQUIT end the command first. It has a session
    supervisor          of its own, so that Ctrl-C is the holder's only.
    supervisor stopped  Each order of the holder wakes it, a renewed deadline too, and so does the
                        holder's end, for the signal that it asked for is SIGCONT. A holder that
                        is stopped as well cannot keep the promise, nor can anybody else.
    supervisor killed   The kernel kills the command with it. What the command had started is found
                        by the holder, in /proc/*/environ, by `RECONCILE_SUPERVISED`, and killed.
    supervisor and      The command is killed with the supervisor. What it had started goes on, but
    holder killed       the holder is not dead while it does: its lease has to expire. Who is
                        granted the next on this host ends and names it first (`fencing`).
    a defect in it      Everything is killed, and the holder raises it, which is exit status 70.

When a holder is dead
    `Host.is_dead` lets the lease be taken at once, so it has to be certain that nothing of that
    holder writes any more: that neither a supervisor with the holder's token on its command line,
    nor a process that has inherited the token, is in /proc (`orphans.something_lives`). Both are
    there before there is anything to protect from: a supervisor that has not yet been executed
    begins no command once its holder is gone. Of a process whose variables may not be read it is
    certain only when it began before the holder or belongs to another user.

Not promised: a descendant that gave itself other variables, or another user's rights, outlives
the supervisor when that is killed and there is no control group. Nor, when supervisor and holder
are killed, that what had been started ends before another host may begin.
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
from .supervised import Supervised

__all__ = [
    "LONGEST_LINE",
    "Ended",
    "Event",
    "NotExecuted",
    "Output",
    "Process",
    "ProgressLine",
    "Spec",
    "Supervised",
    "SupervisedCommand",
    "Why",
]
