"""What the expressions of a schedule mean: calendars, which give instants in UTC.

An expression says days and times of day on a wall clock (`pattern.Pattern`): five cron
fields (`cron`), or a calendar event of systemd (`oncalendar`). In UTC the clock on the wall
shows the instants themselves. Anywhere else `zoned.Zoned` hangs the clock into a time zone
and says what becomes of the times that the clock leaves out or shows twice. Either way
instants strictly increase, so that nothing above knows of clocks that are changed.

Only what a schedule needs is imported: for cron in UTC neither time zones nor OnCalendar.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

TICK = timedelta(microseconds=1)
"""The smallest step of an instant: turns an open bound into a closed one."""

UTC_NAME = "UTC"
CRON_FIELDS = 5

GAPS = ("shift", "skip")
OVERLAPS = ("first", "both")

MEND = (
    'write for example "30 2 * * *" (minute, hour, day, month, day of the week),'
    ' or a calendar event of systemd such as "Mon..Fri 02:30"'
)


class Dst(NamedTuple):
    """What becomes of a time of day when the clocks are changed.

    `gap`, for one that the clock leaves out: `shift` takes it by the offset before the
    change (02:30 becomes 03:30), `skip` leaves it out. `overlap`, for one that the clock
    shows twice: the `first` time only, or `both`.
    """

    gap: str = GAPS[0]
    overlap: str = OVERLAPS[0]

    def check(self) -> None:
        """Raise `ValueError` for what is neither."""
        if self.gap not in GAPS or self.overlap not in OVERLAPS:
            raise ValueError(f"a schedule has {self!r}")


USUAL_DST = Dst()


class Calendar(Protocol):
    """Instants in UTC, strictly increasing, of one schedule expression in one time zone."""

    @property
    def once_a_day(self) -> bool:
        """Whether at most one instant per UTC date is guaranteed."""
        ...

    def after(self, instant: datetime) -> Iterator[datetime]:
        """Instants later than this one, ascending, lazily."""
        ...

    def until(self, instant: datetime) -> Iterator[datetime]:
        """Instants not later than this one, descending, lazily."""
        ...

    def count(self, after: datetime, until: datetime) -> int:
        """How many instants lie in ``(after, until]``; takes time by the day, not by instant."""
        ...

    def gaps(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Instants in ``(after, until]`` left out because the clock did not show their time,
        ascending; none but under `Dst.gap` "skip"."""
        ...

    def period(self) -> timedelta:
        """The smallest gap between two times on the wall, as found over four years."""
        ...


def calendar(expression: str, timezone: str = UTC_NAME, dst: Dst = USUAL_DST) -> Calendar:
    """The calendar of an expression. Raises `ConfigError` where it cannot be read, never
    comes round, or names another time zone than `timezone`."""
    text, zone = split_zone(expression)
    if zone is not None and zone != timezone:
        raise ConfigError(
            f"{expression.strip()!r} is in {zone}, and timezone is {timezone!r}",
            hint=f'take one of them out, or write timezone = "{zone}"',
        )
    if is_cron(text):
        from .cron import cron

        pattern = cron(text)
    else:
        from .oncalendar import oncalendar

        pattern = oncalendar(text)
    if timezone == UTC_NAME:
        return pattern
    from .zoned import Zoned

    return Zoned(pattern, timezone, dst)


def is_cron(text: str) -> bool:
    """Whether an expression is cron's: five fields, or a name that begins with `@`."""
    fields = text.split()
    return text.lstrip().startswith("@") or (len(fields) == CRON_FIELDS and ":" not in text)


def split_zone(expression: str) -> tuple[str, str | None]:
    """An expression without the time zone at its end, and that zone; OnCalendar may have one."""
    text = expression.strip()
    if is_cron(text):
        return text, None
    from .oncalendar import without_zone

    return without_zone(text)
