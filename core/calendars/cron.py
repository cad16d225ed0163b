"""Five cron fields. cronsim reads them and matches days, by the rules of Debian's cron for
day of the month and day of the week; what it makes of clock changes is not used."""

from __future__ import annotations

from datetime import UTC, datetime

from ..errors import ConfigError
from . import CRON_FIELDS, MEND
from .pattern import Pattern, Times

AT_NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def cron(text: str) -> Pattern:
    """The pattern of five fields, or of a name such as `@daily`. Raises `ConfigError`."""
    # Deferred: it brings calendar and locale, which commands without jobs never need.
    from cronsim import CronSim, CronSimError

    fields = AT_NAMES.get(text.lower()) if text.startswith("@") else text
    if fields is None:
        raise ConfigError(f"{text!r} is no schedule", hint=f"known names: {', '.join(AT_NAMES)}")
    assert len(fields.split()) == CRON_FIELDS, "cronsim would take six, the first for seconds"
    try:
        read = CronSim(fields, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise ConfigError(f"{text!r} is no schedule: {str(error).lower()}", hint=MEND) from None
    times = Times(read.hours, read.minutes, (0,))
    return Pattern(text, times, read.match_day, read.months)
