"""What every target promises, in each database: fence, before-images, change log and marker
are one transaction. The same tests are run against each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from support.fakes import FakeClock
from support.postgres_bed import PostgresBed
from support.target import (
    EVERYTHING,
    commit,
    fence,
    grant,
    part,
    proof,
    revoke,
    update,
)
from support.target import Bed as SqliteBed

from reconcile.core.checksum import checksum, encode
from reconcile.core.errors import (
    ChangedMeanwhile,
    FencedOut,
    FenceIsHigher,
    LeaseLapsed,
    OldOverNew,
    ReconcileError,
    TargetUnusable,
)
from reconcile.core.model import PlanId, RunId
from reconcile.core.rows import Action, Change, KeySpan
from reconcile.core.targets.sqlite_ddl import NAMES

NOW = timedelta(0)


Bed: TypeAlias = "SqliteBed | PostgresBed"


@pytest.fixture(params=["sqlite", "sqlite with WAL", "postgres"])
def bed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bed]:
    postgres = request.param == "postgres"
    made = PostgresBed() if postgres else SqliteBed(tmp_path, wal=request.param != "sqlite")
    yield made
    made.close()


# --- the fence


def test_our_tables_come_with_the_first_fence_only(bed: Bed) -> None:
    target = bed.target()
    target.schema()
    assert target.lines(EVERYTHING) == []
    assert target.marker(PlanId("plan"), 1) is None
    assert list(target.changes()) == []
    assert bed.tables() == {"entitlements"}
    target.raise_fence(fence(1), "store", NOW)
    assert all(bed.count(name) == (name == "reconcile_fence") for name in NAMES)


def test_the_fence_rises_and_says_what_stood_before(bed: Bed) -> None:
    target = bed.target()
    first = target.raise_fence(fence(5), "store-a", NOW)
    assert (first.generation, first.run, first.newest) == (5, RunId("run-5"), None)
    second = target.raise_fence(fence(9), "store-b", NOW)
    assert (second.store_id, second.generation) == ("store-a", 5)
    again = target.raise_fence(fence(9), "store-b", NOW)
    assert (again.store_id, again.generation, again.run) == ("store-b", 9, RunId("run-9"))


@pytest.mark.parametrize("late", [fence(8), fence(9, "another run"), fence(1)])
def test_a_fence_that_is_not_higher_is_refused(bed: Bed, late: Any) -> None:
    target = bed.fenced(9)
    with pytest.raises(FenceIsHigher) as refused:
        target.raise_fence(late, "store", NOW)
    assert (refused.value.row.generation, refused.value.row.run) == (9, RunId("run-9"))
    assert commit(target, [grant("a", "x", "1")], [("a", "x", "1")], generation=9)


@pytest.mark.parametrize("stale", [fence(1), fence(2, "another run"), fence(3)])
def test_another_grant_can_neither_commit_nor_complete(bed: Bed, stale: Any) -> None:
    target = bed.target()
    target.raise_fence(fence(1), "store", NOW)
    target.raise_fence(fence(2), "store", NOW)
    with pytest.raises(FencedOut, match="generation 2"):
        target.commit(stale, part([grant("a", "x", "1")], [("a", "x", "1")]), 1e12)
    with pytest.raises(FencedOut):
        target.complete(stale, proof())
    assert bed.rows() == []
    assert bed.count("reconcile_changes") == bed.count("reconcile_ranges") == 0
    assert commit(target, [], [], generation=2).checksum == checksum([])


def test_without_any_fence_nothing_is_committed(bed: Bed) -> None:
    with pytest.raises(FencedOut):
        commit(bed.target(), [grant("a", "x", "1")], [("a", "x", "1")])
    assert bed.rows() == []


def test_a_second_job_on_the_same_rows_is_refused(bed: Bed) -> None:
    bed.do("ALTER TABLE entitlements ADD origin TEXT DEFAULT 'billing'")
    columns = ("entitlement", "level")
    billing = bed.target("billing", scope="origin = 'billing'", columns=columns)
    billing.raise_fence(fence(1, job="billing"), "store", NOW)
    for scope in (None, "origin = 'billing'"):
        other = bed.target("other", scope=scope, columns=columns)
        with pytest.raises(TargetUnusable, match="job other and job billing") as refused:
            other.raise_fence(fence(1, job="other"), "store", NOW)
        assert "scope" in refused.value.hint
    crm = bed.target("crm", scope="origin = 'crm'", columns=columns)
    crm.raise_fence(fence(1, job="crm"), "store", NOW)
    assert bed.count("reconcile_fence") == 2


# --- changes


def test_grants_revokes_and_updates_are_applied_and_logged(bed: Bed) -> None:
    bed.insert(("a", "x", "1"), ("b", "y", None), ("c", "z", ""))
    target = bed.fenced()
    done = commit(
        target,
        [
            revoke("a", "x", "1"),
            update(("b", "y", None), ("b", "y", "")),
            update(("c", "z", ""), ("c", "z", None)),
            grant("d", "w", None),
        ],
        [("b", "y", ""), ("c", "z", None), ("d", "w", None)],
    )
    assert bed.rows() == [("b", "y", ""), ("c", "z", None), ("d", "w", None)]
    assert done.changes == {Action.GRANT: 1, Action.REVOKE: 1, Action.UPDATE: 2}
    assert done.checksum == checksum(target.lines(EVERYTHING))
    image = '{"account_id":"%s","entitlement":"%s","level":%s}'
    assert bed.log() == [
        ("revoke", "a", '["a","x"]', image % ("a", "x", '"1"'), None),
        ("update", "b", '["b","y"]', image % ("b", "y", "null"), image % ("b", "y", '""')),
        ("update", "c", '["c","z"]', image % ("c", "z", '""'), image % ("c", "z", "null")),
        ("grant", "d", '["d","w"]', None, image % ("d", "w", "null")),
    ]


def test_a_range_is_applied_once_however_often_it_is_asked_for(bed: Bed) -> None:
    target = bed.fenced()
    done = commit(target, [grant("a", "x", "1")], [("a", "x", "1")], number=7)
    bed.do("DELETE FROM entitlements")
    assert commit(target, [grant("a", "x", "1")], [("a", "x", "1")], number=7) == done
    assert target.marker(PlanId("plan"), 7) == done
    assert target.marker(PlanId("plan"), 8) is None
    assert target.marker(PlanId("other"), 7) is None
    assert bed.rows() == []
    assert bed.count("reconcile_changes") == 1


def test_a_marker_says_all_that_happened_to_a_range(bed: Bed) -> None:
    target = bed.fenced(3, clock=FakeClock())
    span = KeySpan("a", "m")
    commit(target, [grant("b", "x", "1")], [("b", "x", "1")], span=span, generation=3, time=1e9)
    total = str(checksum([encode(("b", "x", "1"))]))
    when = "2026-11-30T02:30:00.000000Z"
    assert bed.rows("reconcile_ranges") == [
        ("job", 0, "2026-11-30", 0, "plan", 1, "a", "m", 1, 0, 0, total, "run-3", 3, when)
    ]


CONFLICTS = {
    "revoked by somebody": (revoke("a", "x", "1"), "DELETE FROM entitlements"),
    "changed before a revoke": (revoke("a", "x", "1"), "UPDATE entitlements SET level = '2'"),
    "set to NULL before a revoke": (
        revoke("a", "x", "1"),
        "UPDATE entitlements SET level = NULL",
    ),
    "changed before an update": (
        update(("a", "x", "1"), ("a", "x", "3")),
        "UPDATE entitlements SET level = '2'",
    ),
    "gone before an update": (
        update(("a", "x", "1"), ("a", "x", "3")),
        "DELETE FROM entitlements",
    ),
    "granted by somebody": (
        grant("b", "y", "1"),
        "INSERT INTO entitlements VALUES ('b', 'y', '1')",
    ),
    "granted otherwise by somebody": (
        grant("b", "y", "1"),
        "INSERT INTO entitlements VALUES ('b', 'y', '2')",
    ),
}


@pytest.mark.parametrize("what", CONFLICTS)
def test_a_row_that_is_not_its_before_image_stops_the_range(bed: Bed, what: str) -> None:
    change, meanwhile = CONFLICTS[what]
    bed.insert(("a", "x", "1"))
    target = bed.fenced()
    bed.do(meanwhile)
    before = bed.rows()
    changes = [grant("0", "other", "1"), change, grant("z", "other", "1")]
    with pytest.raises(ChangedMeanwhile) as stopped:
        commit(target, changes, [("0", "other", "1")])
    assert stopped.value.accounts == (change.row[0],)
    assert bed.rows() == before
    assert bed.count("reconcile_changes") == bed.count("reconcile_ranges") == 0


def test_every_changed_account_is_named_once(bed: Bed) -> None:
    rows = [(account, kind, "1") for account in "abc" for kind in "xy"]
    bed.insert(*rows)
    target = bed.fenced()
    bed.do("UPDATE entitlements SET level = '9' WHERE account_id IN ('a', 'c')")
    with pytest.raises(ChangedMeanwhile) as stopped:
        commit(target, [revoke(*row) for row in rows], [])
    assert stopped.value.accounts == ("a", "c")


def test_what_somebody_else_has_done_already_is_not_logged_as_ours(bed: Bed) -> None:
    bed.insert(("a", "sso", "2"))
    target = bed.fenced()
    for change in (
        revoke("a", "api", "1"),  # gone already
        update(("a", "sso", "1"), ("a", "sso", "2")),
    ):
        with pytest.raises(ChangedMeanwhile) as refusal:
            commit(target, [change], [("a", "sso", "2")])
        assert refusal.value.accounts == ("a",)
    assert bed.log() == []


def test_a_row_beside_the_changes_that_somebody_wrote_stops_the_range(bed: Bed) -> None:
    target = bed.fenced()
    bed.insert(("b", "by", "somebody"))
    with pytest.raises(ChangedMeanwhile) as stopped:
        commit(target, [grant("a", "x", "1")], [("a", "x", "1")])
    assert stopped.value.accounts == ()
    assert bed.rows() == [("b", "by", "somebody")]


def test_rows_outside_the_span_do_not_count(bed: Bed) -> None:
    bed.insert(("a", "x", "1"), ("z", "x", "1"))
    target = bed.fenced()
    commit(target, [grant("b", "y", "2")], [("b", "y", "2")], span=KeySpan("a", "m"))
    assert len(bed.rows()) == 3


def test_nothing_is_committed_after_its_time(bed: Bed) -> None:
    clock = FakeClock()
    target = bed.fenced(clock=clock)
    late = part([grant("a", "x", "1")], [("a", "x", "1")])
    with pytest.raises(LeaseLapsed):
        target.commit(fence(1), late, clock.boot())
    assert bed.rows() == []
    clock.advance(-1)
    target.commit(fence(1), late, clock.boot() + 1)
    assert bed.rows() == [("a", "x", "1")]


# --- completion


def test_completion_is_the_floor_for_the_next_run(bed: Bed) -> None:
    target = bed.fenced()
    target.complete(fence(1), proof(29))
    row = target.raise_fence(fence(2), "store", NOW)
    assert row.newest is not None
    assert row.newest.interval == "2026-11-29"
    assert row.newest.scheduled_at == proof(29).interval.scheduled_at
    assert (row.newest.rerun, row.newest.checksum) == (0, proof(29).observed)
    target.complete(fence(2), proof(29))
    target.complete(fence(2), proof(30))
    again = target.raise_fence(fence(3), "store", NOW)
    assert again.newest is not None
    assert again.newest.interval == "2026-11-30"


@pytest.mark.parametrize("old", [proof(29), proof(29, 7), proof(30, 0)])
def test_an_older_completion_never_replaces_a_newer_one(bed: Bed, old: Any) -> None:
    target = bed.fenced()
    target.complete(fence(1), proof(30, 1))
    before = bed.rows("reconcile_fence")
    with pytest.raises(OldOverNew, match="2026-11-30"):
        target.complete(fence(1), old)
    assert bed.rows("reconcile_fence") == before


def test_completion_drops_the_markers_of_other_intervals(bed: Bed) -> None:
    target = bed.fenced()
    commit(target, [], [], plan="old", interval="2026-11-29")
    commit(target, [], [], plan="new", interval="2026-11-30")
    target.complete(fence(1), proof(30))
    assert target.marker(PlanId("old"), 1) is None
    assert target.marker(PlanId("new"), 1) is not None


# --- the change log


def test_the_change_log_reads_back_what_was_changed(bed: Bed) -> None:
    odd = bed.odd
    bed.insert(("b", "y", None))
    target = bed.fenced(clock=FakeClock())
    first = [grant(*odd), update(("b", "y", None), ("b", "y", "1"))]
    commit(target, first, [odd, ("b", "y", "1")], plan="p1", time=1e9)
    commit(
        target,
        [revoke("b", "y", "1")],
        [odd],
        plan="p2",
        number=4,
        interval="2026-12-01",
        time=1e9,
    )
    found = list(target.changes())
    assert [change for _, change in found] == [*first, revoke("b", "y", "1")]
    assert found[-1][0] == {
        "job": "job",
        "interval": "2026-12-01",
        "rerun": 0,
        "range": 4,
        "run": "run-1",
        "generation": 1,
        "at": "2026-11-30T02:30:00.000000Z",
        "action": "revoke",
    }
    assert [c for _, c in target.changes(interval="2026-12-01")] == [revoke("b", "y", "1")]
    assert [c.action for _, c in target.changes(account="b")] == ["update", "revoke"]
    assert [c for _, c in target.changes(account=odd[0])] == [grant(*odd)]
    assert list(target.changes(interval="2026-11-30", account="c")) == []


def test_a_long_change_log_is_read_page_by_page(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconcile.core.targets.books.PAGE", 3)
    target = bed.fenced()
    rows = [(str(i), "x", "1") for i in range(9)]
    commit(target, [grant(*row) for row in rows], rows)
    log = target.changes()
    assert next(log)[1] == Change(None, rows[0])
    bed.insert(("not", "locked", "out"))
    assert [change.after for _, change in log] == rows[1:]


def test_another_jobs_changes_are_not_shown(bed: Bed) -> None:
    target = bed.fenced()
    commit(target, [grant("a", "x", "1")], [("a", "x", "1")])
    bed.do("UPDATE reconcile_changes SET job = 'other'")
    assert list(target.changes()) == []


# --- the rest


def test_closing_twice_is_harmless_and_every_error_has_a_hint(bed: Bed) -> None:
    target = bed.target(table="none")
    with pytest.raises(ReconcileError) as error:
        target.schema()
    assert error.value.hint
    target.close()
    target.close()
