"""A line for a crontab, which Debian's cron and cronie run as it stands.

Three readers take their turn. cron ends the command at a `%` unless a backslash is before it,
which it takes away, and knows neither quotes nor folded lines. `/bin/sh` takes what is left, with
a HOME and a PATH that need not be ours: so every path is absolute, and each word is quoted for
it. The program then finds neither a terminal nor a variable of the user's.
"""

from __future__ import annotations

from datetime import timedelta
from shlex import quote
from textwrap import wrap
from typing import TYPE_CHECKING

from ...core.errors import UsageError
from .plan import DAY, HOUR, MINUTE, often

if TYPE_CHECKING:
    from .plan import Plan

LONGEST = 998
"""Letters of a command that Debian's cron takes: its MAX_COMMAND is 1000, with the end."""
PROSE = 78


def lines(plan: Plan, *, user: bool) -> str:
    """The line, with what it is for above it. With `user` it is one of `/etc/cron.d`, which says
    as whom it is run. Raises `UsageError` where cron cannot say it."""
    who = f" {plan.user}" if user else ""
    told = (
        f"{plan.job} is due {plan.due} ({plan.origin.name} says so). cron only knocks: a call with"
        " nothing due takes 0.1 s, and a failed or killed night is soon retried."
    )
    about = "".join(f"# {line}\n" for line in wrap(told, PROSE, break_on_hyphens=False))
    return f"{about}{_variables(plan)}{fields(plan.every, plan.offset)}{who} {command(plan)}\n"


def command(plan: Plan) -> str:
    """What cron is to run: nothing but what is new and wrong is printed, and so mailed."""
    program, *rest = plan.argv
    for word in plan.argv:
        if not word.isprintable():
            raise UsageError(
                f"{word!r} cannot stand in a crontab", hint="give that path another name"
            )
    text = " ".join(map(quote, [program, "-q", *rest])).replace("%", "\\%")
    if len(text) > LONGEST:
        raise UsageError(
            f"the command is longer than the {LONGEST} letters that cron takes",
            hint="shorten the path of the program or of the configuration, as by a link",
        )
    return text


def fields(every: timedelta, offset: timedelta = timedelta()) -> str:
    """The five fields of a knock that comes so often, so much after the round minute."""
    hour, minute = divmod(offset // MINUTE, 60)
    if every < HOUR:
        minutes = every // MINUTE
        begin = f"{minute}-59" if minute else "*"
        return "* * * * *" if minutes == 1 else f"{begin}/{minutes} * * * *"
    hours = every // HOUR
    begin = f"{hour}-23" if hour else "*"
    which = {1: "*", DAY // HOUR: f"{hour}"}.get(hours, f"{begin}/{hours}")
    return f"{minute} {which} * * *"


def _variables(plan: Plan) -> str:
    """cron passes on what stands above the line, without expanding anything."""
    return "".join(f"# {plan.origin.name} reads {name}: {name}=…\n" for name in plan.variables)


def summary(plan: Plan) -> str:
    """How often it knocks, for a list."""
    return f"due {plan.due}; cron knocks {often(plan.every)}"
