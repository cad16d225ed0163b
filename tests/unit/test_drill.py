"""The drill's area, and how it is told what was found."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from support import drilling
from support.fakes import FakeClock, outside

from reconcile.cli.render.drill import as_object, text
from reconcile.cli.render.words import Style
from reconcile.core.config import Config, StoreConfig
from reconcile.core.errors import ConfigError, DrillBusy
from reconcile.core.model import Append, Kind, Put
from reconcile.core.operations.application import Application
from reconcile.core.operations.drill.area import AREA, TTL, Area, left, scratch, sweep
from reconcile.core.operations.drill.findings import DrillReport, Finding, Verdict
from reconcile.core.toml import parse
from reconcile.stores.memory import MemoryServer

JOB = """
[jobs.{name}]
schedule = "30 2 * * *"
source = "{{date}}.csv"
target = "app.db"
"""


class Place:
    """A store, and processes that may drill in it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = MemoryServer(self.clock, "store-1")
        self.store = self.server.connect()

    def app(self, name: str) -> Application:
        config = Config(Path("reconcile.toml"), StoreConfig("memory:"), {})
        around = outside(name, self.clock)
        around.host.dead = self.dead
        return Application(config, around.runtime, self.server.connect, lambda job: None)  # type: ignore[arg-type,return-value]

    dead: set[str] = set()  # noqa: RUF012

    def write(self, job: str) -> None:
        """Records of each kind, with more than one page of events, and one without a key."""
        self.store.note([Put(kind, job, "a/1", {}) for kind in Kind if kind is not Kind.EVENT])
        self.store.note([Put(Kind.JOB, job, "", {})])
        self.store.note([Append(Kind.EVENT, job, "a", {}) for _ in range(1200)])


def test_all_records_of_scratch_jobs_go_and_nobody_elses() -> None:
    place = Place()
    place.write(scratch("crowd"))
    place.write("entitlements")
    own = len(list(left(place.store, "entitlements")))
    area = Area.take(place.app("a"), place.store)
    assert area.clear() == own
    assert list(left(place.store, scratch("crowd"))) == []
    assert len(list(left(place.store, "entitlements"))) == own
    assert area.clear() == 0


def test_one_drill_at_a_time_has_the_area_and_one_that_is_dead_has_it_no_more() -> None:
    place = Place()
    first = Area.take(place.app("a"), place.store)
    with pytest.raises(DrillBusy, match="drills in this store"):
        Area.take(place.app("b"), place.store)
    first.give_back()
    Area.take(place.app("b"), place.store)
    place.clock.advance(TTL.total_seconds() + 1)
    last = Area.take(place.app("c"), place.store)
    grant = place.store.lease(AREA)
    assert grant is not None
    place.dead = {grant.holder.token}
    Area.take(place.app("d"), place.store)
    del last


def test_prune_leaves_a_live_drill_alone_and_writes_nothing_where_nothing_is_left() -> None:
    place = Place()
    assert sweep(place.app("a")) == 0
    assert place.store.lease(AREA) is None
    place.write(scratch("half"))
    area = Area.take(place.app("a"), place.store)
    assert sweep(place.app("b")) == 0
    area.give_back()
    assert sweep(place.app("b")) > 1200
    assert list(left(place.store, scratch("half"))) == []


@pytest.mark.parametrize("name", ["reconcile-drill", "reconcile-drill-crowd", "reconcile-drills"])
def test_no_job_of_a_user_has_a_name_of_the_drills(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: is a name that drill needs for itself"):
        parse([(Path("/srv/reconcile.toml"), JOB.format(name=name))], {})
    assert parse([(Path(f"/tmp/{name}/reconcile.toml"), JOB.format(name=name))], {}).jobs


@pytest.mark.parametrize("bug", [*drilling.BUGS.values(), *drilling.MORE.values()])
def test_what_tests_make_a_bug_of_stands_in_the_program(bug: drilling.Bug) -> None:
    found = find_spec(bug.module)
    assert found is not None
    assert found.origin is not None
    assert bug.right in Path(found.origin).read_text()


HOLDS = Finding("proof", 6, Verdict.HOLDS, "count and checksum agree", {"rows": 924})
FAILED = Finding(
    "stalled holder",
    2,
    Verdict.FAILED,
    "a write of generation 1 was accepted after 2: a range into the target",
)
MISSING = Finding("no progress", 7, Verdict.NOT_REHEARSED, "the process ended with 69")


def test_each_promise_is_told_with_its_evidence_and_one_that_broke_by_its_name() -> None:
    report = DrillReport("/srv/reconcile.db", [FAILED, MISSING, HOLDS], 11.8, None, 3)
    assert not report.holds
    assert (
        text(report, Style())
        == """\
  stalled holder      FAILED: a write of generation 1 was accepted after 2: a
                      range into the target
                      promise 2, fenced commits
  no progress         not rehearsed: the process ended with 69
                      promise 7, renewal needs progress
  proof               count and checksum agree                                ✓

1 of 3 hold, 11.8 s. Scratch area removed.
A drill before this one was killed: 3 records of it removed, too.
"""
    )
    assert as_object(report, 1)["rehearsals"][0] == {
        "name": "stalled holder",
        "promise": 2,
        "promised": "fenced commits",
        "verdict": "failed",
        "evidence": FAILED.evidence,
        "figures": {},
    }


def test_what_could_not_be_removed_is_no_success() -> None:
    report = DrillReport("/srv/reconcile.db", [HOLDS], 1.0, "the store did not answer")
    assert not report.holds
    assert as_object(report, 1)["removed"] is False
    assert "is not removed: the store did not answer." in text(report, Style()).replace("\n", " ")
