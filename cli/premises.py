"""The host that the command runs on, as `doctor` asks of it. See `core/operations/doctor/premises`.

Nothing is written. Crontabs are read where they lie (Debian's and Red Hat's spools); this user's
own is asked of `crontab -l` where the spool may not be read. Timers are unit files with their
drop-ins; whether they are active says `systemctl`, where there is one that answers.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.operations.doctor.premises import (
    Called,
    Callers,
    Crontab,
    FileFacts,
    Timer,
    ZoneData,
)
from .host import user_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path("/")
"""Where the host's files begin."""
_SECONDS = 5.0
"""So long may a program take that is asked."""
_SPOOLS = ("var/spool/cron/crontabs", "var/spool/cron")
_SYSTEM_UNITS = (
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
)
_PERIODIC = ("hourly", "daily", "weekly", "monthly")
_LARGEST = 1 << 20


class LinuxPremises:
    """Implements `premises.Premises`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.user = user_name(os.geteuid())
        self.is_root = os.geteuid() == 0

    def file(self, path: str) -> FileFacts | None:
        """See `Premises`."""
        try:
            found = Path(path).stat()
        except (OSError, ValueError):
            return None
        return FileFacts(
            path=path,
            mode=stat.S_IMODE(found.st_mode),
            owner=user_name(found.st_uid),
            is_folder=stat.S_ISDIR(found.st_mode),
            readable=os.access(path, os.R_OK, effective_ids=True),
            writable=os.access(path, os.W_OK, effective_ids=True),
            executable=os.access(path, os.X_OK, effective_ids=True),
        )

    def free(self, folder: str) -> int | None:
        """See `Premises`."""
        try:
            disk = os.statvfs(folder)
        except OSError:
            return None
        return disk.f_bavail * disk.f_frsize

    def program(self, name: str, folder: str) -> str | None:
        """See `Premises`."""
        if "/" in name:
            path = Path(folder, name)
            # In this order, for of a path that may not be looked into is_file() raises.
            good = os.access(path, os.X_OK, effective_ids=True) and path.is_file()
            return str(path) if good else None
        return shutil.which(name, path=self._environ.get("PATH", os.defpath))

    def zones(self) -> ZoneData:
        """See `Premises`."""
        from zoneinfo import TZPATH

        for folder in map(Path, TZPATH):
            if (folder / "UTC").exists() or (folder / "Etc/UTC").exists():
                return ZoneData(_release(folder), _packaged(), str(folder))
        return ZoneData(None, _packaged())

    def callers(self) -> Callers:
        """See `Premises`."""
        unread: list[str] = []
        crontabs = [*self._spooled(unread), *self._of_system(unread)]
        return Callers(crontabs, list(self._timers()), unread)

    def called(self, words: Sequence[str]) -> Called | None:
        """See `Premises`."""
        from .app import command_named
        from .options import global_options
        from .plain import NotPlain, arguments, declared, read

        try:
            rest = iter(words)
            before, named = read(rest, declared(global_options), stop=True)
            if named[:1] != ["run"]:
                return None
            table = declared(command_named("run"), global_options)
            after, names = read(rest, table, stop=False)
            after.update(arguments(names, table))
        except NotPlain:
            return None
        job = after.get("job")
        if job is None and not after.get("every"):
            return None
        config = after.get("config") or before.get("config")
        return Called(job, None if config is None else str(config))

    # --- cron

    def _spooled(self, unread: list[str]) -> Iterator[Crontab]:
        folder = next((f for f in (ROOT / one for one in _SPOOLS) if f.is_dir()), None)
        if folder is None:
            return
        try:
            files = sorted(file for file in folder.iterdir() if file.is_file())
        except OSError:
            text = self._asked("crontab", "-l")
            if text:
                yield Crontab(f"crontab of {self.user}", text, self.user)
            return
        for file in files:
            text = _read(file)
            if text is None:
                unread.append(str(file))
            else:
                yield Crontab(f"crontab of {file.name}", text, file.name)

    def _of_system(self, unread: list[str]) -> Iterator[Crontab]:
        etc = ROOT / "etc"
        for file in (etc / "crontab", *_sorted(etc / "cron.d")):
            if not file.is_file() or file.name.startswith("."):
                continue
            text = _read(file)
            if text is None:
                unread.append(str(file))
            else:
                yield Crontab(str(file), text, None)
        for often in _PERIODIC:
            for file in _sorted(etc / f"cron.{often}"):
                text = _read(file) if os.access(file, os.X_OK) else None
                if text is not None:
                    lines = (f"@{often} root {line}" for line in _commands(text))
                    yield Crontab(str(file), "\n".join(lines), None)

    # --- systemd

    def _timers(self) -> Iterator[Timer]:
        active = self._active()
        system = [ROOT / one for one in _SYSTEM_UNITS]
        home = self._environ.get("XDG_CONFIG_HOME") or f"{self._environ.get('HOME', '/')}/.config"
        for folders, by_user in ((system, False), ([Path(home, "systemd/user")], True)):
            names = {file.name for folder in folders for file in folder.glob("*.timer")}
            wanted = {file.name for folder in folders for file in folder.glob("*.wants/*.timer")}
            for name in sorted({*names, *wanted}):
                timer = _timer(name, folders, enabled=name in wanted, by_user=by_user)
                if timer is None or (name.endswith("@.timer") and name not in wanted):
                    continue
                if active is not None and not by_user:
                    timer = timer._replace(active=name in active)
                yield timer

    def _active(self) -> set[str] | None:
        """Timers that systemd waits for; None where it does not answer."""
        text = self._asked("systemctl", "list-timers", "--no-legend", "--no-pager", "--plain")
        if text is None:
            return None
        return {word for word in text.split() if word.endswith(".timer")}

    def _asked(self, *argv: str) -> str | None:
        """What a program prints, None where it fails or is not there."""
        program = self.program(argv[0], "/")
        if program is None:
            return None
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
            return done.stdout if done.returncode == 0 else None
        return None


def _timer(name: str, folders: Sequence[Path], *, enabled: bool, by_user: bool) -> Timer | None:
    base, at, rest = name.removesuffix(".timer").partition("@")
    text = _unit(name, folders)
    if text is None and at:
        text = _unit(f"{base}@.timer", folders)
    if text is None:
        return None
    starts = name.removesuffix(".timer") + ".service"
    for line in text.splitlines():
        key, sign, value = line.partition("=")
        if sign and key.strip() == "Unit" and value.strip():
            starts = value.strip().replace("%i", rest)
    service = _unit(starts, folders)
    if service is None and "@" in starts:
        service = _unit(f"{starts.partition('@')[0]}@.service", folders)
    return Timer(name, text, service or "", enabled=enabled, instance=rest, by_user=by_user)


def _unit(name: str, folders: Sequence[Path]) -> str | None:
    """A unit file with its drop-ins; the first folder that has it goes before the others."""
    found = next((text for f in folders if (text := _read(f / name)) is not None), None)
    if found is None:
        return None
    drop_ins = {d.name: d for f in reversed(folders) for d in (f / f"{name}.d").glob("*.conf")}
    return "\n".join([found, *(_read(drop_ins[one]) or "" for one in sorted(drop_ins))])


def _commands(script: str) -> Iterator[str]:
    for line in script.splitlines():
        bare = line.strip()
        if bare and not bare.startswith("#"):
            yield bare.replace("%", "\\%")


def _sorted(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str | None:
    """A small text file; None where it is none, or may not be read."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _release(folder: Path) -> str:
    """`2026b`, as the data says itself; "" where it does not."""
    mark, _, release = (_first_line(folder / "tzdata.zi")).rpartition(" ")
    return release if mark == "# version" else _first_line(folder / "+VERSION")


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as data:
            return data.readline().strip()
    except OSError:
        return ""


def _packaged() -> str | None:
    from importlib import import_module

    try:
        return str(import_module("tzdata").IANA_VERSION)
    except ImportError:
        return None
