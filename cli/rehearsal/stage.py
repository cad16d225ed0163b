"""The folder of a drill, and the scenes in it."""

from __future__ import annotations

import csv
import os
import shutil
import sqlite3
from contextlib import closing
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from ...core.operations.drill.scratch import COLUMNS, SOURCE, TABLE, TARGET, configuration
from ...core.targets import open_target
from ..configuration import NAME, load
from .actor import ActorProcess
from .faults import processes, scratch_files
from .folders import make_folder, sweep_folders

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.config import EntitlementsConfig, Job
    from ...core.endpoints import Target
    from ...core.operations.drill.stage import Actor, Script
    from ..environment import Environment

STORE = "store.url"
_WAIT = 10.0
"""Seconds that plain SQL waits for a lock."""


class FolderStage:
    """Implements `core.operations.drill.stage.Stage`, in the folder for temporary files."""

    def __init__(self, env: Environment, store: str) -> None:
        """`store` is the address of the user's store."""
        self._env = env
        self._store = store
        self._folder: Path | None = None
        self._lock: int | None = None
        self._actors: list[ActorProcess] = []
        self._targets: list[Target] = []
        self._guard = Lock()

    def __enter__(self) -> FolderStage:
        with scratch_files():
            sweep_folders()
            self._folder, self._lock = make_folder()
        try:
            with scratch_files():
                secret = os.open(self._folder / STORE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(secret, "w", encoding="utf-8") as file:
                    file.write(self._store)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        for actor in self._actors:
            actor.close()
        for target in self._targets:
            target.close()
        assert self._folder is not None, "it was entered"
        with scratch_files():
            shutil.rmtree(self._folder)
        if self._lock is not None:
            os.close(self._lock)

    def scene(self, script: Script) -> FolderScene:
        """Write the files of one scratch job."""
        assert self._folder is not None, "it was entered"
        folder = self._folder / script.job
        config = folder / NAME
        with scratch_files():
            folder.mkdir(0o700)
            config.write_text(configuration(script, self._folder / STORE), encoding="utf-8")
            config.chmod(0o600)
            with (folder / SOURCE).open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(COLUMNS)
                writer.writerows(sorted(script.source))
            _make_target(folder / TARGET, script)
        job = load(config, environ=self._env.environ, cwd=folder).jobs[script.job]
        return FolderScene(self, folder, job)

    def start(self, scene: FolderScene) -> ActorProcess:
        """A further process of a scene, ended with the stage at the latest."""
        argv = ["-c", str(scene.folder / NAME), "-v", "run", scene.job.name]
        with processes():
            actor = ActorProcess(argv, scene.folder, self._env.environ)
        with self._guard:
            self._actors.append(actor)
        return actor

    def open_target(self, scene: FolderScene) -> Target:
        """The scratch target as a run opens it; closed with the stage."""
        work = cast("EntitlementsConfig", scene.job.work)
        target = open_target(work.target, scene.job.name, self._env.clock, work.source.columns)
        with self._guard:
            self._targets.append(target)
        return target


class FolderScene:
    """Implements `core.operations.drill.stage.Scene`."""

    def __init__(self, stage: FolderStage, folder: Path, job: Job) -> None:
        self._stage = stage
        self.folder = folder
        self.job = job

    def start(self) -> Actor:
        """A further process that runs the job."""
        return self._stage.start(self)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Plain SQL, put to the scratch target past all of this program."""
        with (
            scratch_files(),
            closing(sqlite3.connect(self.folder / TARGET, timeout=_WAIT)) as db,
        ):
            try:
                return db.execute(sql).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise

    def target(self) -> Target:
        """The scratch target as this program opens it."""
        return self._stage.open_target(self)


def _make_target(path: Path, script: Script) -> None:
    account, name, level = COLUMNS
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            f"CREATE TABLE {TABLE} ({account} TEXT NOT NULL, {name} TEXT NOT NULL,"
            f" {level} TEXT, PRIMARY KEY ({account}, {name}))"
        )
        db.executemany(f"INSERT INTO {TABLE} VALUES (?, ?, ?)", script.target)
