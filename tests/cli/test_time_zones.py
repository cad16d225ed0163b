"""A job in another time zone: what is kept and shown is UTC, dates in paths are those there."""

from __future__ import annotations

import json

import pytest
from support.cli import Cli

CONFIG = """
[jobs.entitlements]
schedule = "30 2 * * *"
timezone = "Asia/Tokyo"
start = 2026-11-30
source = "exports/{date}.csv"
target = "app.db"
range_size = 400
"""
UTC_JOB = CONFIG.replace("Asia/Tokyo", "UTC")
NIGHT = "2026-11-29"  # the date in UTC of 02:30 on the 30th in Tokyo


@pytest.fixture
def tokyo(cli: Cli) -> Cli:
    """It is 02:30Z of the 30th; the night in Tokyo was at 17:30Z of the 29th."""
    assert cli("init", "--demo").code == 0
    cli.configure(CONFIG)
    (cli.folder / "exports").mkdir()
    (cli.folder / "export.csv").rename(cli.folder / "exports/2026-11-30.csv")
    return cli


def shown(cli: Cli, night: str) -> dict[str, object]:
    found = json.loads(cli("status", "entitlements", night, "--json").data)
    return dict(found["intervals"][0])


def test_a_night_is_called_by_its_date_in_utc_and_its_file_by_the_date_there(tokyo: Cli) -> None:
    assert tokyo("run", "entitlements").code == 0
    found = shown(tokyo, NIGHT)
    assert (found["interval"], found["state"]) == (NIGHT, "completed")
    assert found["scheduled_at"] == "2026-11-29T17:30:00Z"
    assert "30 2 * * * Asia/Tokyo, next 2026-11-30 17:30Z" in tokyo("status", "entitlements").words


def test_a_zone_edit_takes_no_file_away_from_a_night_that_was_begun(tokyo: Cli) -> None:
    """Of the 29th in UTC there is another file, which the night in Tokyo never meant."""
    exports = tokyo.folder / "exports"
    (exports / "2026-11-30.csv").rename(exports / "late.csv")
    assert tokyo("run", "entitlements").code == 69
    (exports / "late.csv").rename(exports / "2026-11-30.csv")
    header = (exports / "2026-11-30.csv").read_text().partition("\n")[0]
    (exports / f"{NIGHT}.csv").write_text(f"{header}\n")
    tokyo.configure(UTC_JOB)
    tokyo.clock.advance(3600)
    assert tokyo("run", "entitlements").code == 0
    found = shown(tokyo, NIGHT)
    assert (found["state"], found["scheduled_at"]) == ("completed", "2026-11-29T17:30:00Z")
    assert tokyo("rerun", "entitlements", NIGHT, "-m", "look again").code == 0


def test_an_edit_of_the_zone_invents_nothing_before_it_and_loses_nothing_after(tokyo: Cli) -> None:
    assert tokyo("run", "entitlements").code == 0
    tokyo.configure(UTC_JOB)
    assert "nothing due, next 2026-12-01 02:30Z" in tokyo("run", "entitlements").words
    tokyo.configure(CONFIG)
    assert "nothing due, next 2026-11-30 17:30Z" in tokyo("run", "entitlements").words
    listed = json.loads(tokyo("status", "entitlements", "--json").data)["intervals"]
    assert [one["interval"] for one in listed] == [NIGHT]


def test_the_start_is_midnight_there(tokyo: Cli) -> None:
    """Midnight of 1 December in Tokyo is 15:00Z of the 30th: its night comes after it."""
    tokyo.configure(CONFIG.replace("start = 2026-11-30", "start = 2026-12-01"))
    assert "nothing due, next 2026-11-30 17:30Z" in tokyo("run", "entitlements").words


def test_a_calendar_event_of_systemd_is_a_schedule(tokyo: Cli) -> None:
    tokyo.configure(
        CONFIG.replace("30 2 * * *", "Mon..Fri 02:30 Asia/Tokyo").replace(
            'timezone = "Asia/Tokyo"\n', ""
        )
    )
    assert tokyo("run", "entitlements").code == 0
    assert shown(tokyo, NIGHT)["state"] == "completed"
    told = tokyo("status", "entitlements").words
    assert "Mon..Fri 02:30 Asia/Tokyo, next 2026-11-30 17:30Z" in told
