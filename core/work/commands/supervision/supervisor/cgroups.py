"""A control group of the command's own, where one may be made.

Nothing leaves a control group by forking, changing its session or losing its parent, so where it
can be had it is a second net beneath the first. It is made only in a group that was delegated to
us (systemd's `Delegate=yes`, a user's manager), for the others have a master already.
"""

from __future__ import annotations

import os

_DELEGATED = ("user.delegate", "trusted.delegate")  # systemd's marks


class Cgroup:
    """The control group of one run."""

    def __init__(self, path: str) -> None:
        self._path = path

    def make(self) -> int:
        """A descriptor of its `cgroup.procs`, to be joined by; -1 where there can be none."""
        try:
            os.mkdir(self._path)
            return os.open(f"{self._path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return -1

    def kill(self) -> None:
        """SIGKILL to all in it and below, as one step that no fork escapes (Linux 5.14)."""
        try:
            with open(f"{self._path}/cgroup.kill", "wb", buffering=0) as file:
                file.write(b"1")
        except OSError:
            pass  # an older kernel, or no such group: there are the other ways

    def remove(self) -> None:
        """Take it away; it stays while somebody is in it."""
        try:
            os.rmdir(self._path)
        except OSError:
            pass


def of_run(run: str) -> Cgroup | None:
    """The group for a run below our own; None where ours is not delegated."""
    above = own()
    return Cgroup(f"{above}/reconcile-{run}") if above and _is_delegated(above) else None


def own() -> str:
    """The folder of this process's control group (version 2); "" where there is none."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as lines:
            inside = next((line[3:].rstrip("\n") for line in lines if line.startswith("0::")), "")
        with open("/proc/self/mountinfo", encoding="utf-8") as lines:
            for line in lines:
                mount, _, kind = line.partition(" - ")
                _, _, _, root, point, *_ = mount.split()
                if kind.startswith("cgroup2 ") and (inside + "/").startswith(
                    root.rstrip("/") + "/"
                ):
                    return (point + inside[len(root.rstrip("/")) :]).rstrip("/")
    except (OSError, ValueError):
        pass
    return ""


def _is_delegated(path: str) -> bool:
    while path not in ("", "/") and os.path.exists(f"{path}/cgroup.procs"):
        try:
            if os.geteuid() and os.stat(path).st_uid == os.geteuid():
                return True
            if any(
                name in os.listxattr(path) and os.getxattr(path, name) == b"1"
                for name in _DELEGATED
            ):
                return True
        except OSError:
            pass
        path = os.path.dirname(path)
    return False
