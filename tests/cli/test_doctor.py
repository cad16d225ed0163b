"""`doctor`: what is well is called so, each fault is found and says how to mend it, and looking
changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cli import Cli, Shown
from support.listening import serving

from reconcile.cli import premises

TABLE = """CREATE TABLE entitlements (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,
 level TEXT, PRIMARY KEY (account_id, entitlement))"""
CONFIG = """
[alerts]
command = ["./page"]
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-30
source = "exports/{date}.csv"
target = "app.db"
"""
CRONTAB = "*/10 * * * * /usr/bin/reconcile -q run entitlements\n"
RELEASE = "# version 2099z\n"


@pytest.fixture
def well(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A job that has all it needs, on a host of the test's own."""
    host = tmp_path / "host"
    monkeypatch.setattr(premises, "ROOT", host)
    (host / "var/spool/cron/crontabs").mkdir(parents=True)
    (host / "var/spool/cron/crontabs/svc-rec").write_text(CRONTAB)
    monkeypatch.setattr(premises, "_release", lambda folder: "2099z")
    cli.folder = tmp_path / "home"
    cli.folder.mkdir(mode=0o700)
    cli.environ = {"PATH": "/nowhere", "HOME": str(cli.folder)}
    cli.configure(CONFIG)
    database = sqlite3.connect(cli.folder / "app.db")
    database.execute(TABLE)
    database.close()
    page = cli.folder / "page"
    page.write_text("#!/bin/sh\ncat > told\n")
    page.chmod(0o700)
    exports = cli.folder / "exports"
    exports.mkdir()
    for day in (29, 30):
        text = "account_id,entitlement,level\na1,sso,1\na2,sso,2\n"
        (exports / f"2026-11-{day}.csv").write_text(text)
    assert cli("run", "entitlements").code == 0
    return cli


def found(shown: Shown, level: str = "fail") -> list[tuple[str, str, str]]:
    value = json.loads(shown.data)
    return [
        (one["subject"], one["text"], one["mend"])
        for one in value["findings"]
        if one["level"] == level
    ]


def files(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_what_is_well_is_called_so(well: Cli) -> None:
    shown = well("doctor")
    assert shown.code == 0
    assert shown.data.endswith("\nall is well\n")
    assert "triggers        ok    entitlements: crontab of svc-rec line 1, at least" in shown.data
    assert max(map(len, shown.data.replace(str(well.folder), "/srv").splitlines())) <= 80
    value = json.loads(well("doctor", "--json").data)
    assert (value["schema"], value["exit"], value["to_mend"], value["warnings"]) == (1, 0, 0, 0)
    subjects = list(dict.fromkeys(one["subject"] for one in value["findings"]))
    assert subjects == ["configuration", "store", "clock", "triggers", "entitlements", "alerts"]
    assert well("doctor", "-q").data == ""


def test_looking_changes_nothing(well: Cli) -> None:
    (well.folder / "reconcile.db-spool").mkdir()
    (well.folder / "reconcile.db-spool/entitlements-left").write_text("of a run")
    (well.folder / "exports/2026-12-01.csv").write_text(
        "account_id,entitlement,level\nb,x,1\na,x,1\n"
    )
    well.clock.advance(86400)
    before = files(well.folder)
    shown = well("doctor", "--json")
    assert "not in order" in shown.data
    assert files(well.folder) == before


def test_a_store_that_is_not_there_is_not_made(well: Cli) -> None:
    for path in well.folder.glob("reconcile.db*"):
        path.unlink()
    shown = well("doctor", "--json")
    assert shown.code == 0
    assert [subject for subject, *_ in found(shown, "warn")] == ["store"]
    assert list(well.folder.glob("reconcile.db*")) == []


def crontab(cli: Cli, text: str) -> None:
    (cli.folder.parent / "host/var/spool/cron/crontabs/svc-rec").write_text(text)


def sql(cli: Cli, *statements: str) -> None:
    database = sqlite3.connect(cli.folder / "app.db")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def damaged(cli: Cli) -> None:
    path = cli.folder / "reconcile.db"
    data = bytearray(path.read_bytes())
    data[4096 * 2 :] = b"\xff" * (len(data) - 4096 * 2)
    path.write_bytes(data)


def spoiled(cli: Cli) -> None:
    """One page is not what it was; everything else is."""
    path = cli.folder / "reconcile.db"
    database = sqlite3.connect(path)
    (root,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name='record'").fetchone()
    (size,) = database.execute("PRAGMA page_size").fetchone()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    data = bytearray(path.read_bytes())
    begin = (root - 1) * size
    data[begin + 8 : begin + 40] = b"\xff" * 32
    path.write_bytes(data)


def edit(old: str, new: str) -> Callable[[Cli], None]:
    def change(cli: Cli) -> None:
        assert old in CONFIG
        cli.configure(CONFIG.replace(old, new))

    return change


def a_table_without_order(cli: Cli) -> None:
    sql(
        cli,
        "DROP TABLE entitlements",
        "CREATE TABLE entitlements (entitlement TEXT NOT NULL, account_id TEXT NOT NULL,"
        " level TEXT, PRIMARY KEY (entitlement, account_id))",
    )
    target = '[jobs.entitlements.target]\nurl = "app.db"\naccount = "account_id"'
    edit('target = "app.db"', target)(cli)


def late(cli: Cli) -> None:
    cli.clock.advance(3 * 86400)


FAULTS: dict[str, tuple[Callable[[Cli], Any], str, str, str, str]] = {
    "a key that is unknown": (
        edit("source =", "sauce ="),
        "fail",
        "configuration",
        "sauce",
        "source",
    ),
    "a configuration that its group may change": (
        lambda cli: (cli.folder / "reconcile.toml").chmod(0o664),
        "warn",
        "configuration",
        "by its group",
        "chmod g-w ",
    ),
    "a store that others may write": (
        lambda cli: (cli.folder / "reconcile.db").chmod(0o666),
        "fail",
        "store",
        "by others than its owner",
        "chmod 0600 ",
    ),
    "a store that is damaged": (damaged, "fail", "store", "damaged", "restore it from a copy"),
    "a store of which a page is spoiled": (
        spoiled,
        "fail",
        "store",
        "is damaged: ",
        "goes on from what the target knows",
    ),
    "no crontab line": (
        lambda cli: crontab(cli, "# none\n"),
        "warn",
        "triggers",
        "no crontab line or timer",
        "reconcile units entitlements --crontab",
    ),
    "a line for another configuration": (
        lambda cli: crontab(cli, CRONTAB.replace("run", "-c /other/reconcile.toml run")),
        "warn",
        "triggers",
        "no crontab line or timer",
        "reconcile units entitlements --crontab",
    ),
    "a line that comes too rarely": (
        lambda cli: crontab(cli, CRONTAB.replace("*/10 *", "30 2")),
        "warn",
        "triggers",
        "half its deadline is 12h",
        "reconcile units entitlements --crontab",
    ),
    "a target that is not there": (
        lambda cli: (cli.folder / "app.db").unlink(),
        "fail",
        "entitlements",
        "does not exist",
        "look at the target's url",
    ),
    "a target without the table": (
        lambda cli: sql(cli, "DROP TABLE entitlements"),
        "fail",
        "entitlements",
        "has no table entitlements",
        "create it",
    ),
    "a target without an index in order": (
        a_table_without_order,
        "fail",
        "entitlements",
        "no index in account order",
        'CREATE INDEX "entitlements_by_account_id" ON "entitlements" ("account_id" COLLATE BINARY)',
    ),
    "a column that is missing in the source": (
        lambda cli: (late(cli), (cli.folder / "exports/2026-12-01.csv").write_text("a,b\n1,2\n")),
        "fail",
        "entitlements",
        "has no columns",
        "export them",
    ),
    "a source that should be there": (
        late,
        "fail",
        "entitlements",
        "and interval 2026-12-01 waits for it",
        "",
    ),
    "an interval that is overdue": (
        late,
        "fail",
        "entitlements",
        "past its deadline",
        "reconcile status entitlements",
    ),
    "an alert command that is not there": (
        lambda cli: (cli.folder / "page").unlink(),
        "fail",
        "alerts",
        "command ./page is not there",
        "see [alerts] command",
    ),
    "an alert command that is not executable": (
        lambda cli: (cli.folder / "page").chmod(0o600),
        "fail",
        "alerts",
        "may not be executed",
        "ls -l ./page",
    ),
    "nobody to tell": (
        edit('command = ["./page"]', ""),
        "warn",
        "alerts",
        "nobody is told",
        "[alerts]",
    ),
    "a folder of figures that is not there": (
        edit("[alerts]", '[alerts]\nmetrics_file = "no/x.prom"'),
        "fail",
        "alerts",
        "is not there",
        "mkdir -p ",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_and_says_how_it_is_mended(name: str, well: Cli) -> None:
    break_it, level, subject, text, mend = FAULTS[name]
    break_it(well)
    shown = well("doctor", "--json")
    assert shown.code == (1 if json.loads(shown.data)["to_mend"] else 0)
    told = found(shown, level)
    assert [one for one in told if one[0] == subject and text in one[1] and mend in one[2]], told
    assert [one for one in found(shown, "fail") if not one[2] and "waits for" not in one[1]] == []
    assert "hunter2" not in shown.data


def test_the_named_index_mends_it(well: Cli) -> None:
    a_table_without_order(well)
    (mend,) = (mend for _, text, mend in found(well("doctor", "--json")) if "no index" in text)
    sql(well, mend)
    assert well("doctor").code == 0


def test_a_configuration_that_is_wrong_is_one_finding_among_others(well: Cli) -> None:
    well.configure(CONFIG + "nonsense = 1\nother = 2\n")
    shown = well("doctor")
    assert shown.code == 1
    assert shown.data.count("FAIL") == 2
    assert "time zone data 2099z" in shown.data


def test_an_unknown_job_is_an_error_and_no_finding(well: Cli) -> None:
    shown = well("doctor", "nosuch")
    assert (shown.code, shown.data) == (78, "")


def test_a_timer_counts_as_well_as_a_crontab(well: Cli) -> None:
    crontab(well, "")
    units = well.folder.parent / "host/etc/systemd/system"
    (units / "timers.target.wants").mkdir(parents=True)
    (units / "night.timer").write_text("[Timer]\nOnCalendar=*:0/10\n")
    (units / "night.service").write_text("[Service]\nExecStart=reconcile run entitlements\n")
    assert "systemctl enable --now night.timer" in well("doctor").data
    (units / "timers.target.wants/night.timer").symlink_to(units / "night.timer")
    assert "entitlements: night.timer, at least every 10m" in well("doctor").data


@pytest.mark.filterwarnings("ignore:.*imghdr:DeprecationWarning")  # of Apprise
def test_a_test_alert_is_really_sent_and_each_answer_told(well: Cli) -> None:
    with serving() as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        well.configure(
            CONFIG.replace("[jobs.ent", 'notify = ["json://u:hunter2@127.0.0.1:1/x"]\n[jobs.ent')
            + f'heartbeat = "{address}/hunter2"\n'
        )
        shown = well("doctor", "--test-alert", "--json")
        asked = list(server.asked)
    told = json.loads((well.folder / "told").read_text())
    assert (told["kind"], told["state"], told["job"]) == ("test", "raised", "doctor")
    assert [path.partition("?")[0] for _, path, _ in asked] == ["/hunter2"]
    good = [text for subject, text, _ in found(shown, "ok") if subject == "alerts"]
    assert good == [
        "command ./page: took it in 0.0 s",
        f"heartbeat {address}/*** of entitlements: 200 in 0.0 s",
    ]
    ((subject, bad, _),) = found(shown)
    assert (subject, bad) == ("alerts", "json://***: did not take the message within 30s")
    assert shown.code == 1
    assert "hunter2" not in shown.data + shown.words


def test_a_channel_that_refuses_is_a_failure(well: Cli) -> None:
    (well.folder / "page").write_text("#!/bin/sh\necho no route >&2\nexit 3\n")
    assert well("doctor").code == 0
    shown = well("doctor", "--test-alert")
    assert shown.code == 1
    assert "exited 3: no route" in " ".join(shown.data.split())


def test_who_may_not_create_tables_gets_the_statements(well: Cli, tmp_path: Path) -> None:
    shown = well("doctor", "--ddl")
    assert shown.code == 0
    database = sqlite3.connect(":memory:")
    database.executescript(shown.data)
    made = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    assert {"reconcile_fence", "reconcile_ranges", "reconcile_changes"} <= made


def let_others_pass(folder: Path) -> None:
    """Down to this folder, however deep the runner has put it."""
    top = Path(tempfile.gettempdir())
    for one in (folder, *folder.parents):
        if top not in one.parents:
            return
        one.chmod(0o755)


def test_rights_are_judged_as_this_user_has_them(well: Cli) -> None:
    if os.geteuid() != 0:
        pytest.skip("not run: root missing, to be somebody else for a moment")
    let_others_pass(well.folder)
    os.seteuid(65534)
    try:
        shown = well("doctor", "--json")
    finally:
        os.seteuid(0)
    texts = [text for _, text, _ in found(shown)]
    assert any("may not write the folder" in text and "of the store" in text for text in texts)
    assert any("may not write the file" in text and "app.db" in text for text in texts)


def test_what_units_prints_is_found_where_it_was_put(well: Cli) -> None:
    host = well.folder.parent / "host"
    crontab(well, "")
    printed = well("units", "entitlements", "--crontab")
    assert printed.code == 0
    assert "no crontab line" in well("doctor").data
    crontab(well, printed.data)
    assert "entitlements: crontab of svc-rec line" in " ".join(well("doctor").data.split())
    crontab(well, "")
    units = host / "etc/systemd/system"
    (units / "timers.target.wants").mkdir(parents=True)
    assert well("units", "entitlements", "--systemd", "--output", str(units)).code == 0
    name = "reconcile-entitlements.timer"
    assert f"systemctl enable --now {name}" in well("doctor").data
    (units / "timers.target.wants" / name).symlink_to(units / name)
    assert f"entitlements: {name}, at least every 10m" in " ".join(well("doctor").data.split())


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("etc/crontab", "*/10 * * * * svc-rec /usr/bin/reconcile run entitlements\n"),
        ("etc/cron.d/night", "SHELL=/bin/sh\n*/5 * * * * root reconcile run --all\n"),
        ("etc/cron.hourly/night", "#!/bin/sh\n# nightly\nexec reconcile -q run entitlements\n"),
    ],
)
def test_tables_of_the_system_are_read_too(place: str, text: str, well: Cli) -> None:
    crontab(well, "")
    path = well.folder.parent / "host" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    assert well("doctor").code == 0
    assert f"/{place} line" in "".join(well("doctor").data.split()).replace("line", " line")
    path.unlink()
    assert "no crontab line" in well("doctor").data


def test_who_may_not_read_the_spool_has_his_own_crontab_asked_for(
    well: Cli, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("not run: root missing, to be somebody else for a moment")
    host = tmp_path / "host"
    (host / "etc").mkdir()
    (host / "etc/crontab").write_text("# nobody but root\n")
    (host / "etc/crontab").chmod(0o600)
    (host / "var/spool/cron/crontabs").chmod(0o700)
    program = well.folder / "crontab"
    program.write_text(f"#!/bin/sh\n[ \"$*\" = -l ] && echo '{CRONTAB.strip()}'\n")
    program.chmod(0o755)
    let_others_pass(well.folder)
    well.environ = {**well.environ, "PATH": str(well.folder)}
    os.seteuid(65534)
    try:
        shown = well("doctor", "--json")
    finally:
        os.seteuid(0)
    called = [text for subject, text, _ in found(shown, "ok") if subject == "triggers"]
    assert called == ["entitlements: crontab of nobody line 1, at least every 10m"]
    unread = [text for subject, text, _ in found(shown, "warn") if subject == "triggers"]
    assert unread == [
        f"{host}/etc/crontab may not be read by nobody, and may hold what calls a job"
    ]
