"""The rate of an API holds for all processes that ask it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from support.provider import Provider, grants
from support.scene import NIGHTS, Scene

RATE = 60
PROCESSES = 3


def test_no_second_holds_more_calls_than_the_rate_over_three_processes(tmp_path: Path) -> None:
    with Provider(grants(270)) as provider:
        scene = Scene(tmp_path, start=NIGHTS[-1])
        text = ""
        for number in range(PROCESSES):
            with sqlite3.connect(tmp_path / f"app{number}.db") as db:
                db.execute(
                    "CREATE TABLE t (account_id TEXT NOT NULL, entitlement TEXT NOT NULL,"
                    " level TEXT, PRIMARY KEY (account_id, entitlement))"
                )
            db.close()
            text += (
                f'[jobs.j{number}]\nschedule = "0 0 * * *"\nstart = {NIGHTS[-1]}\n'
                f'target = {{ url = "app{number}.db", table = "t" }}\n'
                f'[jobs.j{number}.source]\nurl = "{provider.url}/page"\nrows = "data"\n'
                f'rate = "{RATE}/s"\nconcurrency = 3\n'
                f'paging = {{ by = "page", size = 5, total = "total" }}\n'
            )
        (tmp_path / "reconcile.toml").write_text(text)
        ran = scene.run("run", "--all", "--jobs", str(PROCESSES))
        assert ran.code == 0, ran.err
        assert len(provider.calls) == PROCESSES * 54
        at = sorted(call.at for call in provider.calls)
        most = max(sum(begin <= one < begin + 1 for one in at) for begin in at)
        # What is granted is never more; the others were on their way when the second began.
        assert most <= RATE + PROCESSES * 3
        assert at[-1] - at[0] >= (len(at) - 1) / RATE - 0.5, "none was saved up before"
