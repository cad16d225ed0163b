from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconcile.core.model import Interval
from reconcile.core.work.commands import logs
from reconcile.core.work.commands.logs import Logs, Tail, parts, read

NIGHT = Interval("backup", datetime(2026, 11, 30, 2, 30, tzinfo=UTC), "2026-11-30")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "PART", 100)
    monkeypatch.setattr(logs, "PARTS", 3)


def everything(path: Path, position: int = 0) -> tuple[int, bytes]:
    pieces = list(read(path, position))
    return (pieces[0][0] if pieces else position), b"".join(data for _, data in pieces)


def test_it_holds_what_came_for_this_user_alone(tmp_path: Path) -> None:
    log = Logs(tmp_path / "logs").open(NIGHT, 3)
    log.write(b"one\n\xff\x00")
    log.write(b"\x1b[31m")
    log.close()
    assert log.path == tmp_path / "logs/backup/20261130T023000Z-000003.log"
    assert everything(log.path) == (0, b"one\n\xff\x00\x1b[31m")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


@pytest.mark.usefixtures("small")
def test_of_a_long_one_the_newest_is_kept_and_how_much_is_gone_is_known(tmp_path: Path) -> None:
    log = Logs(tmp_path).open(NIGHT, 1)
    whole = b"".join(b"%06d\n" % number for number in range(1000))
    for at in range(0, len(whole), 35):
        log.write(whole[at : at + 35])
    log.close()
    start, kept = everything(log.path)
    assert start > 0
    assert whole[start:] == kept
    assert 300 <= len(kept) < 600
    assert [part.path.name for part in parts(log.path)][-1] == log.path.name
    # Who reads on from where he was gets what is there since.
    assert everything(log.path, start + 70) == (start + 70, whole[start + 70 :])
    assert everything(log.path, 5)[0] == start


@pytest.mark.usefixtures("small")
def test_a_killed_writer_leaves_a_log_that_the_next_goes_on_with(tmp_path: Path) -> None:
    whole = b""
    for number in range(40):
        log = Logs(tmp_path).open(NIGHT, 1)  # each forgets the one before
        data = b"%020d\n" % number
        log.write(data)
        whole += data
        log.close()
    start, kept = everything(log.path)
    assert whole[start:] == kept


def test_a_log_that_cannot_be_written_says_so_once_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "backup").write_text("a file where a folder should be")
    log = Logs(tmp_path).open(NIGHT, 1)
    log.write(b"one")
    log.write(b"two")
    assert log.fault is not None
    assert str(log.path) in log.fault


def test_a_link_in_its_place_is_not_written_through(tmp_path: Path) -> None:
    log = Logs(tmp_path).open(NIGHT, 1)
    log.path.parent.mkdir()
    log.path.symlink_to(tmp_path / "precious")
    log.write(b"one")
    assert log.fault is not None
    assert not (tmp_path / "precious").exists()


def test_what_nobody_wrote_to_since_is_dropped_with_all_its_parts(tmp_path: Path) -> None:
    kept = Logs(tmp_path)
    old, new = kept.path(NIGHT, 1), kept.path(NIGHT, 2)
    for path in (old, Path(f"{old}.0"), new):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (old.parent / "notes").write_text("somebody's own")
    for path in (old, Path(f"{old}.0"), old.parent / "notes"):
        os.utime(path, (1000, 1000))
    assert kept.drop_older("backup", datetime.fromtimestamp(2000, UTC)) == 2
    assert sorted(path.name for path in old.parent.iterdir()) == [new.name, "notes"]
    assert kept.drop_older("never-run", datetime.fromtimestamp(2000, UTC)) == 0


def test_the_tail_is_the_last_lines_however_they_come() -> None:
    tail = Tail()
    for piece in (b"a\nb", b"b\n", *(b"%d\n" % n for n in range(20)), b"\xff end"):
        tail.feed(piece)
    assert tail.lines() == [*map(str, range(11, 20)), "\\xff end"]
    tail.feed(b"\n\n\n")
    assert tail.lines()[-1] == "\\xff end"
    long = Tail()
    long.feed(b"x" * 10_000_000)
    assert len("".join(long.lines())) <= logs.LONGEST_TAIL_LINE
