"""What others make of the same expressions: systemd of calendar events, croniter of cron.

Expressions are made at random, and given to both sides. Where these disagree, `EXPLAINED`
says why; a disagreement that it does not know fails. The suite takes the same few each
time; `RECONCILE_TEST_LONG=1` takes thousands, others with `RECONCILE_TEST_SEED`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise, takewhile
from random import Random
from zoneinfo import ZoneInfo, available_timezones

import pytest
from croniter import CroniterError, croniter

from reconcile.core.calendars import Dst, calendar
from reconcile.core.calendars.zones import Clock
from reconcile.core.errors import ConfigError

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
SEED = int(os.environ.get("RECONCILE_TEST_SEED", "6"))
FEW = 8
BASE = datetime(2025, 11, 30, 12, tzinfo=UTC)

EXPLAINED = {
    "refused": "A repetition that systemd and the package read differently, or that systemd"
    " refuses, is refused here: see core/calendars/oncalendar.py.",
    "accepted": "systemd refuses a range of one second, and some lists of days that are counted"
    " from the end of the month. Both can only mean one thing, which is what is done.",
    "month": "systemd 252 leaves times out at the turn of a month: there it goes on with the"
    " second day, hour or minute of a repetition. systemd.time(7) has them, and so have we.",
    "gives up": "systemd 252 finds no next time where clocks leave out an hour of a repetition.",
    "odd": "systemd 252 finds no time, or not the first, where clocks are changed off the full"
    " hour, as Newfoundland's were, at one minute past midnight, until 2011.",
    "later": "Where clocks are put back and summer time does not end thereby (the standard time"
    " of the place is another one from then on), the C library takes the later of two times;"
    " we take the first, as everywhere.",
    "weekday": "croniter's days of the week end with Saturday, 6, in `4/1` and the like; Debian's"
    " with Sunday, 7, as ours.",
    "nth": "croniter wants the nth or last weekday of a month without a day of the month, and"
    " `L5` for `5L`; with a day of the month it takes both conditions, Debian's rule is either.",
}


# --- systemd


def systemd(expressions: Sequence[str], base: datetime) -> list[list[datetime] | None]:
    """The next few instants of each by systemd-analyze; None for what it refuses, an empty
    list where it gives up."""
    if shutil.which("systemd-analyze") is None:
        assert os.environ.get("RECONCILE_TEST_SYSTEM") != "1", "systemd missing"
        pytest.skip("not run: systemd missing")
    done = subprocess.run(
        [
            "systemd-analyze", "calendar", f"--iterations={FEW}",
            f"--base-time={base:%Y-%m-%d %H:%M:%S} UTC", "--", *expressions,
        ],
        capture_output=True, text=True, check=False, env={**os.environ, "TZ": "UTC", "LC_ALL": "C"},
    )  # fmt: skip
    if "determine next elapse" in done.stderr:
        assert len(expressions) == 1, "it stops there"
        return [_instants(done.stdout)]
    refused = set(re.findall(r"parse calendar specification '(.*)':", done.stderr))
    blocks = done.stdout.split("Normalized form:")[1:]
    found: list[list[datetime] | None] = []
    for expression in expressions:
        if expression in refused:
            found.append(None)
            continue
        found.append(_instants(blocks.pop(0)))
    assert not blocks
    return found


def _instants(text: str) -> list[datetime]:
    told = re.findall(r"(?:elapse|#\d+): \w+ (\S+ \S+) UTC", text)
    return [datetime.fromisoformat(one).replace(tzinfo=UTC) for one in told]


def ours(expression: str, base: datetime, timezone: str = "UTC") -> list[datetime] | None:
    """The same by us, with what systemd does at clock changes; None for what is refused."""
    try:
        found = calendar(expression, timezone, Dst("skip", "first"))
    except ConfigError:
        return None
    return list(islice(found.after(base), FEW))


def why(
    expression: str,
    theirs: list[datetime] | None,
    mine: list[datetime] | None,
    base: datetime,
    timezone: str = "UTC",
) -> str | None:
    """Which explanation holds; None where none does."""
    if theirs is None:
        listed = re.search(r"~\S*,", expression)
        one_second = re.search(r":[^: ]*:\S*?\b(\d+)\.\.0?\1\b", expression)
        return "accepted" if listed or one_second else None
    if mine is None:
        return "refused" if "/" in expression or theirs == [] else None
    zone = ZoneInfo(timezone)
    near = [change for change in changes(timezone) if abs(change - base) < timedelta(days=3)]
    if any(change.astimezone(zone).minute for change in near):
        return "odd" if {one for one in theirs if one <= mine[-1]} <= {*mine} else None
    if theirs == mine[: len(theirs)]:
        return "gives up" if "/" in expression else None
    last = min(theirs[-1], mine[-1])
    lacking = {one for one in mine if one not in theirs and one <= last}
    others = {one for one in theirs if one not in mine and one <= last}
    on_the_wall = [
        {one.astimezone(zone).replace(tzinfo=None) for one in s} for s in (lacking, others)
    ]
    if others and on_the_wall[0] >= on_the_wall[1]:
        return "later"
    turned = True  # whether what they lack follows the turn of a month, or another they lack
    for earlier, later in pairwise([base, *mine]):
        if later in lacking:
            turned = turned and (later.month != earlier.month or earlier in lacking)
    return "month" if turned and not others and "/" in expression else None


def number(random: Random, low: int, high: int) -> str:
    found = random.randint(low, high)
    return f"{found:02d}" if random.random() < 0.2 else str(found)


def term(random: Random, low: int, high: int, dots: str) -> str:
    if random.random() < 0.45:
        said = number(random, low, high)
    else:
        first, last = sorted(random.sample(range(low, high + 1), 2))
        said = f"{first}{dots}{last}"
    return f"{said}/{random.randint(1, high)}" if random.random() < 0.3 else said


def field(random: Random, low: int, high: int, dots: str = "..") -> str:
    if random.random() < 0.3:
        return "*"
    return ",".join(term(random, low, high, dots) for _ in range(random.choice([1, 1, 1, 2, 3])))


def event(random: Random) -> str:
    """A calendar event, or what nearly is one."""
    parts = []
    names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Monday", "tuesday", "WED"]
    if random.random() < 0.3:
        parts.append(
            random.choice([",", "..", "-"]).join(random.sample(names, random.choice([1, 2])))
        )
    if random.random() < 0.7:
        day = field(random, 1, 31) if random.random() < 0.8 else f"~{field(random, 1, 28)}"
        date = f"{field(random, 1, 12)}-{day}".replace("-~", "~")
        year = field(random, 2024, 2032) if random.random() < 0.4 else "*"
        parts.append(f"{year}-{date}" if random.random() < 0.7 else date)
    if random.random() < 0.8 or not parts:
        time = f"{field(random, 0, 23)}:{field(random, 0, 59)}"
        parts.append(f"{time}:{field(random, 0, 59)}" if random.random() < 0.5 else time)
    return " ".join(parts)


def test_systemd_reads_calendar_events_as_we_do() -> None:
    random = Random(SEED)
    expressions = [event(random) for _ in range(4000 if LONG else 200)]
    same = 0
    for some in (expressions[n : n + 100] for n in range(0, len(expressions), 100)):
        for expression, theirs in zip(some, systemd(some, BASE), strict=True):
            mine = ours(expression, BASE)
            same += mine == theirs
            assert mine == theirs or why(expression, theirs, mine, BASE) in EXPLAINED, expression
    assert same > 0.9 * len(expressions)


MANUAL = (
    "minutely", "hourly", "daily", "weekly", "monthly", "quarterly", "semiannually", "yearly",
    "annually", "biannually", "bi-annually", "semi-annually", "anually", "Hourly",
    "Sat,Thu,Mon..Wed,Sat..Sun", "Mon,Sun 12-*-* 2,1:23", "Wed *-1", "Wed..Wed,Wed *-1",
    "Wed, 17:48", "Wed..Sat,Tue 30-10-15 1:2:3", "*-*-7 0:0:0", "10-15",
    "monday *-12-* 17:00", "Mon,Fri *-*-3,1,2 *:30:45", "12,14,13,12:20,10,30",
    "12..14:10,20,30", "mon,fri *-1/2-1,3 *:30:45", "03-05 08:05:40", "Sat,Sun 12-05 08:05:40",
    "2028-03-05 05:40", "2027-02..04-05", "*:2/3", "Mon *-05~07/1", "*-02~03", "*-*~01",
    "2030-02-29", "*-02-29", "0/8:00", "*:*:0/5", "*:0/15", "22:00 UTC", "weekly utc",
    "02:60", "24:00", "Mon Tue", "*-13-1", "Sat..Mon", "1:2:3:4", "*-*-*/2", "*-*~29", "foo",
)  # fmt: skip


def test_systemd_and_we_agree_on_what_its_manual_shows() -> None:
    for expression, theirs in zip(MANUAL, systemd(MANUAL, BASE), strict=True):
        mine = ours(expression, BASE)
        assert mine == theirs or (theirs == [] and mine is None), f"{expression}: never is refused"


def test_systemd_leaves_out_what_the_clock_leaves_out_and_runs_the_first_of_two() -> None:
    random = Random(SEED)
    names = sorted(available_timezones() - {"localtime", "Factory", "UTC"})
    asked = same = 0
    for name in random.sample(names, 300 if LONG else 8):
        changed = changes(name)
        for change in random.sample(changed, min(len(changed), 3 if LONG else 1)):
            base = change - timedelta(hours=random.choice([1, 5, 30]))
            some = random.sample(EVENTS, 4 if LONG else 3)
            for expression in some:
                (theirs,) = systemd([f"{expression} {name}"], base)
                mine = ours(expression, base, name)
                asked += 1
                same += mine == theirs
                told = why(expression, theirs, mine, base, name)
                assert mine == theirs or told in EXPLAINED, (expression, name, base)
    assert same > 0.9 * asked


EVENTS = (
    "02:30", "00:30", "01:15", "23:45", "hourly", "*:0/30", "0/4:00", "Mon..Fri 02:15",
    "Sun 01:30", "*-*-* 0..3:10", "Sat,Sun 02:59:59", "*-*-1..20 00:00", "2:0/20",
)  # fmt: skip


@cache
def changes(name: str) -> list[datetime]:
    """When the clocks of a zone were changed from 1990 on, and are to be until 2037."""
    clock = Clock(ZoneInfo(name)).ascending(datetime(1990, 1, 1, tzinfo=UTC))
    stretches = takewhile(lambda stretch: stretch.begin.year < 2038, clock)
    return [later.begin for earlier, later in pairwise(stretches) if earlier.offset != later.offset]


# --- croniter


def by_croniter(expression: str, base: datetime, few: int = FEW) -> list[datetime] | None:
    try:
        # The rule of Debian's cron for days, which it calls a bug.
        found = croniter(expression, base, ret_type=datetime, implement_cron_bug=True)
        return [one.astimezone(UTC) for one in islice(found, few)]
    except CroniterError:
        return None


def fields(random: Random) -> str:
    def one(low: int, high: int, *extra: str) -> str:
        if random.random() < 0.1:
            return f"*/{random.randint(1, high)}"
        if extra and random.random() < 0.2:
            return random.choice(extra)
        return field(random, low, high, "-")

    return " ".join(
        [one(0, 59), one(0, 23), one(1, 31, "L"), one(1, 12, "JAN-MAR", "dec"),
         one(0, 7, "MON", "MON-FRI", "sat,sun", "0", "7", "FRI#2", "5L")]
    )  # fmt: skip


def test_croniter_reads_cron_as_we_do() -> None:
    random = Random(SEED)
    total = 3000 if LONG else 150
    same = 0
    for _ in range(total):
        expression = fields(random)
        try:
            mine = list(islice(calendar(expression).after(BASE), FEW))
        except ConfigError:
            mine = None
        theirs = by_croniter(expression, BASE)
        same += mine == theirs
        weekdays = expression.rpartition(" ")[2]
        told = "nth" if weekdays in ("FRI#2", "5L") else "weekday" if "/" in weekdays else None
        assert mine == theirs or told in EXPLAINED, expression
    assert same > 0.9 * total


CRON = ("30 1 * * *", "30 2 * * *", "15 0 * * *", "0 * * * *", "*/15 * * * *", "30 23 * * *")


LATER, SECOND = timedelta(hours=40), timedelta(seconds=1)


def croniters_way(expression: str, name: str, base: datetime, change: datetime) -> list[datetime]:
    mine = calendar(expression, name, Dst("skip", "both"))
    found = set(takewhile(lambda one: one <= change + LATER, mine.after(base)))
    zone = ZoneInfo(name)
    before, after = ((change - since).astimezone(zone) for since in (SECOND, timedelta(0)))
    walls = [before.replace(tzinfo=UTC), after.replace(tzinfo=UTC) - SECOND]
    if expression.split()[1] != "*" and calendar(expression).count(*walls):
        found.add(change)
    return sorted(found)


def test_croniter_differs_from_us_at_clock_changes_in_one_way_only() -> None:
    """It runs both of two times, and where the hours are named one time for all that the clock
    leaves out, at the very change: `both`, and `skip` with that one more. We let the user
    choose, and keep the minutes apart where we shift."""
    random = Random(SEED)
    names = sorted(available_timezones() - {"localtime", "Factory", "UTC"})
    for name in random.sample(names, 150 if LONG else 8):
        zone = ZoneInfo(name)
        changed = changes(name)
        for change in random.sample(changed, min(len(changed), 3 if LONG else 1)):
            base = change - timedelta(hours=37)
            for expression in random.sample(CRON, 2):
                few = 200 if expression[0] == "*" else 60 if expression[:3] == "0 *" else 4
                theirs = by_croniter(expression, base.astimezone(zone), few)
                expected = croniters_way(expression, name, base, change)
                assert theirs is not None
                told = [one for one in theirs if one <= change + LATER]
                assert told == expected[: len(told)], (expression, name, base)
                assert len(told) == min(few, len(expected))
