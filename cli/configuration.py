"""Finding and reading the configuration's files.

Looked for in this order, and the first that is there is the only one read:

1. `--config`
2. `$RECONCILE_CONFIG`
3. `./reconcile.toml`
4. the user's configuration folder (`~/.config/reconcile/reconcile.toml`)
5. the system's (`/etc/xdg/reconcile/reconcile.toml`), and `/etc/reconcile/reconcile.toml`

`conf.d/*.toml` beside it is read with it, in order of name. A file that anybody may change
decides what is taken away from whom, so one that is writable for all users is refused.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import AccessDenied, ConfigError
from ..core.toml import SYSTEM_FOLDER, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..core.config import Config

NAME = "reconcile.toml"
VARIABLE = "RECONCILE_CONFIG"
DROP_INS = "conf.d"


def load(
    explicit: Path | None,
    *,
    environ: Mapping[str, str],
    cwd: Path,
    store: str | None = None,
) -> Config:
    """Find, read and check the configuration.

    `explicit` is what `--config` says; `store` is a store's address that goes before the
    file's. Relative paths in both are relative to `cwd`.

    Raises `ConfigError` where there is none or it is wrong, and `AccessDenied` where it may
    not be read or anybody may write it.
    """
    files = read(explicit, environ=environ, cwd=cwd)
    return parse(files, environ, cwd=cwd, store=store, read_secret=read_secret)


def read(explicit: Path | None, *, environ: Mapping[str, str], cwd: Path) -> list[tuple[Path, str]]:
    """The texts of the main file and its drop-ins. Raises as `load` does."""
    main = find(explicit, environ=environ, cwd=cwd)
    return [(file, _read(file)) for file in (main, *_drop_ins(main))]


def read_secret(path: Path) -> str:
    """What the file of a `KEY_file` holds, without one newline at its end.

    Raises `AccessDenied` where this user may not read it or anybody may write it, and
    `ConfigError` where there is none, nothing in it, or no text. No message has any of it.
    """
    text = _read(path, "name a file that holds the value").removesuffix("\n").removesuffix("\r")
    if not text.strip():
        raise ConfigError(f"names {path}, which is empty", hint="write the value into that file")
    if "\0" in text:
        raise ConfigError(f"names {path}, which is not a text", hint="write the value as text")
    return text


def find(explicit: Path | None, *, environ: Mapping[str, str], cwd: Path) -> Path:
    """The main file, absolute. `ConfigError` where there is none."""
    if explicit is not None:
        return _existing(cwd / explicit, f"{explicit}: no such configuration")
    named = environ.get(VARIABLE)
    if named:
        return _existing(cwd / named, f"{named}, which {VARIABLE} names: no such configuration")
    looked: list[Path] = []
    for path in _usual(cwd):
        if _is_there(path):
            return path
        looked.append(path)
    raise ConfigError(
        "no configuration; looked for " + ", ".join(str(path) for path in looked),
        hint="write one with: reconcile init",
    )


def _usual(cwd: Path) -> Iterator[Path]:
    yield cwd / NAME
    # Only where the file is not here, which a cron line's `cd` or `-c` makes rare.
    from platformdirs.unix import Unix

    for folder in Unix("reconcile").iter_config_dirs():
        yield Path(folder) / NAME
    yield SYSTEM_FOLDER / NAME


def _existing(path: Path, missing: str) -> Path:
    if not _is_there(path):
        raise ConfigError(missing, hint="write one with: reconcile init")
    return path


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    return True


def _drop_ins(main: Path) -> list[Path]:
    folder = main.parent / DROP_INS
    try:
        mode = folder.stat().st_mode
        if not stat.S_ISDIR(mode):
            return []
        _refuse_writable(folder, mode)
        # A leading dot: editors and package managers keep their own copies there.
        found = (file for file in folder.iterdir() if not file.name.startswith("."))
        return sorted(file for file in found if file.suffix == ".toml")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(folder, error) from None


def _read(file: Path, mend: str = "name a reconcile.toml") -> str:
    try:
        # Without waiting, should it be a named pipe.
        number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            # The mode is that of what is read, not of what has its name a moment later.
            mode = os.fstat(number).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigError(f"{file} is not a file", hint=mend)
            _refuse_writable(file, mode)
            with os.fdopen(number, "rb", closefd=False) as stream:
                return stream.read().decode("utf-8-sig")
        finally:
            os.close(number)
    except OSError as error:
        raise _unreadable(file, error) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{file} line {line}: not UTF-8", hint="save it as UTF-8, or mend that byte"
        ) from None


def _refuse_writable(path: Path, mode: int) -> None:
    if mode & stat.S_IWOTH:
        raise AccessDenied(
            f"{path} is writable for all users, so anybody may decide what is revoked",
            hint=f"chmod o-w {path}",
        )


def _unreadable(path: Path, error: OSError | ValueError) -> AccessDenied | ConfigError:
    if isinstance(error, PermissionError):
        return AccessDenied(
            f"{path} may not be read by this user", hint="run it as the user who owns it"
        )
    reason = getattr(error, "strerror", None) or str(error)
    return ConfigError(f"{path} cannot be read: {reason}", hint="look at that path")
