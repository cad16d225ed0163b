"""Alerts and heartbeats on their way out: real commands, a real server on the loopback."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.fakes import eventually
from support.listening import serving

from reconcile.cli.delivery import messages
from reconcile.cli.delivery.command import call
from reconcile.cli.delivery.desk import Desk
from reconcile.cli.delivery.heartbeat import Heartbeat, switch
from reconcile.cli.delivery.metrics_file import replace_file
from reconcile.core.config import AlertsConfig
from reconcile.core.errors import NotDelivered
from reconcile.core.events import IntervalReport, NotTold, Started
from reconcile.core.model import Outcome, Trigger

AT = datetime(2026, 11, 30, 2, 30, tzinfo=UTC)
RUN_ID = "0123456789abcdef0123456789abcdef"
RID = "01234567-89ab-cdef-0123-456789abcdef"
ALERT = {
    "schema": 1,
    "id": "j/2026-11-30/overdue",
    "kind": "overdue",
    "state": "raised",
    "job": "j",
    "interval": "2026-11-30",
    "host": "db1",
    "text": "j 2026-11-30 is 1h past its deadline",
    "next": "reconcile status j 2026-11-30",
}


def script(folder: Path, text: str) -> list[str]:
    """A command that does this, and is begun fast."""
    path = folder / "page"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return ["./page", "a  b", "$HOME"]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class TestCommand:
    def test_it_gets_the_alert_as_it_is_and_its_arguments_without_a_shell(
        self, tmp_path: Path
    ) -> None:
        argv = script(tmp_path, 'cat > got; printf "%s|" "$@" > argv; pwd > cwd; echo shown')
        call(argv, "the alert\n", tmp_path)
        assert (tmp_path / "got").read_text() == "the alert\n"
        assert (tmp_path / "argv").read_text() == "a  b|$HOME|"
        assert (tmp_path / "cwd").read_text().strip() == str(tmp_path.resolve())

    def test_one_that_does_not_read_is_as_good_as_one_that_does(self, tmp_path: Path) -> None:
        call(script(tmp_path, "exit 0"), "x" * 300_000, tmp_path)

    def test_a_failure_tells_the_status_and_the_last_line_of_errors(self, tmp_path: Path) -> None:
        argv = script(tmp_path, "echo first >&2; echo 'no route to pager' >&2; exit 3")
        with pytest.raises(NotDelivered, match=r"^\./page exited 3: no route to pager$"):
            call(argv, "", tmp_path)
        with pytest.raises(NotDelivered, match=r"^\./page was ended by SIGTERM$"):
            call(script(tmp_path, "kill -TERM $$"), "", tmp_path)

    def test_one_that_is_not_there_is_said_so(self, tmp_path: Path) -> None:
        with pytest.raises(NotDelivered, match="/no/such cannot be called: No such file") as found:
            call(["/no/such"], "", tmp_path)
        assert found.value.hint == "see [alerts] command"

    def test_one_that_hangs_is_ended_with_all_that_it_began(self, tmp_path: Path) -> None:
        argv = script(tmp_path, "sleep 600 & echo $! > child; trap '' TERM; sleep 600")
        begun = time.monotonic()
        with pytest.raises(NotDelivered, match=r"took longer than 0\.3s and was ended"):
            call(argv, "", tmp_path, seconds=0.3)
        assert time.monotonic() - begun < 5
        child = int((tmp_path / "child").read_text())
        eventually(lambda: not is_alive(child), "its child is gone")

    def test_a_signal_to_our_group_does_not_reach_it(self, tmp_path: Path) -> None:
        call(script(tmp_path, "ps -o sid= -p $$ > sid || echo $$ > sid"), "", tmp_path)
        assert int((tmp_path / "sid").read_text()) != os.getsid(0)


@pytest.fixture
def server() -> Iterator[Any]:
    with serving() as found:
        yield found


def address(server: Any, path: str) -> str:
    return f"http://127.0.0.1:{server.server_port}{path}"


def started() -> Started:
    return Started("j", "2026-11-30", Trigger.SCHEDULE, 7, AT, run_id=RUN_ID)


def ended(outcome: Outcome, run_id: str = RUN_ID) -> IntervalReport:
    trigger = Trigger.SCHEDULE
    return IntervalReport("j", "2026-11-30", AT, outcome, trigger, 7, AT, run_id=run_id)


class TestHeartbeat:
    def test_the_switch_is_called_at_start_and_success_with_the_runs_id(self, server: Any) -> None:
        told: list[Any] = []
        heartbeat = Heartbeat({"j": address(server, "/ping/secret?a=1")}, told.append)
        heartbeat.report(started())
        heartbeat.report(ended(Outcome.COMPLETED))
        assert [(method, path) for method, path, _ in server.asked] == [
            ("GET", f"/ping/secret/start?a=1&rid={RID}"),
            ("GET", f"/ping/secret?a=1&rid={RID}"),
        ]
        assert [type(one) for one in told] == [Started, IntervalReport]

    @pytest.mark.parametrize(
        ("outcome", "called"),
        [
            (Outcome.FAILED, True),
            (Outcome.INCOMPLETE, True),
            (Outcome.NEEDS_APPROVAL, True),
            (Outcome.INTERRUPTED, False),
            (Outcome.OUT_OF_TIME, False),
            (Outcome.FENCED_OUT, False),
        ],
    )
    def test_a_failure_is_told_and_an_interruption_is_none(
        self, server: Any, outcome: Outcome, called: bool
    ) -> None:
        heartbeat = Heartbeat({"j": address(server, "/ping/")}, lambda report: None)
        heartbeat.report(ended(outcome))
        heartbeat.report(ended(outcome, run_id=""))
        paths = [path for _, path, _ in server.asked]
        assert paths == ([f"/ping/fail?rid={RID}"] if called else [])

    def test_another_jobs_switch_is_left_alone(self, server: Any) -> None:
        heartbeat = Heartbeat({"other": address(server, "/ping")}, lambda report: None)
        heartbeat.report(started())
        heartbeat.report(ended(Outcome.COMPLETED))
        assert server.asked == []

    def test_a_server_that_refuses_or_hangs_is_one_warning_without_the_address(self) -> None:
        told: list[Any] = []
        with serving(status=500) as server:
            heartbeat = Heartbeat({"j": address(server, "/ping/secret")}, told.append, 0.2)
            heartbeat.report(ended(Outcome.COMPLETED))
            server.hold.clear()
            begun = time.monotonic()
            heartbeat.report(ended(Outcome.COMPLETED))
            assert time.monotonic() - begun < 3
        warnings = [one.text for one in told if isinstance(one, NotTold)]
        where = f"http://127.0.0.1:{server.server_port}/***"
        assert warnings == [f"heartbeat {where} did not take its call"] * 2

    def test_nobody_at_the_address_is_a_warning_too(self) -> None:
        told: list[Any] = []
        with serving() as server:
            gone = address(server, "/ping")
        Heartbeat({"j": gone}, told.append).report(ended(Outcome.COMPLETED))
        assert [type(one) for one in told] == [IntervalReport, NotTold]

    def test_the_suffix_ends_the_path_whatever_follows(self) -> None:
        assert switch("https://h/p/?x=1", "/fail", RUN_ID) == f"https://h/p/fail?x=1&rid={RID}"
        assert switch("https://h", "/start", RUN_ID) == f"https://h/start?rid={RID}"
        assert switch("https://h/p/", "", RUN_ID) == f"https://h/p/?rid={RID}"


# Apprise imports what Python is about to drop.
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
class TestMessages:
    def test_an_alert_goes_to_an_apprise_address(self, server: Any) -> None:
        url = f"json://127.0.0.1:{server.server_port}/secret"
        desk = Desk(AlertsConfig(notify=(url,)), Path("/"), lambda text: text.upper())
        assert desk.channels == ["notify 1"]
        desk.send("notify 1", ALERT)
        ((method, path, body),) = server.asked
        assert (method, path.rstrip("/")) == ("POST", "/secret")
        message = json.loads(body)
        assert message["title"] == "reconcile: j 2026-11-30 overdue"
        assert ALERT["text"] in message["message"]
        assert "RECONCILE STATUS J 2026-11-30" in message["message"]
        desk.send("notify 1", {**ALERT, "state": "cleared"})
        message = json.loads(server.asked[-1][2])
        assert message["title"].endswith("overdue: over")
        assert message["type"] == "success"

    def test_a_refusal_tells_no_more_than_the_kind_of_service(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with serving(status=500) as server:
            url = f"json://user:hunter2@127.0.0.1:{server.server_port}/hunter2"
            with pytest.raises(NotDelivered) as found:
                messages.send(url, ALERT)
        assert str(found.value) == "json://*** did not take the message within 30s"
        with pytest.raises(
            NotDelivered, match=r"^nosuch://\*\*\* is no address that Apprise knows"
        ):
            messages.send("nosuch://hunter2", ALERT)
        assert "hunter2" not in "".join(capfd.readouterr())

    def test_without_apprise_the_way_to_install_it_is_told(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "apprise", None)
        with pytest.raises(NotDelivered, match=r"pip install 'reconcile\[notify\]'$"):
            messages.send("mailto://x", ALERT)


class TestDesk:
    def test_commands_to_type_are_told_so_that_they_work(self, tmp_path: Path) -> None:
        argv = tuple(script(tmp_path, "cat > got"))
        desk = Desk(
            AlertsConfig(command=argv), tmp_path, lambda text: text.replace("reconcile", "rec -c x")
        )
        assert (desk.channels, desk.wants_figures) == (["command"], False)
        desk.send("command", {**ALERT, "text": "ä\nb"})
        got = (tmp_path / "got").read_text()
        assert got.count("\n") == 1
        assert json.loads(got) == {
            **ALERT,
            "text": "ä\nb",
            "next": "rec -c x status j 2026-11-30",
        }

    def test_the_file_of_figures_is_replaced_whole_and_readable_for_all(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "m.prom"
        path.write_text("old")
        old = path.open()
        umask = os.umask(0o077)
        try:
            Desk(AlertsConfig(metrics_file=str(path)), tmp_path, str).publish([])
        finally:
            os.umask(umask)
        assert path.read_text().endswith("# EOF\n")
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert old.read() == "old", "whoever had it open reads on what was there"
        old.close()
        assert [one.name for one in tmp_path.iterdir()] == ["m.prom"]

    def test_a_folder_that_is_not_there_is_told_with_the_key(self, tmp_path: Path) -> None:
        with pytest.raises(NotDelivered, match="cannot be written: No such file") as found:
            replace_file(tmp_path / "no" / "m.prom", "x")
        assert found.value.hint == "see [alerts] metrics_file"
        (tmp_path / "m.prom").mkdir()
        with pytest.raises(NotDelivered, match="cannot be written: Is a directory"):
            replace_file(tmp_path / "m.prom", "x")
        assert [one.name for one in tmp_path.iterdir()] == ["m.prom"]
