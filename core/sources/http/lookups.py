"""Accounts that are looked up one by one: an API that has no listing of what they all have.

Which accounts there are says a listing, read to its end like any other (`reading.py`); what the
target has beyond that is of nobody. Or those are asked for that the target has: then nobody new is
ever granted anything, and whoever comes to the target meanwhile is left alone. Each answer is a
page of the landing, in order of accounts, so that a run that is killed asks again for those only
that were under way.

A look-up that fails is no account without anything: it is asked for again, and if that is no use
the account is left alone, with the reason. Where `IN_A_ROW` of them fail, it is the API that is
away. One that the API does not know (404) is left alone too, unless `missing = "nothing"`.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...errors import SourcePaused, SourceUnreachable, SourceUnusable
from ...http_config import ACCOUNT
from ...keys import KeyPolicy
from ...rows import Schema
from .calls import Gone
from .paging import Place
from .reading import HttpReading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import timedelta
    from pathlib import Path

    from ...background import Background
    from ...config import SourceConfig
    from ...endpoints import Calls
    from ...http_config import AccountsConfig, HttpConfig
    from ..rows import Item
    from ..spool import Spools
    from .answers import Answered
    from .calls import Caller
    from .client import Client, Reply
    from .landing import Landing

IN_A_ROW = 3
AT_A_TIME = 500
UNASKED = "it came to the target after the accounts to look up were read"


def accounts_of(http: HttpConfig, accounts: AccountsConfig, name: str) -> HttpConfig:
    """How the listing of accounts is read; `name` is what the account is called."""
    return http._replace(
        rows=accounts.rows, values={name: accounts.value}, paging=accounts.paging, accounts=None
    )


def accounts_alone(schema: Schema) -> Schema:
    """What is read of that listing. Each spelling is asked for as it is; what is one account is
    settled when all have come."""
    return Schema((schema.account,), (0,), KeyPolicy.EXACT)


class LookUpReading(HttpReading):
    """Look-ups opened for one interval."""

    def __init__(
        self,
        config: SourceConfig,
        http: HttpConfig,
        url: str,
        schema: Schema,
        spools: Spools,
        interval: str,
        accounts_url: str | None,
    ) -> None:
        super().__init__(config, http, url, schema, spools, interval)
        accounts = http.accounts
        assert accounts is not None, "that is what makes it look-ups"
        name = config.account or schema.account.name
        self._accounts: _Accounts | None = None
        if accounts_url is not None:
            listing, alone = accounts_of(http, accounts, name), accounts_alone(schema)
            self._accounts = _Accounts(config, listing, accounts_url, alone, spools, interval)
        self._under_way: deque[Background[Reply]] = deque()
        self._held: list[tuple[list[Item], Place]] = []
        self._failed = 0

    def begin(self, calls: Calls, client: Client, caller: Caller, max_age: timedelta) -> None:
        """Have what it takes to ask."""
        super().begin(calls, client, caller, max_age)
        if self._accounts is not None:
            self._accounts.begin(calls, client, caller, max_age)

    def close(self) -> None:
        """See `HttpReading`."""
        if self._accounts is not None:
            self._accounts.close()
        super().close()

    def _sweep(self, *beside: Path) -> None:
        files = self._accounts.files() if self._accounts is not None else ()
        super()._sweep(*beside, *files)

    def _read(self, landing: Landing) -> Iterator[None]:
        try:
            if not landing.complete:
                yield from self._look_up_all(landing)
        except SourcePaused as paused:
            landing.touch(paused.until)
            raise
        yield from self._spooled(landing)

    def _look_up_all(self, landing: Landing) -> Iterator[None]:
        waiting: deque[str] = deque()
        for accounts in self._to_ask(landing):
            yield
            waiting.extend(filter(lambda account: self._is_next(landing, account), accounts))
            while len(waiting) > self._http.concurrency:
                self._look_up(landing, waiting)
                yield
        while waiting:
            self._look_up(landing, waiting)
            yield
        self._land(landing, None)

    def _to_ask(self, landing: Landing) -> Iterator[list[str]]:
        """The accounts in order, some at a time."""
        if self._accounts is None:
            accounts = self._calls.accounts()
            while some := list(islice(accounts, AT_A_TIME)):
                yield some
            return
        known = landing.place.edge
        if known is not None and known != self._accounts.name:
            self._forget(landing)  # those were the accounts of another listing
            known = None
        for page in self._accounts.pages(None, known and {"listing": known}):
            for account, why in page.bad.items():
                raise SourceUnusable(
                    f"the listing of accounts: {account!r}: {why}",
                    hint="see source.accounts.value, and the kind of the target's account",
                )
            yield [str(row[0]) for row in page.rows]

    def _is_next(self, landing: Landing, account: str) -> bool:
        done, order = landing.place.at, self._schema.sort_value
        return not isinstance(done, str) or order(account) > order(done)

    def _look_up(self, landing: Landing, waiting: deque[str]) -> None:
        """The first account that waits; those after it are begun as far as may be."""
        for following in islice(waiting, len(self._under_way), self._http.concurrency):
            try:
                self._under_way.append(self._caller.begin(self._of(following)))
            except SourcePaused:
                if not self._under_way:
                    raise
                break  # what is under way is used before the run ends
        account = waiting.popleft()
        items, failed = self._answer(account, self._under_way.popleft())
        place = Place(account, 0, None, self._accounts.name if self._accounts else None)
        self._held.append((items, place))
        if not failed:
            self._land(landing, place)

    def _land(self, landing: Landing, last: Place | None) -> None:
        """Keep what was looked up. Failures are kept once it is known that the API is there."""
        for items, place in self._held:
            landing.add(items, [], place, self._calls.now())
        self._held.clear()
        if last is None:
            landing.add([], [], None, self._calls.now())

    def _of(self, account: str) -> str:
        return self._url.replace(ACCOUNT, quote(account, safe=""))

    def _answer(self, account: str, begun: Background[Reply]) -> tuple[list[Item], bool]:
        """What the account has, as items, and whether the look-up failed."""
        self._answers.asked = account

        def read(reply: Reply) -> Answered:
            return self._answers.read(reply.body, reply.headers, f"the answer for {account!r}")

        failed = False
        try:
            page = self._caller.ask(lambda faults: self._of(account), read, begun)
            items, _ = self._rows.items(page)
        except Gone as gone:
            if gone.status == 404 and self._http.missing == "nothing":
                return [], False
            why = str(gone)
        except (SourceUnreachable, SourceUnusable) as error:
            self._failed += 1
            if self._failed >= IN_A_ROW:
                raise
            why, failed = str(error), True
        else:
            self._failed = 0
            return items, False
        nothing = (None,) * (len(self._schema.columns) - 1)
        return [(self._rows.normal(account), *nothing, account, why)], failed


class LookUpsOfTarget(LookUpReading):
    """Look-ups of the accounts that the target has. Implements `endpoints.AsksEach`: one that came
    to the target meanwhile was not asked for, and is left alone."""

    def unasked(self, accounts: Iterable[str]) -> Mapping[str, str]:
        """See `endpoints.AsksEach`."""
        asked = self._landed().places
        return dict.fromkeys((one for one in accounts if one not in asked), UNASKED)


class _Accounts(HttpReading):
    """The listing of accounts; its files are swept with those of the look-ups."""

    @property
    def name(self) -> str:
        """Which reading of the listing this is."""
        return self._landed().id

    def files(self) -> list[Path]:
        """What must stay."""
        landing = self._landed()
        return [self._landing_path(), self._spools.spool_path(self._spool_name(landing))]

    def _sweep(self, *beside: Path) -> None:
        """That is done by whoever looks up."""
