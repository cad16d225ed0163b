"""An HTTP API read for one interval: the whole listing first, then in order of account.

An API answers in its own order, so its listing is read to its end before anything is planned.
Each page goes into a local file (`landing.py`); once the listing is known to be complete
(`paging.py`), it is sorted into a spool (`../spool.py`), from which ranges are planned, and read
again where they have to be compared again. A run that is killed goes on with both; on another
host, or where they are older than `plan_age`, the listing is read anew. A plan is for one reading
of the listing: where that is gone, a new plan is made (`Unordered`).

What is not complete is never planned from: pages that do not fit together are thrown away
and the listing is read again, `READINGS` times in a run; then the run fails.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from errno import ENOENT
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from ...endpoints import Unordered
from ...errors import SourcePaused, SourceUnusable
from ...http_config import ACCOUNT
from ...placeholders import is_dated
from ...rows import Page
from ..rows import Rows
from ..sorting import Sorter
from ..spooling import fill, sorter_for
from .answers import AnswerReader, Garbled
from .auth import Auth
from .calls import Caller, Gone
from .client import Client, shown
from .landing import Landing
from .paging import Inconsistent, Pager, Place, digests, page_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ...background import Background
    from ...config import SourceConfig
    from ...endpoints import Calls
    from ...http_config import HttpConfig
    from ...model import Interval, Json
    from ...rows import Schema
    from ..spool import Draft, Spool, Spools
    from .answers import Answered
    from .client import Reply

READINGS = 3
"""So often a run reads a listing whose pages do not fit together."""
FOLDERS = 20
"""So often the folder is made; another job may remove it, empty, right after."""
FAULTS_PER_SIZE = 2
"""After so many faults of the server a page is asked for with half as many items."""


class HttpSource:
    """An API. `spools` is where listings are kept, `max_age` how long, `max_wait` how long a run
    may wait in all for a provider that asks for it."""

    def __init__(
        self,
        config: SourceConfig,
        spools: Spools,
        fill_in: Callable[[str, Interval], str],
        max_age: timedelta,
        max_wait: timedelta,
    ) -> None:
        assert config.http is not None, "that is what makes it one"
        self._config = config
        self._http = config.http
        self._spools = spools
        self._fill = fill_in
        self._max_age = max_age
        self._max_wait = max_wait
        self.dated = is_dated(config.path.replace(ACCOUNT, ""))

    def describe(self, interval: Interval | None) -> str:
        """Type and address, without what stands in its query."""
        path = self._config.path
        return f"http {shown(path if interval is None else self._filled(path, interval))}"

    def _filled(self, url: str, interval: Interval) -> str:
        """The address for an interval; where an account stands in it stays."""
        return ACCOUNT.join(self._fill(part, interval) for part in url.split(ACCOUNT))

    def open(self, interval: Interval, schema: Schema, calls: Calls | None = None) -> HttpReading:
        """See `endpoints.Source`. Nothing is asked for yet."""
        url = self._filled(self._config.path, interval)
        of = (self._config, self._http, url, schema, self._spools, interval.key)
        if self._http.accounts is None:
            reading = HttpReading(*of)
        else:
            from .lookups import LookUpReading, LookUpsOfTarget

            listing = self._http.accounts.url
            found = None if listing is None else self._filled(listing, interval)
            reading = (LookUpReading if found is not None else LookUpsOfTarget)(*of, found)
        if calls is not None:
            client = Client(self._http.timeout.total_seconds(), self._http.concurrency)
            auth = Auth(self._http.auth, client)
            caller = Caller(client, self._http, auth, calls, self._max_wait, url)
            reading.begin(calls, client, caller, self._max_age)
        return reading


class HttpReading:
    """An API opened for one interval. Implements `endpoints.Reading`.

    The fingerprint stands for how it is read: what it says is only known when it was asked.
    """

    def __init__(
        self,
        config: SourceConfig,
        http: HttpConfig,
        url: str,
        schema: Schema,
        spools: Spools,
        interval: str,
    ) -> None:
        self.fingerprint = _fingerprint(config, http, url, schema, interval)
        self._http = http
        self._url = url
        self._schema = schema
        self._spools = spools
        self._answers = AnswerReader(config, http, schema)
        self._rows = Rows(self._answers, schema)
        self._pager = Pager(http.paging, url)
        self._size = http.paging.size
        self._doubted: Place | None = None
        self._ahead: dict[str, Background[Reply]] = {}
        self._landing: Landing | None = None
        self._spool: Spool | None = None
        self._draft: Draft | None = None
        self._client: Client | None = None

    def begin(self, calls: Calls, client: Client, caller: Caller, max_age: timedelta) -> None:
        """Have what it takes to ask for pages."""
        self._calls, self._client, self._caller = calls, client, caller
        self._max_age = max_age

    def pages(self, after: str | None = None, resume: Json = None) -> Iterator[Page]:
        """See `endpoints.Reading`."""
        try:
            landing = self._landed()
            wanted = resume.get("listing") if isinstance(resume, dict) else None
            if wanted is not None and wanted != landing.id:
                raise Unordered
            if wanted is None and self._calls.now() - landing.at > self._max_age:
                self._forget(landing)
            for _ in self._read(landing):
                yield Page([])
            begin: Json = {"listing": landing.id}
            assert self._spool is not None, "it was made"
            above = None if after is None else self._schema.sort_value(after)
            for rows, bad in self._spool.pages(above):
                yield Page(rows, begin, bad)
        except OSError as error:
            raise self._spools.refusal(error) from error

    def close(self) -> None:
        """Close connections and files; the listing stays for another run."""
        if self._draft is not None:
            self._draft.discard()
        for one in (self._spool, self._landing, self._client):
            if one is not None:
                one.close()

    # --- the listing

    def _landed(self) -> Landing:
        """The pages that are there."""
        if self._landing is None:
            self._landing = self._open_landing()
            self._sweep(self._landing_path())
        return self._landing

    def _open_landing(self) -> Landing:
        identity, now = self.fingerprint.rpartition(":")[2], self._calls.now()
        for _ in range(FOLDERS):
            with suppress(FileNotFoundError):
                return Landing(self._landing_path(), identity, self._calls.new_id(), now)
        raise FileNotFoundError(ENOENT, "another program keeps removing its folder", identity)

    def _landing_path(self) -> Path:
        return self._spools.place(f"{self.fingerprint.rpartition(':')[2]}.pages")

    def _sweep(self, *beside: Path) -> None:
        """Remove what earlier readings left, but for what this one goes on with."""
        assert self._landing is not None, "it is open"
        self._spools.sweep(self._spool_name(self._landing), *beside)

    def _forget(self, landing: Landing) -> None:
        if self._spool is not None:
            self._spool.close()
            self._spool = None
        self._ahead.clear()  # what they were for is not known any more
        landing.restart(self._calls.new_id(), self._calls.now())

    def _read(self, landing: Landing) -> Iterator[None]:
        """Read the listing from where it stands to its end, and sort it; comes back every now
        and then."""
        for left in reversed(range(READINGS)):
            try:
                while not landing.complete:
                    yield
                    self._read_page(landing)
                yield from self._spooled(landing)
            except Inconsistent as error:
                self._forget(landing)
                if not left:
                    raise SourceUnusable(
                        f"{shown(self._url)}: its pages did not fit together, {READINGS} times:"
                        f" {error}",
                        hint="read it when nobody writes to it, or by cursor, which stays in place",
                    ) from error
            except SourcePaused as paused:
                landing.touch(paused.until)
                raise
            else:
                return

    def _read_page(self, landing: Landing) -> None:
        place = landing.place

        def address(faults: int) -> str:
            if faults and faults % FAULTS_PER_SIZE == 0:
                self._halve(place)
            return self._pager.address(place, self._size)

        try:
            begun = self._begun_ahead(place)
            page, following = self._caller.ask(
                address, lambda reply: self._next(landing, reply), begun
            )
        except Gone as gone:
            if place.at is None or self._http.paging.by not in ("cursor", "link"):
                raise gone.error from gone
            raise Inconsistent(f"its cursor has expired: {gone}") from gone
        items, _ = self._rows.items(page)
        landing.add(items, digests(page), following, self._calls.now())

    def _begun_ahead(self, place: Place) -> Background[Reply] | None:
        """The call for this page, if it is under way already. As many as may be are begun for
        the pages after it: they are used in their order, whichever answer comes first."""
        at_a_time = self._http.concurrency
        if at_a_time == 1:
            return None
        wanted = list(islice(self._pager.ahead(place, self._size), at_a_time))
        for url in wanted:
            if url in self._ahead:
                continue
            try:
                self._ahead[url] = self._caller.begin(url)
            except SourcePaused:
                if wanted[0] not in self._ahead:
                    raise
                break  # what is under way is used before the run ends
        self._ahead = {url: call for url, call in self._ahead.items() if url in wanted}
        return self._ahead.pop(wanted[0]) if wanted else None

    def _next(self, landing: Landing, reply: Reply) -> tuple[Answered, Place | None]:
        """A page, and the place after it."""
        number = len(landing.pages) + 1
        name = f"{shown(self._url)} page {number:,}"
        page = self._answers.read(reply.body, reply.headers, name)
        if page.items and page_digest(digests(page)) in landing.pages:
            raise Garbled(
                SourceUnusable(
                    f"{name} is one that came before",
                    hint="see source.paging: is its param what the API calls it?",
                )
            )
        page, following = self._pager.after(landing.place, page)
        if following is None and not page.items and self._http.paging.total is None:
            self._doubt(landing.place, name)
        if following is not None and following.at in landing.places:
            raise Garbled(
                SourceUnusable(
                    f"{name} leads back to where reading was before: {following.at!r}",
                    hint="see source.paging, and whether the API is as it was",
                )
            )
        return page, following

    def _doubt(self, place: Place, name: str) -> None:
        """An empty answer that ends a listing, of which no total is known, has to come twice: a
        server in trouble gives them too."""
        if self._doubted != place:
            self._doubted = place
            raise Garbled(SourceUnusable(f"{name} is empty, and the last", hint="see it with curl"))

    def _halve(self, place: Place) -> None:
        """Ask for smaller pages: some servers cannot make large ones in time."""
        if self._size is not None and self._pager.fits(place, self._size // 2):
            self._size //= 2

    # --- in order

    def _spooled(self, landing: Landing) -> Iterator[None]:
        """Have the spool of a complete listing; comes back every now and then."""
        if self._spool is not None:
            return
        name = self._spool_name(landing)
        self._spool = self._spools.open(name)
        if self._spool is not None:
            return
        draft = self._draft = self._spools.draft(name)
        try:
            yield from _check_distinct(landing, draft)
            sorter = sorter_for(draft, self._schema)
            for items, size in landing.items():
                sorter.add(items, size)
                yield
            yield from fill(draft, sorter, self._rows, self._schema)
            self._spool = draft.finish()
        finally:
            draft.discard()

    def _spool_name(self, landing: Landing) -> str:
        return f"{self.fingerprint}-{landing.id}"


def _check_distinct(landing: Landing, draft: Draft) -> Iterator[None]:
    """Raises `Inconsistent` where an item came on two pages: then another one did not come, the
    total notwithstanding. Sorted on disk, because a listing may be longer than memory."""
    sorter = Sorter(draft.scratch, lambda item: item[0])
    for found in landing.digests():
        sorter.add([(digest,) for digest in found], sum(map(len, found)))
        yield
    yield from sorter.reduce()
    for (one,), (other,) in pairwise(sorter.sorted()):
        if one == other:
            raise Inconsistent("an item came on two of them")
    draft.scratch.seek(0)
    draft.scratch.truncate()


def _fingerprint(
    config: SourceConfig, http: HttpConfig, url: str, schema: Schema, interval: str
) -> str:
    """Of all that says what is read, and how; of no secret."""
    from hashlib import sha256

    reading: tuple[Any, ...] = (
        url,
        interval,
        config.account,
        config.columns,
        config.null,
        http.rows,
        sorted(http.values.items()),
        http.paging,
        http.accounts,
        http.missing,
        [(column.name, column.kind.value) for column in schema.columns],
        schema.key,
        schema.policy.value,
    )
    found = sha256(repr(reading).encode("utf-8", "surrogatepass"))
    return f"sha256:{found.hexdigest()}"
