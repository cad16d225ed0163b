"""Nights from a CSV file into PostgreSQL, by real processes that are killed and taken over."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from support.fakes import eventually
from support.postgres_scene import PostgresScene
from support.scene import NIGHTS, Table, drifted, is_stopped, night

EARLIER, FIRST, SECOND = NIGHTS
LONG = os.environ.get("RECONCILE_TEST_LONG") == "1"
MORE = ["fence_raised:1", "range_planned:3", "range_committed:1", "checkpoint_saved:30"]
RUN = ("run", "entitlements")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[PostgresScene]:
    """Twenty ranges; the table is the truth of an earlier day."""
    made = PostgresScene(tmp_path / "scene", range_size=10, start=SECOND)
    before = night(7, 200)
    made.fill(before)
    made.write_night(EARLIER, before)
    made.write_night(SECOND, drifted(before, 8))
    yield made
    made.drop()


@pytest.mark.parametrize(
    "at",
    ["range_committed:17", "target_completed:1", *(MORE if LONG else ())],
)
def test_a_night_that_was_killed_goes_on_where_it_was(scene: PostgresScene, at: str) -> None:
    killed = scene.run(*RUN, step=f"{at}:SIGKILL")
    assert killed.code == -signal.SIGKILL, killed.err
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[EARLIER])
    runs = scene.answer("SELECT DISTINCT generation, run_id FROM reconcile_ranges ORDER BY 1")
    assert len(runs) == (2 if at.startswith(("range_committed", "checkpoint")) else 1)
    assert len({generation for generation, _ in runs}) == len(runs)


# --- others who write


def test_a_live_writer_loses_nothing_and_is_not_overwritten_unseen(scene: PostgresScene) -> None:
    """It changes rows of one account in twenty while the night goes on, each to something new."""
    scene.audit()
    accounts = sorted({account for account, _ in scene.rows()})[::20]
    night_run = scene.start_process(*RUN, step="range_committed:*:wait=0.02")
    numbers, chosen = count(), random.Random(9)
    query = f"UPDATE {scene.schema}.entitlements SET level = %s WHERE account_id = %s"
    with scene.server.admin() as writer:
        writer.execute("SET application_name = 'writer'")
        while night_run.poll() is None:
            writer.execute(query.encode(), (f"new-{next(numbers)}", chosen.choice(accounts)))
    ended = scene.end(night_run)
    assert ended.code in {0, 3}, ended.err  # 3: an account changed faster than it was compared
    written = scene.answer("SELECT was::text, is_now::text, program FROM audit ORDER BY n")
    assert sum(program == "writer" for *_, program in written) > 20
    # What reconcile logged is what it did, to rows that were as it says.
    logged = scene.answer(
        "SELECT (\"before\"::jsonb ->> 'account_id', \"before\"::jsonb ->> 'entitlement',"
        " \"before\"::jsonb ->> 'level')::text, (\"after\"::jsonb ->> 'account_id',"
        " \"after\"::jsonb ->> 'entitlement', \"after\"::jsonb ->> 'level')::text"
        " FROM reconcile_changes"
    )
    nothing = "(,,)"
    ours = Counter((was or nothing, now or nothing) for was, now, by in written if by != "writer")
    assert Counter(logged) == ours
    # Whoever keeps writing has the last word; without a writer the next pass is equal.
    calm = ("rerun" if ended.code == 0 else "resume", "entitlements", SECOND)
    assert scene.run(*calm, *(("-m", "quiet") if ended.code == 0 else ())).code == 0
    assert scene.rows() == scene.nights[SECOND]


def test_rows_of_others_are_never_touched(tmp_path: Path) -> None:
    scene = PostgresScene(tmp_path / "scene", range_size=10, start=SECOND)
    truth, theirs = night(7, 60), {("acct-00000", "x"): "1", ("zz", "y"): ""}
    scene.fill(drifted(truth, 3) | theirs)
    scene.do(
        "ALTER TABLE entitlements ADD origin text DEFAULT 'billing'",
        "UPDATE entitlements SET origin = 'crm' WHERE (account_id, entitlement) IN"
        " (('acct-00000', 'x'), ('zz', 'y'))",
    )
    scene.configure('entitlements" }', 'entitlements", scope = "origin = \'billing\'" }')
    scene.write_night(SECOND, truth)
    assert scene.run(*RUN).code == 0
    assert scene.rows() == truth | theirs
    scene.drop()


# --- guards


def test_a_guard_stops_all_and_its_approval_lets_exactly_that_pass(scene: PostgresScene) -> None:
    before = scene.rows()
    lost: Table = dict(sorted(scene.nights[SECOND].items())[:300])
    scene.write_night(SECOND, lost)
    stopped = scene.run(*RUN, "--json")
    assert stopped.code == 4, stopped.err
    waiting = scene.run("status", "entitlements", "--json").json()["intervals"][0]["waiting"]
    assert scene.rows() == before
    approve = ("resume", "entitlements", SECOND, "-m", "meant", "--approve")
    # Rows that somebody adds meanwhile are not in what was approved.
    extra = dict.fromkeys((("zzz", str(number)) for number in range(80)), "1")
    scene.fill(extra)
    again = scene.run(*approve, waiting["hash"])
    assert again.code == 4, again.err
    assert extra.keys() <= scene.rows().keys()
    scene.do("DELETE FROM entitlements WHERE account_id = 'zzz'")
    waiting = scene.run("status", "entitlements", "--json").json()["intervals"][0]["waiting"]
    done = scene.run(*approve, waiting["hash"])
    assert done.code == 0, done.err
    assert scene.rows() == lost


# --- copies and rivals


def test_a_target_restored_from_a_copy_is_noticed_and_mended(tmp_path: Path) -> None:
    guards = '[jobs.entitlements.guards]\nmax_revoke = "100%"\n'
    scene = PostgresScene(tmp_path / "scene", range_size=20, start=EARLIER, extra=guards)
    truth = night(7, 100)
    for number, date in enumerate(NIGHTS):
        scene.write_night(date, drifted(truth, number + 1, 0.03))
    assert scene.run(*RUN, "--interval", EARLIER).code == 0
    scene.keep_copy()
    assert scene.run(*RUN, "--interval", FIRST).code == 0
    scene.restore()
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    assert "target_rewound" in [event["type"] for event in scene.events(FIRST)]
    scene.check(SECOND, scene.nights[FIRST])
    scene.drop()


def test_a_copy_that_lacks_a_range_of_this_night_is_noticed(scene: PostgresScene) -> None:
    scene.run(*RUN, step="fence_raised:1:SIGKILL")
    scene.keep_copy()
    assert scene.run(*RUN, step="range_committed:9:SIGKILL").code == -signal.SIGKILL
    scene.restore()
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[EARLIER])
    assert "target_rewound" in [event["type"] for event in scene.events(SECOND)]


def test_two_stores_that_raise_the_fence_against_each_other_are_both_named(
    scene: PostgresScene,
) -> None:
    assert scene.run(*RUN, step="fence_raised:1:SIGKILL").code == -signal.SIGKILL
    before = scene.rows()
    ran = scene.run(*RUN, step="rival@postgres")
    assert ran.code == 65, ran.err
    assert "rival" in ran.err
    assert scene.rows() == before


# --- stopped


def test_a_holder_stopped_right_before_its_commit_is_taken_over_and_commits_nothing(
    tmp_path: Path,
) -> None:
    ttl = '[jobs.entitlements.lease]\nttl = "2s"\n'
    scene = PostgresScene(tmp_path / "scene", range_size=10, start=SECOND, extra=ttl)
    before = night(7, 100)
    scene.fill(before)
    scene.write_night(SECOND, drifted(before, 8))
    # The first commit is that of the fence.
    stalled = scene.start_process(*RUN, step="target_commit:4:SIGSTOP")
    eventually(lambda: is_stopped(stalled.pid), "it stops within its transaction")
    assert scene.answer("SELECT count(*) FROM reconcile_ranges") == [(2,)]
    found: list[int] = []

    def taken_over() -> bool:
        found.append(scene.run(*RUN).code)
        return found[-1] == 0

    eventually(taken_over, "the lease expires and another run completes the night")
    assert set(found[:-1]) <= {75}
    scene.check(SECOND, before)
    stalled.send_signal(signal.SIGCONT)
    _, err = stalled.communicate(timeout=30)
    assert stalled.returncode == 80, err
    scene.check(SECOND, before)
    scene.drop()
