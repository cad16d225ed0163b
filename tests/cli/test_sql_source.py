"""A source that is a database, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.scene import NIGHTS
from support.sql_scene import MariaDbSide, SqlScene, grant, grants

NIGHT = NIGHTS[-1]


def test_a_night_whose_database_is_away_changes_nothing_and_shows_no_secret(tmp_path: Path) -> None:
    scene = SqlScene(tmp_path, "mariadb", "sqlite")
    assert isinstance(scene.truth, MariaDbSide)
    server, url = scene.truth.server, scene.truth.url
    scene.truth.fill(grants(20))
    assert scene.run("run", "entitlements").code == 0
    told, call = [], ("rerun", "entitlements", NIGHT, "-m", "again")
    retry = ("run", "entitlements", "--interval", NIGHT)
    for other, code in (
        (server.url(port=1), 69),
        (server.url("nobody"), 77),
        (url.replace("/app", "/app?ssl_ca=none"), None),
    ):
        scene.truth.url = other
        scene.write(f'table = "{scene.truth.name}"')
        ran = scene.run(*(call if not told else retry))
        assert ran.code == (code or ran.code) != 0, ran.err
        told += [ran, scene.run("status", "entitlements", NIGHT), scene.run("config")]
        told += [scene.run("doctor"), scene.run("status", "--json")]
    said = "".join(one.out + one.err for one in told)
    assert "hunter2" not in said
    assert "Traceback" not in said
    assert "mariadb://reader:***@127.0.0.1:1/app" in said, "config says where, at least"
    assert scene.view.ask("SELECT count(*) FROM view") == [(len(grants(20)),)]


def test_doctor_reads_some_rows_and_names_an_account_that_would_be_set_apart(
    tmp_path: Path,
) -> None:
    scene = SqlScene(tmp_path, "sqlite", "sqlite")
    scene.truth.fill(grants(20))
    said = " ".join(scene.run("doctor").out.split())
    assert f"sql {scene.truth.path} truth: 30 rows" in said
    assert "it needs no index" in said
    scene.truth.do("UPDATE truth SET big = 'many' WHERE account = 'a-b'")
    said = " ".join(scene.run("doctor").out.split())
    assert "would be set apart, the first 'a-b': row 1: big 'many' is no integer" in said
    scene.write('table = "nothing"')
    said = " ".join(scene.run("doctor").out.split())
    assert "no such table: nothing" in said
    assert not (tmp_path / "reconcile.db-spool").exists()


def test_each_night_has_its_own_rows_where_the_statement_names_it(tmp_path: Path) -> None:
    scene = SqlScene(tmp_path, "sqlite", "sqlite")
    scene.truth.do("CREATE TABLE all_truth AS SELECT *, '' AS night FROM truth")
    for n, night in enumerate(NIGHTS):
        scene.truth.do("DELETE FROM truth")
        scene.truth.fill(grants(20 + n))
        scene.truth.do(f"INSERT INTO all_truth SELECT *, '{night}' FROM truth")
    scene.write('table = "all_truth"\nscope = "night = {date} -- it\'s of {date}"')
    file = tmp_path / "reconcile.toml"
    file.write_text(file.read_text().replace(f"start = {NIGHT}", f"start = {NIGHTS[0]}"))
    ran = scene.run("run", "entitlements")
    assert (ran.code, ran.err.count(" completed ")) == (0, 3), ran.err
    assert scene.view.ask("SELECT count(*) FROM view") == [(len(grants(22)),)]
    counts = "SELECT interval, count(*) FROM reconcile_changes GROUP BY 1 ORDER BY 1"
    assert scene.view.ask(counts) == list(zip(NIGHTS, [30, 1, 2], strict=True))


def test_an_empty_answer_is_a_guards_affair(tmp_path: Path) -> None:
    scene = SqlScene(tmp_path, "sqlite", "sqlite")
    scene.view.fill([grant("a", "b", 1)])
    ran = scene.run("run", "entitlements")
    assert (ran.code, "empty" in ran.err) == (4, True), ran.err
    assert scene.view.ask("SELECT count(*) FROM view") == [(1,)]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("query = \"SELECT '{date}'\"", "within quotes"),
        ('query = "SELECT 1"\ntable = "t"', "says what the query says"),
        ('query = "SELECT 1"\nscope = "t"', "says what the query says"),
        ('table = "t"\ndelimiter = ";"', "is not for databases"),
        ('table = "t"\nquerry = "t"', "did you mean"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(tmp_path: Path, source: str, problem: str) -> None:
    scene = SqlScene(tmp_path, "sqlite", "sqlite")
    scene.write(source)
    ran = scene.run("config")
    assert (ran.code, problem in ran.err) == (78, True), ran.err
