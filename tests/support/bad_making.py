"""How inputs become bad: each makes something wrong with a `Night`."""

from __future__ import annotations

import os
import resource
import socket
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from reconcile.core.targets import file_systems

from .bad_inputs import AFTER, HEADER, TABLE, Night, Ticking


def source(content: str | bytes) -> Callable[[Night], None]:
    """The file of the night has another content."""

    def make(night: Night) -> None:
        night.source.write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def null_in(content: str) -> Callable[[Night], None]:
    """The job says that NULL is none, and the file of the night is that."""

    def make(night: Night) -> None:
        night.configure('"exports/{date}.csv"', '{ path = "exports/{date}.csv", null = ["NULL"] }')
        night.source.write_text(content)

    return make


def json_lines(content: str) -> Callable[[Night], None]:
    """The job reads JSON Lines, and the file of the night is that."""

    def make(night: Night) -> None:
        night.configure("{date}.csv", "{date}.jsonl")
        night.source.with_suffix(".jsonl").write_text(content)

    return make


def manifest(content: str | None) -> Callable[[Night], None]:
    """The job's source has a manifest, which is that; None: which is not there."""

    def make(night: Night) -> None:
        night.configure(
            '"exports/{date}.csv"',
            '{ path = "exports/{date}.csv", manifest = "exports/{date}.json" }',
        )
        if content is not None:
            night.source.with_suffix(".json").write_text(content)

    return make


def typed(column: str, content: str) -> Callable[[Night], None]:
    """A column of the target has another type, and the file of the night is that."""

    def make(night: Night) -> None:
        name = column.split(maxsplit=1)[0]
        rebuilt(TABLE.replace(f"{name} TEXT", column))(night)
        night.source.write_text(content)

    return make


def renamed(rename: str, content: str, suffix: str = "csv") -> Callable[[Night], None]:
    """The job renames columns of the file of the night, which is that."""

    def make(night: Night) -> None:
        path = f"exports/{{date}}.{suffix}"
        night.configure('"exports/{date}.csv"', f'{{ path = "{path}", rename = {{ {rename} }} }}')
        night.source.with_suffix(f".{suffix}").write_text(content)

    return make


def packed(content: bytes) -> Callable[[Night], None]:
    """The job reads a gzip file, which has that content."""

    def make(night: Night) -> None:
        night.configure("{date}.csv", "{date}.csv.gz")
        night.source.with_suffix(".csv.gz").write_bytes(content)

    return make


def source_at(path: str) -> Callable[[Night], None]:
    """The job reads something else than a file in its folder."""

    def make(night: Night) -> None:
        night.configure('"exports/{date}.csv"', f'{{ path = "{path}", type = "csv" }}')

    return make


def config(old: str, new: str) -> Callable[[Night], None]:
    """The configuration says something else."""
    return lambda night: night.configure(old, new)


def job(line: str) -> Callable[[Night], None]:
    """The job says something more."""
    return lambda night: night.add(line)


def target(*statements: str) -> Callable[[Night], None]:
    """Somebody has done that to the target."""
    return lambda night: night.sql(*statements)


def store(*statements: str) -> Callable[[Night], None]:
    """Somebody has done that to the store."""
    return lambda night: night.sql(*statements, path=night.store)


def rebuilt(ddl: str) -> Callable[[Night], None]:
    """The target's table is made otherwise, with the rows that it had."""

    def make(night: Night) -> None:
        night.sql(
            "ALTER TABLE entitlements RENAME TO old",
            ddl,
            "INSERT INTO entitlements (account_id, entitlement, level)"
            " SELECT account_id, entitlement, level FROM old",
            "DROP TABLE old",
        )

    return make


def calls(*argv: str) -> Callable[[Night], None]:
    """It is called in another way."""

    def make(night: Night) -> None:
        night.argv = argv

    return make


# --- what takes more than a line


def drop_in(folder: int, file: int) -> Callable[[Night], None]:
    """There is a drop-in, which says nothing; it and its folder have those modes."""

    def make(night: Night) -> None:
        path = night.folder / "conf.d" / "more.toml"
        path.parent.mkdir()
        path.write_text("")
        path.chmod(file)
        path.parent.chmod(folder)

    return make


def address_file(mode: int) -> Callable[[Night], None]:
    """The target's address stands in a file of its own with that mode."""

    def make(night: Night) -> None:
        path = night.folder / "address"
        path.write_text("app.db")
        path.chmod(mode)
        night.configure('"app.db"', '{ url_file = "address" }')

    return make


def fifo(night: Night) -> None:
    night.source.unlink()
    os.mkfifo(night.source)


def socket_file(night: Night) -> None:
    night.source.unlink()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{os.open(night.source.parent, os.O_RDONLY)}/{night.source.name}")


def folder(path: Callable[[Night], Path]) -> Callable[[Night], None]:
    def make(night: Night) -> None:
        path(night).unlink()
        path(night).mkdir()

    return make


def long_line(night: Night) -> None:
    with night.source.open("wb") as file:
        file.write(HEADER.encode() + b"acct-01,seats,")
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\n")

    def bounded() -> Iterator[None]:
        tracemalloc.start()
        yield
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 10_000_000

    night.during.append(bounded)


def forbidden(path: Callable[[Night], Path], mode: int = 0o000) -> Callable[[Night], None]:
    """The caller may do no more with a file or folder of somebody else's than its mode says."""

    def make(night: Night) -> None:
        night.give_to_nobody()
        if os.geteuid() == 0:
            os.chown(path(night), 0, 0)
        path(night).chmod(mode)

    return make


def alone_in_read_only_folder(night: Night) -> None:
    (night.folder / "db").mkdir()
    night.target.rename(night.folder / "db" / "app.db")
    night.configure('"app.db"', '"db/app.db"')
    forbidden(lambda night: night.folder / "db", 0o555)(night)


def limited(size: int) -> Callable[[Night], None]:
    """The system lets nobody write a file beyond that size."""

    def make(night: Night) -> None:
        def limit() -> Iterator[None]:
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

        night.during.append(limit)

    return make


def much_to_grant(night: Night) -> None:
    """The target has to grow by some megabytes, of which the store knows little."""
    row = "acct-2{:05},sso," + "x" * 500 + "\n"
    night.source.write_text(AFTER + "".join(row.format(n) for n in range(5000)))
    limited(2_000_000)(night)


def damaged(path: Callable[[Night], Path], start: int) -> Callable[[Night], None]:
    def make(night: Night) -> None:
        size = path(night).stat().st_size
        with path(night).open("r+b") as file:
            file.seek(start)
            file.write(b"\xff" * (size - start))

    return make


def cut(path: Callable[[Night], Path], share: float) -> Callable[[Night], None]:
    def make(night: Night) -> None:
        os.truncate(path(night), int(path(night).stat().st_size * share))

    return make


def on_network_file_system(night: Night) -> None:
    mounts = night.folder / "mountinfo"
    mounts.write_bytes(b"27 1 9:9 / / rw,relatime - nfs4 server:/export rw\n")
    night.cli.monkeypatch.setattr(file_systems, "_MOUNTS", mounts)


def target_on_network_file_system(night: Night) -> None:
    """By a link, and nothing else is."""
    there = night.folder / "there"
    there.mkdir()
    night.target.rename(there / "app.db")
    night.target.symlink_to("there/app.db")
    mounts = night.folder / "mountinfo"
    mounts.write_text(
        "26 1 9:8 / / rw,relatime - ext4 /dev/vda1 rw\n"
        f"27 26 9:9 / {there.resolve()} rw,relatime - nfs4 server:/export rw\n"
    )
    night.cli.monkeypatch.setattr(file_systems, "_MOUNTS", mounts)


def generated(night: Night) -> None:
    night.sql("ALTER TABLE entitlements ADD size TEXT AS (length(level))")
    night.configure('"level"]', '"level", "size"]')


def locked(path: Callable[[Night], Path]) -> Callable[[Night], None]:
    """Somebody else has the write lock all the time; the job waits two seconds for it."""

    def make(night: Night) -> None:
        night.add('fence_wait = "1s"')
        night.add('lease = { ttl = "2s" }')
        night.cli.clock = Ticking()

        def lock() -> Iterator[None]:
            with closing(sqlite3.connect(path(night), isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                yield

        night.during.append(lock)

    return make


def a_strangers_database(night: Night) -> None:
    night.sql("CREATE TABLE invoices (id)", path=night.folder / "other.db")
    night.argv = ("--store", "other.db", "run", "entitlements")


def linked_store(night: Night) -> None:
    (night.folder / "link.db").symlink_to("app.db")
    night.configure("\n[jobs", '\nstore.url = "link.db"\n[jobs')


def the_source(night: Night) -> Path:
    return night.source


def the_target(night: Night) -> Path:
    return night.target


def the_store(night: Night) -> Path:
    return night.store


def the_config(night: Night) -> Path:
    return night.config
