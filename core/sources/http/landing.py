"""The pages of a listing as they came, in a local file: its *landing*.

A listing that took an hour must not be asked for again because a process was killed, or
because the provider asked for a pause. Each page is written before the next is asked for,
with the place after it. Whoever comes next, on the same host, reads the file, believes it up to
the first line that is not as it was written, and goes on from there.

::

    reconcile pages 1 IDENTITY ID                            a line
    DIGEST {"at": …, "place": …, "page": […], "items": […]}  a line for each page

`items` are canonical, `page` has the digests of what they were made from, and `place` is null with
the last page. It is not synced: what a power failure takes is asked for again. A landing belongs to
one reading of one interval (`IDENTITY`), and is worth as much as its newest page is young: told by
the store's clock, in `at`.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import blake2b
from typing import TYPE_CHECKING

from ...record_fields import from_text, to_text
from ..sorting import encode
from .paging import Place, page_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path
    from typing import BinaryIO

    from ..rows import Item

_MAGIC = "reconcile pages 1"
_DIGEST = 16


class Landing:
    """An open landing. Errors of the disk are `OSError`.

    `id` names this reading of the listing, `at` is when its newest page came, `place` where to
    go on; `complete` once the last page is in it. `pages` are the digests of the pages, `places`
    where they led to.
    """

    def __init__(self, path: Path, identity: str, new_id: str, now: datetime) -> None:
        """Open what is there and can be believed, else begin one under the new id."""
        self._path = path
        self._file = _own(path)
        self._identity = identity
        self.id = new_id
        self.at = now
        self.place = Place()
        self.complete = False
        self.pages: set[str] = set()
        self.places: set[str | int | None] = set()
        self._begin = self._end = 0
        if not self._load():
            self.restart(new_id, now)

    def restart(self, new_id: str, now: datetime) -> None:
        """Forget all pages: a new reading begins."""
        self.id, self.at, self.place, self.complete = new_id, now, Place(), False
        self.pages, self.places = set(), set()
        self._file.truncate(0)
        self._begin = self._end = self._write(f"{_MAGIC} {self._identity} {new_id}\n".encode(), 0)

    def add(
        self, items: list[Item], digests: list[str], place: Place | None, now: datetime
    ) -> None:
        """One more page, the digests of its items, and the place after it (None: none)."""
        self._append(now, digests, place, items)
        self._noted(now, place, digests)

    def items(self) -> Iterator[tuple[list[Item], int]]:
        """The items of each page, and how many characters they take."""
        for data in self._lines():
            found = json.loads(data)["items"]
            yield list(map(tuple, found)), len(data)

    def digests(self) -> Iterator[list[str]]:
        """The digests of each page's items."""
        for data in self._lines():
            yield json.loads(data)["page"]

    def touch(self, until: datetime) -> None:
        """Nothing more comes until then, because the provider or a budget says so: the pages
        are as good then as they are now."""
        self._append(until, [], self.place, [])

    def close(self) -> None:
        """Close the file. Harmless when repeated."""
        self._file.close()

    def remove(self) -> None:
        """Close the file, and remove it."""
        self.close()
        with suppress(OSError):
            self._path.unlink()

    def _append(
        self, at: datetime, digests: list[str], place: Place | None, items: list[Item]
    ) -> None:
        value = {"at": to_text(at), "place": place, "page": digests, "items": items}
        data = encode(value).encode()
        self._end = self._write(_digest(data) + b" " + data + b"\n", self._end)

    def _noted(self, at: datetime, place: Place | None, digests: list[str]) -> None:
        self.at = at
        if digests:
            self.pages.add(page_digest(digests))
        if place is None:
            self.complete = True
        else:
            self.place = place
            self.places.add(place.at)

    def _load(self) -> bool:
        self._file.seek(0)
        head = self._file.readline().decode("utf-8", "replace").split(" ")
        if len(head) != 5 or " ".join(head[:3]) != _MAGIC or head[3] != self._identity:
            return False
        self.id = head[4].strip()
        self._begin = self._end = self._file.tell()
        for data in self._lines(os.fstat(self._file.fileno()).st_size):
            try:
                found = json.loads(data)
                place = None if found["place"] is None else Place.of(found["place"])
                self._noted(from_text(found["at"]), place, list(found["page"]))
            except (KeyError, TypeError, ValueError):
                break
            self._end += _DIGEST + len(data) + 2
        self._file.truncate(self._end)
        return True

    def _lines(self, end: int | None = None) -> Iterator[bytes]:
        """The pages' texts, as long as they are as they were written."""
        self._file.flush()
        at = self._begin
        last = self._end if end is None else end
        while at < last:
            self._file.seek(at)
            line = self._file.readline()
            digest, _, data = line.removesuffix(b"\n").partition(b" ")
            if not line.endswith(b"\n") or digest != _digest(data):
                return
            at += len(line)
            yield data

    def _write(self, data: bytes, at: int) -> int:
        self._file.write(data)
        self._file.flush()
        return at + len(data)


def _own(path: Path) -> BinaryIO:
    """The file, for this process alone. One that another process writes, which has lost its
    lease and does not know it yet, is left to that, and its name taken."""
    from fcntl import LOCK_EX, LOCK_NB, flock

    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    while True:
        file = os.fdopen(os.open(path, flags, 0o600), "a+b")
        try:
            flock(file, LOCK_EX | LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except FileNotFoundError:
            pass  # it was removed meanwhile
        except BlockingIOError:
            path.unlink(missing_ok=True)
        file.close()


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST // 2).hexdigest().encode()
