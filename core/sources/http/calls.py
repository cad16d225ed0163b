"""Asking an API for one answer: at its rate, as often as it takes, as long as it may.

Each call is granted by the store first: one for each ``per / amount`` of the rate, spaced, to all
processes and hosts that name the same API and rate. Nothing is saved up while nobody calls, so no
window of time as long as the rate's has more than its amount *granted*. On their way calls may
bunch up a little, which is why they are spaced by a fiftieth more than the rate asks for.

What may be better the next time is asked for again, up to `TRIES` times, after 1, 2, 4 … seconds:
no answer, one that was cut, a fault of the server (500, 502, 503, 504, 408, 425), too many calls
(429). Where the answer says how long to wait (`Retry-After`), that holds instead. Waits that a
provider asks for add up over a run, and when they would be more than `max_wait` the run ends
(`SourcePaused`), to go on after them: a process that sleeps for an hour has a lease for an hour.

401 and 403 are asked for once more, because some say so under load; then it is `AccessDenied`.
Any other status is refused.
"""

from __future__ import annotations

from datetime import timedelta
from email.utils import parsedate_to_datetime
from itertools import count
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from ...background import LOOKS_EVERY, Background
from ...errors import AccessDenied, SourcePaused, SourceUnreachable, SourceUnusable
from ...model import Rate
from ...rates import show_rate
from .answers import Garbled
from .client import Unanswered, shown, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...endpoints import Calls
    from ...errors import ReconcileError
    from ...http_config import HttpConfig
    from .auth import Auth
    from .client import Client, Reply

T = TypeVar("T")

TRIES = 5
TIMEOUTS = 10
"""An answer is waited for that many times as long as the API may be silent."""
LONGEST_PAUSE = timedelta(days=1)
"""No provider's word is taken for more."""
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
_FAULTS = (500, 502, 503, 504)
_DENIED = (401, 403)
_GONE = (400, 404, 410, 422)
_SPACING = 1.02


class Gone(Exception):
    """The API does not know what was asked for (any more), as a cursor that has expired."""

    def __init__(self, error: ReconcileError, status: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.status = status


class Caller:
    """Calls of one run to one API."""

    def __init__(
        self,
        client: Client,
        http: HttpConfig,
        auth: Auth,
        calls: Calls,
        max_wait: timedelta,
        url: str,
    ) -> None:
        self._client = client
        self._http = http
        self._auth = auth
        self._calls = calls
        self._max_wait = max_wait.total_seconds()
        self._waited = 0.0
        self._made = 0
        self._spaced: Rate | None = None
        if http.rate is not None:
            spaced = http.rate.per * _SPACING / http.rate.amount
            self._spaced = Rate(1, max(spaced, timedelta(microseconds=1)))
            scheme, host = urlsplit(url)[:2]
            self._bucket = f"{scheme}://{host.rpartition('@')[2]} {show_rate(http.rate)}"

    def ask(
        self,
        address: Callable[[int], str],
        read: Callable[[Reply], T],
        begun: Background[Reply] | None = None,
    ) -> T:
        """The answer as `read` understands it, which may raise `Garbled`. `address` is told how
        often the server has had a fault with this answer. `begun` is the first call, which is
        under way.

        Raises `SourceUnreachable`, `SourceUnusable`, `AccessDenied`, `SourcePaused`, `Gone`.
        """
        tries, faults, denied = 0, 0, 0
        while True:
            url = address(faults)
            try:
                reply = (begun or self.begin(url)).result(self._patience())
            except Unanswered as unanswered:
                fault: ReconcileError = unreachable(url, str(unanswered))
                wait = None
            else:
                if reply.status == 200:
                    try:
                        return read(reply)
                    except Garbled as garbled:
                        fault, wait = garbled.error, None
                elif reply.status in _AGAIN:
                    faults += reply.status in _FAULTS
                    fault, wait = _status(url, reply), self._asked_to_wait(reply)
                elif reply.status in _DENIED and not denied:
                    denied += 1
                    self._auth.renew()
                    fault, wait = _denied(url, reply), None
                else:
                    error = refusal(url, reply)
                    raise Gone(error, reply.status) if reply.status in _GONE else error
            begun = None
            if wait:
                self._wait_as_told(wait, url)
                continue
            tries += 1
            if tries >= TRIES:
                raise fault
            self._pause(2.0 ** (tries - 1), fault)

    def begin(self, url: str) -> Background[Reply]:
        """Have a call granted, waiting for that, and make it in the background. Raises
        `SourcePaused`, `AccessDenied`, `SourceUnreachable`."""
        self._calls.go_on()
        self._auth.prepare()
        self._grant()
        headers = headers_of(self._http, self._auth)
        return Background(lambda: self._client.get(url, headers), lambda reply: None)

    def _grant(self) -> None:
        budget = self._http.budget
        if budget is not None and self._made >= budget:
            raise SourcePaused(
                f"the run has made the {budget:,} calls of its budget",
                until=self._calls.now(),
                hint="the next trigger goes on",
            )
        while self._spaced is not None:
            wait = self._calls.take(self._bucket, self._spaced)
            if not wait:
                break
            if wait > self._max_wait:
                until = self._calls.now() + timedelta(seconds=wait)
                raise SourcePaused("its rate lets no call through", until=until)
            self._calls.wait(wait)
        self._made += 1

    def _patience(self) -> Callable[[], None]:
        """What is called while an answer is waited for: the run may have to end, and an answer
        that comes a byte at a time is none."""
        seconds = TIMEOUTS * self._http.timeout.total_seconds()
        looks = count(1)

        def watch() -> None:
            self._calls.go_on()
            if next(looks) * LOOKS_EVERY > seconds:
                raise Unanswered(f"no whole answer came in {seconds:,.0f}s")

        return watch

    def _asked_to_wait(self, reply: Reply) -> float | None:
        """Seconds that the answer asks for; None where it says nothing that can be read. A
        date is measured by the server's own clock where it tells that."""
        text = reply.headers.get("retry-after", "").strip()
        try:
            return (
                max(0.0, float(text))
                if text.replace(".", "", 1).isdigit()
                else self._date(text, reply.headers.get("date", ""))
            )
        except (TypeError, ValueError, OverflowError):
            return None

    def _date(self, text: str, server: str) -> float:
        until = parsedate_to_datetime(text)
        try:
            now = parsedate_to_datetime(server)
        except (TypeError, ValueError):
            now = self._calls.now()
        return max(0.0, (until - now).total_seconds())

    def _wait_as_told(self, seconds: float, url: str) -> None:
        if self._waited + seconds > self._max_wait:
            told = min(timedelta(seconds=min(seconds, 1e9)), LONGEST_PAUSE)
            raise SourcePaused(
                f"{shown(url)} asks for a pause of {seconds:,.0f}s, and this run may wait for"
                f" {self._max_wait:,.0f}s in all",
                until=self._calls.now() + told,
                hint="the next trigger after that goes on; max_wait is of the job",
            )
        self._waited += seconds
        self._calls.wait(seconds)

    def _pause(self, seconds: float, fault: ReconcileError) -> None:
        """Wait before another try, or give up where no more may be waited for."""
        if self._waited + seconds > self._max_wait:
            raise fault
        self._waited += seconds
        self._calls.wait(seconds)


def headers_of(http: HttpConfig, auth: Auth) -> dict[str, str]:
    """What goes with each call."""
    return {
        "Accept": "application/json",
        "Accept-Encoding": "gzip",
        "User-Agent": "reconcile",
        **http.headers,
        **auth.headers(),
    }


def refusal(url: str, reply: Reply) -> ReconcileError:
    """What to say of an answer that is no 200, and that is not asked for again."""
    if reply.status in _DENIED:
        return _denied(url, reply)
    if reply.status in _AGAIN:
        return _status(url, reply)
    told = f"{shown(url)} answers {reply.status}"
    if 300 <= reply.status < 400:
        to = shown(reply.headers.get("location", "nowhere"))
        hint = f"it leads to {to}, which is not followed: write that as the source's url"
        return SourceUnusable(told, hint=hint)
    return SourceUnusable(told, hint="look at the source's url and paging")


def _status(url: str, reply: Reply) -> SourceUnreachable:
    return SourceUnreachable(
        f"{shown(url)} answers {reply.status}",
        hint="look whether the API is up, and the source's rate",
    )


def _denied(url: str, reply: Reply) -> AccessDenied:
    return AccessDenied(
        f"{shown(url)} answers {reply.status}: it does not let this caller in",
        hint="look at source.auth, and whether the token is still good",
    )
