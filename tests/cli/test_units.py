"""`reconcile units`: what is printed for cron and systemd, and where it is written."""

from __future__ import annotations

import json
import os
import shlex
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st
from support.cli import CONFIG, Cli
from support.machine import verify

from reconcile.cli.units import cron, systemd
from reconcile.cli.units.plan import Plan, divides, offset_of, plan
from reconcile.core.calendars.oncalendar import oncalendar
from reconcile.core.config import Config
from reconcile.core.toml import parse

ROOT = Path(__file__).resolve().parents[2]
INSTALLATION = (Path("/opt/reconcile/bin/reconcile"), Path("/opt/reconcile"))
MAIN = Path("/etc/reconcile/reconcile.toml")
STRICT = """
[jobs.entitlements]
schedule = "30 2 * * *"
source = "/srv/app/exports/{date}.csv"
target = "/srv/app/app.db"
"""


def config(text: str = STRICT, main: Path = MAIN) -> Config:
    return parse([(main, text)], {})


def planned(text: str = STRICT, main: Path = MAIN, **given: Any) -> Plan:
    found = config(text, main)
    options: dict[str, Any] = {
        "installation": INSTALLATION,
        "store": None,
        "user": "reconcile",
        "every": None,
        "shift": timedelta(),
        "local": False,
    }
    return plan(found, found.jobs["entitlements"], (), **{**options, **given})


def settings(unit: str) -> dict[str, list[str]]:
    """The lines of a unit that say something, by key."""
    found: dict[str, list[str]] = {}
    for line in unit.splitlines():
        key, given, value = line.partition("=")
        if given and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def of_service(text: str = STRICT, main: Path = MAIN, **given: Any) -> dict[str, list[str]]:
    return settings(systemd.service(planned(text, main, **given), on_failure=None))


# --- cron


def as_cron_reads(command: str) -> str:
    """What cron hands to the shell: up to a % that no backslash is before, without that
    backslash. Written after the description in crontab(5)."""
    found = ""
    letters = iter(command)
    for letter in letters:
        if letter == "\\":
            after = next(letters, "")
            found += after if after == "%" else letter + after
        elif letter == "%":
            break
        else:
            found += letter
    return found


PATHS = st.text(
    st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters="/\xa0"), min_size=1
)


@given(PATHS, PATHS)
def test_any_path_comes_through_cron_and_the_shell_as_it_is(program: str, folder: str) -> None:
    argv = [f"/opt/{program}/reconcile", "-c", f"/srv/{folder}/r.toml", "run", "entitlements"]
    if not all(word.isprintable() for word in argv):
        return
    found = cron.command(planned()._replace(argv=argv))
    assert shlex.split(as_cron_reads(found)) == [argv[0], "-q", *argv[1:]]


@pytest.mark.parametrize("every", ["5m", "10m", "20m", "1h", "4h", "1d"])
def test_the_fields_of_a_knock_come_that_often(every: str) -> None:
    span = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
    wanted = int(every[:-1]) * span[every[-1]]
    times = CronSim(cron.fields(wanted), datetime(2026, 11, 30, 23, 59, tzinfo=UTC))
    found = [next(times) for _ in range(30)]
    assert {b - a for a, b in pairwise(found)} == {wanted}
    assert (found[0].hour, found[0].minute) == (0, 0)


@pytest.mark.parametrize("every", ["5m", "10m", "20m", "1h", "4h", "1d"])
@pytest.mark.parametrize("job", ["entitlements", "ldap", "mail", "vacuum", "a", "b"])
def test_spread_knocks_come_that_often_at_minutes_of_their_own(job: str, every: str) -> None:
    """As cron has them, and as systemd says the same."""
    span = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
    wanted = int(every[:-1]) * span[every[-1]]
    offset = offset_of(job, wanted)
    assert timedelta() <= offset < wanted
    begin = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)
    times = CronSim(cron.fields(wanted, offset), begin)
    found = [next(times) for _ in range(30)]
    midnight = datetime(2026, 12, 1, tzinfo=UTC)
    assert found == [midnight + offset + wanted * n for n in range(30)]
    said = systemd.on_calendar(planned()._replace(every=wanted, offset=offset))
    assert list(islice(oncalendar(f"{said}").after(begin), 30)) == found


def test_jobs_of_one_minute_knock_at_several_minutes_and_always_at_the_same() -> None:
    ten = timedelta(minutes=10)
    offsets = [offset_of(f"job-{n}", ten) for n in range(20)]
    assert offsets == [offset_of(f"job-{n}", ten) for n in range(20)]
    assert len(set(offsets)) > 5
    assert planned(spread=True).offset == offset_of("entitlements", ten)
    assert planned().offset == timedelta()


@pytest.mark.parametrize(
    ("schedule", "minutes"),
    [("30 2 * * *", 10), ("5,35 2 * * *", 5), ("7 2 * * *", 1), ("*:*:0/15", 1)],
)
def test_a_knock_hits_every_scheduled_minute(schedule: str, minutes: int) -> None:
    assert planned(STRICT.replace("30 2 * * *", schedule)).every == timedelta(minutes=minutes)


def test_where_the_clock_on_the_wall_is_a_quarter_ahead_cron_knocks_more_often() -> None:
    """Kathmandu: 02:30 UTC is 08:15 there."""
    ahead = timedelta(hours=5, minutes=45)
    assert planned(shift=ahead, local=True).every == timedelta(minutes=5)
    timer = planned(shift=ahead, local=False)
    assert timer.every == timedelta(minutes=10)
    assert systemd.on_calendar(timer) == "*:0/10 UTC"
    assert systemd.on_calendar(planned(shift=timedelta(hours=5, minutes=30))) == "*:0/10"


def test_a_crontab_line_stands_below_what_it_is_for(cli: Cli) -> None:
    cli.configure()
    shown = cli("units", "entitlements", "--crontab")
    assert str(shown).replace(str(cli.folder), "/srv") == (
        "$ reconcile units entitlements --crontab\n"
        "# entitlements is due at 02:30 UTC (reconcile.toml says so). cron only knocks: a\n"
        "# call with nothing due takes 0.1 s, and a failed or killed night is soon\n"
        "# retried.\n"
        "*/10 * * * * /opt/reconcile/bin/reconcile -q -c /srv/reconcile.toml run entitlements\n"
        "exit 0\n"
    )


def test_a_command_that_is_too_long_for_cron_is_refused(cli: Cli) -> None:
    cli.configure()
    cli.installation = (Path("/opt") / ("x" * 250) / ("y" * 250) / ("z" * 450) / "reconcile",)
    shown = cli("units", "entitlements", "--crontab")
    assert (shown.code, shown.data) == (2, "")
    assert "longer than the 998 letters that cron takes" in shown.words


def test_a_store_of_the_command_line_is_called_again_but_never_a_secret(cli: Cli) -> None:
    cli.configure()
    shown = cli("--store", "other.db", "units", "entitlements", "--crontab")
    line = shlex.split(shown.data.splitlines()[-1])
    assert line[line.index("--store") + 1] == f"sqlite:///{cli.folder}/other.db"
    secret = "postgresql://ops:hunter2@127.0.0.1/rec"
    shown = cli("--store", secret, "units", "entitlements", "--crontab")
    assert (shown.code, shown.data) == (2, "")
    assert "hunter2" not in str(shown.words)


# --- systemd


def test_the_service_of_a_job_on_local_files_may_do_nothing_else() -> None:
    found = of_service()
    assert found["ReadWritePaths"] == ["-/srv/app -/var/lib/reconcile"]
    assert found["StateDirectory"] == ["reconcile"]
    assert found["PrivateNetwork"] == ["yes"]
    assert found["RestrictAddressFamilies"] == ["AF_UNIX"]
    assert found["ProtectHome"] == ["yes"]
    assert found["PrivateTmp"] == ["yes"]
    assert found["CapabilityBoundingSet"] == [""]
    assert found["SuccessExitStatus"] == ["75 124 143"]
    assert "Wants" not in found


ALERTED = '[alerts]\nnotify = ["mailto://u:p@example.org"]\n' + STRICT
PAGED = '[alerts]\ncommand = ["/usr/local/bin/page"]\n' + STRICT
PULSED = STRICT + 'heartbeat = "https://hc-ping.com/x"\n'
STORED = '[store]\nurl = "postgresql://u:p@db/x"\n' + STRICT


@pytest.mark.parametrize("text", [ALERTED, PULSED, STORED])
def test_what_talks_to_other_hosts_has_the_network_and_waits_for_it(text: str) -> None:
    found = of_service(text)
    assert "PrivateNetwork" not in found
    assert "AF_INET6" in found["RestrictAddressFamilies"][0]
    assert found["Wants"] == found["After"] == ["network-online.target"]


def test_a_program_of_the_users_is_left_what_it_may_need() -> None:
    unit = systemd.service(planned(PAGED), on_failure=None)
    assert settings(unit)["ProtectSystem"] == ["yes"]
    assert "NoNewPrivileges" not in settings(unit)
    assert "\n#NoNewPrivileges=yes\n" in unit
    assert "/usr/local/bin/page" in unit


@pytest.mark.parametrize(
    ("installed", "home", "temporary"),
    [
        ("/opt/reconcile", "yes", ["yes"]),
        ("/home/a/venv", "read-only", ["yes"]),
        ("/tmp/own", "yes", []),
    ],
)
def test_where_the_program_is_stays_in_sight(
    installed: str, home: str, temporary: list[str]
) -> None:
    folder = Path(installed)
    found = of_service(installation=(folder / "bin/reconcile", folder))
    assert found["ProtectHome"] == [home]
    assert found.get("PrivateTmp", []) == temporary


def test_only_root_keeps_what_it_takes_to_write_other_peoples_files() -> None:
    found = of_service(user="root")
    assert found["CapabilityBoundingSet"] == ["CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_KILL"]
    assert found["SystemCallFilter"] == ["@system-service"]


def test_a_store_elsewhere_is_not_given_to_systemd() -> None:
    found = of_service(main=Path("/srv/app/reconcile.toml"))
    assert found["StateDirectory"] == ["reconcile-entitlements"]
    assert found["ReadWritePaths"] == ["-/srv/app"]


@pytest.mark.parametrize(
    ("text", "watch", "stop"),
    [
        (STRICT, "3m", "90s"),
        (STRICT + 'lease = { ttl = "10m" }\n', "10m", "10m"),
        (ALERTED, "210s", "90s"),
        (STORED, "3m", "3m"),
    ],
)
def test_the_watchdog_and_the_stop_are_as_patient_as_the_lease(
    text: str, watch: str, stop: str
) -> None:
    found = of_service(text)
    assert (found["WatchdogSec"], found["TimeoutStopSec"]) == ([watch], [stop])


ODD = ["a b", "100%", "$HOME", "it's", 'say "x"', "back\\slash", ";", "\N{SNOWMAN}"]


def test_words_are_written_as_systemd_reads_them(tmp_path: Path) -> None:
    """Asked of systemd itself: `verify` refuses paths and words that it cannot read."""
    texts = {}
    for number, odd in enumerate(ODD):
        folder = tmp_path / odd
        folder.mkdir()
        text = STRICT.replace("/srv/app", str(folder).replace("\\", "\\\\").replace('"', '\\"'))
        made = planned(text, folder / "reconcile.toml", installation=(Path("/bin/true"),))
        texts[f"r{number}.service"] = systemd.service(made, on_failure=None)
        texts[f"r{number}.timer"] = systemd.timer(made)
    assert verify(tmp_path, texts) == ""
    broken = texts["r0.service"].replace('"', "")
    assert "r0.service" in verify(tmp_path, {"r0.service": broken})


def test_a_program_whose_path_systemd_refuses_is_refused(cli: Cli) -> None:
    cli.configure()
    cli.installation = (Path("/opt/it's/reconcile"),)
    shown = cli("units", "entitlements", "--systemd")
    assert (shown.code, shown.data) == (2, "")
    assert "systemd starts no program with a quote" in shown.words


def test_variables_are_named_with_where_to_say_them(cli: Cli) -> None:
    cli.configure(CONFIG.replace("app.db", "${PLACE}/app.db"))
    cli.environ = {"PLACE": "/srv/here"}
    shown = cli("units", "entitlements", "--systemd")
    assert "EnvironmentFile=/etc/reconcile/entitlements.env" in shown.data
    assert "reads PLACE" in shown.data
    assert "/srv/here" not in settings(shown.data)["EnvironmentFile"][0]
    assert "warning: reconcile.toml reads PLACE" in shown.words
    line = cli("units", "entitlements", "--crontab").data
    assert "# reconcile.toml reads PLACE: PLACE=…\n" in line


# --- options, files


def test_a_job_on_demand_is_refused(cli: Cli) -> None:
    """Each knock would be an interval of its own."""
    cli.configure(CONFIG.replace('schedule = "30 2 * * *"', ""))
    shown = cli("units", "entitlements", "--crontab")
    assert (shown.code, shown.data) == (2, "")
    assert "has no schedule" in shown.words


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("--systemd", "--crontab"),
        ("--crontab", "--every", "7m"),
        ("--crontab", "--every", "30s"),
        ("--systemd", "--every", "0s"),
        ("--crontab", "--every", "5h"),
        ("--crontab", "--every", "2d"),
        ("--crontab", "--on-failure", "x.service"),
        ("--systemd", "--force"),
        ("--crontab", "--every", "1m", "--spread"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, argv: tuple[str, ...]) -> None:
    cli.configure()
    shown = cli("units", "entitlements", *argv)
    assert (shown.code, shown.data) == (2, "")
    assert len(shown.words.splitlines()) == 2


@given(st.integers(1, 200_000))
def test_knocks_have_a_place_on_the_clock_or_are_refused(seconds: int) -> None:
    every = timedelta(seconds=seconds)
    day = 24 * 60 * 60
    if divides(every, timedelta(seconds=1)):
        assert day % seconds == 0
        assert seconds < 60 or seconds % 60 == 0


def test_files_that_are_there_are_left_unless_they_are_the_same(cli: Cli) -> None:
    cli.configure()
    folder = cli.folder / "units"
    folder.mkdir()
    call = ("units", "entitlements", "--systemd", "--output", "units")
    first = cli(*call)
    assert first.code == 0, str(first)
    assert "systemctl enable --now reconcile-entitlements.timer" in first.words
    service, timer = (folder / f"reconcile-entitlements.{kind}" for kind in ("service", "timer"))
    assert {path.name for path in folder.iterdir()} == {service.name, timer.name}
    assert service.stat().st_mode & 0o777 == 0o644
    again = cli(*call)
    assert again.code == 0
    assert again.words.count("unchanged") == 2

    timer.write_text(timer.read_text().replace("0/10", "0/20"))
    mine = timer.read_text()
    refused = cli(*call)
    assert (refused.code, timer.read_text()) == (2, mine)
    assert "-OnCalendar=*:0/20\n" in refused.words
    assert "+OnCalendar=*:0/10\n" in refused.words
    assert "reconcile units entitlements --systemd --output units --force" in refused.words
    service.unlink()
    assert cli(*call).code == 2
    assert not service.exists(), "nothing is written where one is refused"

    timer.chmod(0o600)
    forced = cli(*call, "--force")
    assert forced.code == 0
    assert "replaced" in forced.words
    assert "0/10" in timer.read_text()
    assert timer.stat().st_mode & 0o777 == 0o600
    assert len(list(folder.iterdir())) == 2


def test_a_file_for_cron_d_says_as_whom_it_runs(cli: Cli) -> None:
    cli.configure()
    shown = cli("units", "entitlements", "--crontab", "--output", ".", "--user", "svc")
    assert shown.code == 0, str(shown)
    line = (cli.folder / "reconcile-entitlements").read_text().splitlines()[-1]
    assert line.startswith("*/10 * * * * svc /opt/reconcile/bin/reconcile -q -c ")


def test_a_folder_that_is_not_there_is_named(cli: Cli) -> None:
    cli.configure()
    shown = cli("units", "entitlements", "--systemd", "--output", "nowhere")
    assert shown.code == 69
    assert "nowhere" in shown.words


def test_a_program_gets_an_object(cli: Cli) -> None:
    cli.configure()
    shown = cli("units", "entitlements", "--systemd", "--every", "1h", "--json")
    found = json.loads(shown.data)
    assert [one["name"] for one in found["files"]] == [
        "reconcile-entitlements.service",
        "reconcile-entitlements.timer",
    ]
    assert (found["every_seconds"], found["user"]) == (3600, "svc-rec")
    assert "does not hit each of its times" in found["notes"][0]


# --- what is shown as an example


def test_the_examples_are_what_is_printed() -> None:
    found = planned()
    texts = {
        "crontab": cron.lines(found, user=False),
        "reconcile-entitlements.service": systemd.service(found, on_failure=None),
        "reconcile-entitlements.timer": systemd.timer(found),
    }
    for name, text in texts.items():
        path = ROOT / "examples" / name
        if os.environ.get("RECONCILE_TEST_UPDATE_SCREENS") == "1":
            path.write_text(text)
        assert path.read_text() == text, name


COMMAND = """
[jobs.entitlements]
schedule = "30 2 * * *"
command = "/usr/local/bin/backup.sh"
kill_after = "2m"
lease = { ttl = "10m" }
"""


def test_a_commands_service_leaves_it_what_it_may_need_and_the_time_to_end() -> None:
    unit = systemd.service(planned(COMMAND), on_failure=None)
    found = settings(unit)
    assert found["ProtectSystem"] == ["yes"]
    assert "\n# It starts /usr/local/bin/backup.sh, which may need what" in unit
    assert found["TimeoutStopSec"] == ["12m"]
    assert found["KillMode"] == ["mixed"]
    assert "LogsDirectory" not in found
    stored = systemd.service(
        planned('[store]\nurl = "postgresql://u:p@db/x"\n' + COMMAND), on_failure=None
    )
    assert settings(stored)["LogsDirectory"] == ["reconcile"]


FROM_SQLITE = """
[jobs.entitlements]
schedule = "30 2 * * *"
target = "/srv/app/app.db"
[jobs.entitlements.source]
type = "sql"
url = "sqlite:////srv/crm/crm.db"
query = "SELECT account_id, entitlement FROM x"
"""


def test_a_reader_of_an_sqlite_source_may_make_what_sqlite_needs_beside_it() -> None:
    found = of_service(FROM_SQLITE)
    assert found["ReadWritePaths"] == ["-/srv/app -/srv/crm -/var/lib/reconcile"]
    assert found["PrivateNetwork"] == ["yes"]
