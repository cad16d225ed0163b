"""What the service is not let do, so far as the job can bear it.

Where all that is done is ours, what it needs is known (`core/needs.py`), and everything else is
taken away: other files to write, the network where nothing of the job is on one, devices,
capabilities, namespaces, system calls of administrators.

A program of the user's may need anything, sudo and sendmail too, which whatever implies
`NoNewPrivileges=` would break. There only /usr and /boot are closed to writes, and the rest is
printed as comments, for who knows what the program can bear.

Two settings that `systemd-analyze security` asks for are left out on purpose. `ProcSubset=pid`
hides the boot id and the locks, by which a dead holder is told from a live one.
`ProtectProc=invisible` hides who keeps a database locked, whom a message has to name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...core.toml import SYSTEM_LOGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .plan import Plan

_STATE = Path("/var/lib")
_HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))
_ALWAYS = (
    "NoNewPrivileges=yes",
    "PrivateDevices=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "LockPersonality=yes",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallErrorNumber=EPERM",
)


def hardened(plan: Plan) -> list[str]:
    """The lines of the service about what it may do."""
    state = _state(plan)
    strict = [*_files(plan), *_network(plan), *_ALWAYS, *_capabilities(plan)]
    if not plan.needs.programs:
        return [*state, *strict]
    return [
        *state,
        "ProtectSystem=yes",
        f"# It starts {plan.needs.programs[0]}, which may need what these would take away, even",
        "# sudo or sendmail. Take away the # before what it can do without.",
        *(f"#{line}" for line in strict),
    ]


def _state(plan: Plan) -> list[str]:
    """A folder of the service's user: that of the store, if systemd may make it and give it to
    that user; else one for the file that a defect is written to."""
    store = plan.needs.store
    folder = store.parent if store is not None else None
    ours = folder is not None and folder.parent == _STATE and folder.name.startswith("reconcile")
    name = folder.name if ours and folder is not None else plan.unit
    lines = [f"StateDirectory={name}", "StateDirectoryMode=0700"]
    if SYSTEM_LOGS in plan.needs.writes:
        lines += [f"LogsDirectory={SYSTEM_LOGS.name}", "LogsDirectoryMode=0700"]
    return lines


def _files(plan: Plan) -> Iterator[str]:
    from .systemd import path_word

    yield "ProtectSystem=strict"
    paths = " ".join(path_word(path, "-") for path in plan.needs.writes)
    yield f"ReadWritePaths={paths}"
    used = [*plan.installation, *plan.needs.reads, *plan.needs.writes]
    yield f"ProtectHome={'read-only' if _under(used, _HOMES) else 'yes'}"
    if not _under(used, _TEMPORARY):
        yield "PrivateTmp=yes"


def _network(plan: Plan) -> Iterator[str]:
    if plan.needs.network:
        yield "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK"
    else:
        yield "PrivateNetwork=yes"
        yield "RestrictAddressFamilies=AF_UNIX"


def _capabilities(plan: Plan) -> Iterator[str]:
    """Root reads and writes other people's files, and gives what SQLite makes beside one to its
    owner; nobody else has a capability at all."""
    if plan.user == "root":
        yield "CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_KILL"
    else:
        yield "CapabilityBoundingSet="
        yield "SystemCallFilter=~@privileged @resources"


def _under(paths: Sequence[Path], folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for path in paths for folder in folders)
