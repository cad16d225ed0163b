"""A Postgres store that was wiped, replaced by an older copy, or put in the place of another:
generations go on upwards, nothing is done twice, and the trail says what happened."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, ClassVar

import pytest
from support.fakes import eventually
from support.forks import DRIVERS
from support.postgres_server import fresh_name, shared_server
from support.scene import NIGHTS, Scene, drifted, is_stopped, night

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

EARLIER, FIRST, SECOND = NIGHTS
RUN = ("run", "entitlements")
TABLES = ("meta", "lease", "record", "bucket")


@pytest.fixture
def schema() -> Iterator[str]:
    name = fresh_name("restored")
    yield name
    shared_server().drop(name, f"{name}_copy")


class Kept(Scene):
    """A job whose commands will talk to a server."""

    variables: ClassVar[dict[str, str]] = DRIVERS


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Three nights exported, a short lease, and no store named yet."""
    made = Kept(tmp_path / "scene", EARLIER, range_size=50, extra=LEASE)
    truth = night(71, 200)
    made.write_night(EARLIER, truth)
    made.write_night(FIRST, drifted(truth, 72))
    made.write_night(SECOND, drifted(made.nights[FIRST], 73))
    return made


LEASE = '[jobs.entitlements.lease]\nttl = "3s"\n'


def use(scene: Scene, schema: str) -> None:
    """Name the store."""
    config = scene.folder / "reconcile.toml"
    config.write_text(f'{config.read_text()}[store]\nurl = "{shared_server().url(schema)}"\n')


def work(scene: Scene, date: str) -> None:
    done = scene.run(*RUN, "--interval", date)
    assert done.code == 0, done.err


def keep(schema: str) -> Callable[[], None]:
    """A copy of the store as it is; what is returned puts it back."""
    server, copy = shared_server(), f"{schema}_copy"
    server.do(f"CREATE SCHEMA {copy}")
    for name in TABLES:
        server.do(f"CREATE TABLE {copy}.{name} AS TABLE {schema}.{name}")
    number = server.ask(f"SELECT last_value FROM {schema}.appended")

    def restore() -> None:
        # Waits for whoever is in a transaction, and is one itself.
        every = ", ".join(f"{schema}.{name}" for name in TABLES)
        fill = [f"INSERT INTO {schema}.{name} TABLE {copy}.{name}" for name in TABLES]
        number_back = f"SELECT setval('{schema}.appended', {number})"
        server.do("; ".join([f"BEGIN; TRUNCATE {every}", *fill, number_back, "COMMIT"]))

    return restore


def log(scene: Scene) -> list[tuple[object, ...]]:
    """The whole change log, as it was written."""
    return scene.ask(scene.target, "SELECT * FROM reconcile_changes ORDER BY id")


def fenced_at(scene: Scene) -> int:
    return int(scene.ask(scene.target, "SELECT generation FROM reconcile_fence")[0][0])


def types(scene: Scene, date: str) -> list[str]:
    return [event["type"] for event in scene.events(date)]


def test_a_move_from_sqlite_goes_on_from_what_the_target_knows(scene: Scene, schema: str) -> None:
    work(scene, EARLIER)
    work(scene, FIRST)
    generation, changes = fenced_at(scene), log(scene)
    use(scene, schema)
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])
    assert log(scene)[: len(changes)] == changes
    assert fenced_at(scene) > generation
    assert types(scene, EARLIER) == ["recovered"]


def test_a_schema_dropped_between_two_nights_replays_nothing(scene: Scene, schema: str) -> None:
    use(scene, schema)
    work(scene, EARLIER)
    work(scene, FIRST)
    generation, changes = fenced_at(scene), log(scene)
    shared_server().drop(schema)
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])
    assert log(scene)[: len(changes)] == changes
    assert fenced_at(scene) > generation
    assert types(scene, EARLIER) == ["recovered"]


def test_an_older_copy_between_two_nights_uses_no_generation_twice(
    scene: Scene, schema: str
) -> None:
    use(scene, schema)
    work(scene, EARLIER)
    restore = keep(schema)
    work(scene, FIRST)
    generation, changes = fenced_at(scene), log(scene)
    restore()
    ran = scene.run(*RUN)
    assert ran.code == 0, ran.err
    scene.check(SECOND, scene.nights[FIRST])
    assert log(scene)[: len(changes)] == changes
    assert not [one for one in log(scene)[len(changes) :] if SECOND not in one]
    assert fenced_at(scene) > generation
    assert "recovered" in types(scene, FIRST)


def test_an_older_copy_in_mid_night_ends_the_run_and_the_next_loses_nothing(
    scene: Scene, schema: str
) -> None:
    use(scene, schema)
    work(scene, EARLIER)
    restore = keep(schema)
    first = scene.start_process(*RUN, "--interval", FIRST, step="range_committed:2:SIGSTOP")
    eventually(lambda: is_stopped(first.pid), "it works")
    generation = fenced_at(scene)
    restore()
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=60)
    # A server that is slow to answer anew is no store any more, to so short a lease.
    assert first.returncode in (69, 80), err
    assert "Traceback" not in err
    after = scene.run(*RUN, "--interval", FIRST)
    assert after.code == 0, after.err
    scene.check(FIRST, scene.nights[EARLIER])
    assert fenced_at(scene) > generation
