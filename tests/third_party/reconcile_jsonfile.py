"""A store in one JSON document, for one host: as small as a store gets that keeps the contract.

A step is: take the lock, read the document, change it, write it whole to a new file, sync,
rename. So a reader, who takes no lock, sees the document before a step or after it, and a
process that dies in a step leaves what was there. The lock is on a file beside the document,
because the document is another file after each step; it is never deleted, or two processes
could lock two files of its name.

Each write costs the whole document: a demonstration, and good for some thousand accounts.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from base64 import b64decode, b64encode
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reconcile.core import errors, model
from reconcile.stores import encoding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reconcile.core.model import Fence, Holder, JsonObject, Kind, Lease, LeaseKey, Rate, RunId
    from reconcile.core.ports import Clock, Entropy, Host, Store

FORMAT = 1
TTL = timedelta(seconds=60)
PAUSE = 0.005  # seconds between two looks at a lock that somebody has


def opener(
    url: str, *, clock: Clock, host: Host, entropy: Entropy, patience: float
) -> Callable[[], Store]:
    """What the entry point names: see `reconcile.stores.registry.Opener`."""
    scheme, _, place = url.partition("://")
    if not place.startswith("/") or place.endswith("/") or set("?#") & set(place):
        raise errors.ConfigError(
            "[store] url: the address of the JSON store names no file",
            hint=f"write {scheme}:///absolute/path",
        )
    boot_id = host.holder().boot_id
    return partial(JsonFileStore, Path(place), clock, boot_id, entropy.token, patience)


class JsonFileStore:
    """One connection to the document. Methods: see `reconcile.core.ports.Store`."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        boot_id: str,
        new_id: Callable[[], str],
        patience: float,
    ) -> None:
        self._path, self._clock, self._boot_id = path, clock, boot_id
        self._patience = patience
        self._id = ""
        with self._locked():
            if not path.exists():
                empty = {"leases": {}, "records": {}, "buckets": {}, "appended": 0}
                self._save({"format": FORMAT, "id": new_id(), **empty})
            self._id = self._load()["id"]

    def facts(self) -> model.StoreFacts:
        return model.StoreFacts(
            id=self._load()["id"],
            now=self._clock.now(),
            single_host=True,
            durable=True,
            default_ttl=TTL,
            location=str(self._path),
        )

    # --- leases

    def acquire(
        self,
        key: LeaseKey,
        run: RunId,
        holder: Holder,
        ttl: timedelta,
        *,
        interval: str,
        above: int = 0,
        replaces: RunId | None = None,
        overlap: bool = False,
    ) -> Lease:
        with self._step() as document:
            leases, name = document["leases"], _name(key.job, key.shard)
            row = leases.get(name)
            last = self._lease(key, row)
            if last is not None and last.fence.run == run:
                return last
            is_free = last is None or not (last.live or last.holder == holder)
            if last is not None and not is_free and last.fence.run != replaces:
                if overlap and last.interval != interval:
                    row["overlaps"] += 1
                busy = replace(last, overlaps=row["overlaps"], previous=None)
            else:
                now = self._clock.now()
                first = int(now.timestamp()) if last is None else last.fence.generation + 1
                # What a holder was told stays known while it goes on to its next grant.
                told = last is not None and last.holder == holder and not last.released
                row = leases[name] = {
                    "generation": max(first, above + 1),
                    "run": run,
                    "holder": encoding.holder_to_text(holder),
                    "interval": interval,
                    "ttl": encoding.duration_to_micros(ttl),
                    "granted_at": encoding.to_micros(now),
                    "progress": 0,
                    "progress_at": encoding.to_micros(now),
                    "released": False,
                    "overlaps": row["overlaps"] if told else 0,
                    "stop": row["stop"] if told else None,
                    "seq": 0,
                    "previous": None if last is None else encoding.grant_to_text(_as_grant(last)),
                    **self._expiry(encoding.duration_to_micros(ttl)),
                }
                return self._stands(key, row)
        raise errors.LeaseBusy(busy)

    def renew(self, fence: Fence, progress: int) -> Lease:
        with self._step() as document:
            row = self._own(document, fence)
            if row["released"]:
                raise self._fenced_out(document, fence)
            row.update(self._expiry(row["ttl"]))
            if progress > row["progress"]:
                row.update(progress=progress, progress_at=encoding.to_micros(self._clock.now()))
            return replace(self._stands(fence.key, row), previous=None)

    def release(self, fence: Fence, seq: int, overlaps_seen: int | None) -> None:
        with self._step() as document:
            row = self._own(document, fence)
            if row["released"] or seq <= row["seq"]:
                return
            if overlaps_seen is not None and row["overlaps"] > overlaps_seen:
                raise errors.OverlapIsNewer(
                    f"{row['overlaps']} triggers of {fence.key.job} were turned away, and the "
                    f"holder has seen {overlaps_seen}",
                    hint="decide again, then release",
                )
            row.update(released=True, seq=seq)

    def ask_stop(self, key: LeaseKey, generation: int, request: JsonObject) -> bool:
        asked = encoding.to_json_text(request)
        with self._step() as document:
            row = document["leases"].get(_name(key.job, key.shard))
            if row is None or row["generation"] != generation or not self._is_live(row):
                return False
            row["stop"] = asked
            return True

    def lease(self, key: LeaseKey) -> Lease | None:
        found = self._lease(key, self._load()["leases"].get(_name(key.job, key.shard)))
        return found and replace(found, previous=None)

    # --- records

    def commit(self, fence: Fence, seq: int, writes: Sequence[model.Write]) -> bool:
        encoding.refuse_several_jobs(writes, fence.key.job)
        with self._step() as document:
            row = self._own(document, fence)
            if seq <= row["seq"]:
                return False
            if row["released"]:
                raise self._fenced_out(document, fence)
            self._apply(document, writes)
            row["seq"] = seq
            return True

    def note(self, writes: Sequence[model.Write]) -> None:
        encoding.refuse_several_jobs(writes)
        with self._step() as document:
            self._apply(document, writes)

    def get(self, kind: Kind, job: str, key: str) -> model.Record | None:
        row = self._load()["records"].get(_name(kind, job, key))
        return None if row is None else _record(kind, job, key, row)

    def scan(
        self,
        kind: Kind,
        job: str,
        *,
        prefix: str = "",
        after: str = "",
        before: str = "",
        tag: str = "",
        limit: int = 1000,
        newest_first: bool = False,
    ) -> Sequence[model.Record]:
        found = []
        for name, row in self._load()["records"].items():
            its_kind, its_job, key = json.loads(name)
            if (
                (its_kind, its_job) == (kind, job)
                and key.startswith(prefix)
                and (not after or key > after)
                and (not before or key < before)
                and (not tag or row["tag"] == tag)
            ):
                found.append((key, row))
        found.sort(key=lambda pair: pair[0], reverse=newest_first)
        return [_record(kind, job, key, row) for key, row in found[: max(0, limit)]]

    def take(self, bucket: str, rate: Rate, n: int = 1) -> float:
        encoding.check_rate(rate, n)
        with self._step() as document:
            now = self._clock.boot()
            due, boot_id = document["buckets"].get(bucket, (now, self._boot_id))
            if boot_id != self._boot_id:  # what was taken just before is unknown
                due = now + rate.per.total_seconds()
            wait, due = encoding.next_call(due, now, rate, n)
            document["buckets"][bucket] = due, self._boot_id
            return wait

    def close(self) -> None:
        """Nothing is open between two steps."""

    # --- the document

    @contextmanager
    def _step(self) -> Iterator[Any]:
        """The document, to be changed; what raises has changed nothing."""
        with self._locked():
            document = self._load()
            yield document
            self._save(document)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        until = time.monotonic() + self._patience
        with self._refusals(), closing(_opened(Path(f"{self._path}.lock"))) as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        text = f"the store {self._path} is locked by somebody else"
                        hint = "try again; a process that was stopped may have the lock"
                        raise errors.StoreBusy(text, hint=hint) from None
                    time.sleep(PAUSE)
            yield

    def _load(self) -> Any:
        with self._refusals():
            text = self._path.read_text(encoding="ascii", errors="replace")
        document = encoding.from_json_text(text)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise encoding.damaged(f"{self._path} is no document of format {FORMAT}")
        if self._id not in ("", document["id"]):
            text = f"the store {self._path} was replaced while it was open"
            hint = "run again: the next run opens what is there now"
            raise errors.StoreUnreachable(text, hint=hint)
        return document

    def _save(self, document: Any) -> None:
        fresh = Path(f"{self._path}.new")
        with self._refusals():
            with closing(_opened(fresh, os.O_TRUNC)) as file:
                file.write(json.dumps(document, separators=(",", ":")).encode("ascii"))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """The operating system's errors in words for users."""
        try:
            yield
        except PermissionError as error:
            raise errors.AccessDenied(
                f"the store {self._path} may not be used by this user ({error.strerror})",
                hint="run as the user whose store it is",
            ) from error
        except OSError as error:
            raise errors.StoreUnreachable(
                f"the store {self._path} cannot be used ({error.strerror})",
                hint="check its folder, and the room on its disk",
            ) from error

    # --- rows of the document

    def _expiry(self, micros: int) -> JsonObject:
        """Expiry is decided by boot time, which nobody can set; the instant is for people."""
        return {
            "expires_at": encoding.to_micros(self._clock.now()) + micros,
            "ends": self._clock.boot() + micros / 1e6,
            "boot_id": self._boot_id,
        }

    def _is_live(self, row: Any) -> bool:
        is_ours = row["boot_id"] == self._boot_id
        return is_ours and not row["released"] and self._clock.boot() < row["ends"]

    def _lease(self, key: LeaseKey, row: Any) -> Lease | None:
        return None if row is None else self._stands(key, row)

    def _stands(self, key: LeaseKey, row: Any) -> Lease:
        return model.Lease(
            fence=model.Fence(key, row["generation"], model.RunId(row["run"])),
            holder=encoding.holder_from_text(row["holder"]),
            interval=row["interval"],
            ttl=timedelta(microseconds=row["ttl"]),
            granted_at=encoding.from_micros(row["granted_at"]),
            expires_at=encoding.from_micros(row["expires_at"]),
            progress=row["progress"],
            progress_at=encoding.from_micros(row["progress_at"]),
            live=self._is_live(row),
            released=row["released"],
            overlaps=row["overlaps"],
            stop=row["stop"] and encoding.from_json_text(row["stop"]),
            previous=row["previous"] and encoding.grant_from_text(key, row["previous"]),
        )

    def _own(self, document: Any, fence: Fence) -> Any:
        """The row of the caller's own grant, else `FencedOut`."""
        row = document["leases"].get(_name(fence.key.job, fence.key.shard))
        if row is None or (row["generation"], row["run"]) != (fence.generation, fence.run):
            raise self._fenced_out(document, fence)
        return row

    def _fenced_out(self, document: Any, fence: Fence) -> errors.FencedOut:
        row = document["leases"].get(_name(fence.key.job, fence.key.shard))
        newer = self._lease(fence.key, row)
        return errors.FencedOut(
            f"{fence.key.job} under generation {fence.generation} is fenced out",
            newer=newer and replace(newer, previous=None),
            hint="stop; the work is taken on from its last checkpoint",
        )

    def _apply(self, document: Any, writes: Sequence[model.Write]) -> None:
        records, at = document["records"], encoding.to_micros(self._clock.now())
        for write in writes:
            if isinstance(write, model.Delete):
                records.pop(_name(write.kind, write.job, write.key), None)
                continue
            row = {"value": encoding.to_json_text(write.value), "version": 1, "at": at, "tag": ""}
            if isinstance(write, model.Append):
                document["appended"] += 1
                key = f"{write.prefix}/{document['appended']:020d}"
                records[_name(write.kind, write.job, key)] = row
                continue
            name = _name(write.kind, write.job, write.key)
            version = records[name]["version"] if name in records else model.ABSENT
            if write.expect not in (model.ANY, version):
                raise errors.WriteConflict(
                    f"the {write.kind} record {write.key!r} of {write.job} has version "
                    f"{version}, and {write.expect} was expected",
                    hint="read it again and decide anew",
                )
            blob = None if write.blob is None else b64encode(write.blob).decode()
            records[name] = {**row, "version": version + 1, "tag": write.tag, "blob": blob}


def _opened(path: Path, *flags: int) -> Any:
    """A file for its owner only, to be written."""
    how = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | sum(flags)
    return os.fdopen(os.open(path, how, 0o600), "r+b")


def _name(*parts: str | int) -> str:
    """One key of the document, whatever the parts are made of."""
    return json.dumps(parts)


def _record(kind: Kind, job: str, key: str, row: Any) -> model.Record:
    blob, at = row.get("blob"), encoding.from_micros(row["at"])
    data = None if blob is None else b64decode(blob)
    value = encoding.from_json_text(row["value"])
    return model.Record(kind, job, key, value, row["version"], at, row["tag"], data)


def _as_grant(lease: Lease) -> model.Grant:
    return model.Grant(
        fence=lease.fence,
        holder=lease.holder,
        interval=lease.interval,
        progress_at=lease.progress_at,
        expires_at=lease.expires_at,
        released=lease.released,
    )
