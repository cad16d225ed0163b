"""An API that does all that APIs do: what is not complete is never taken for the truth."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import provider as faults
from support.api import PAGINGS, SCHEMA, TONIGHT, Calls, reading, rows, truth
from support.provider import Answer, Fault, Provider, grants
from support.tls import certificates, tls_before

from reconcile.core.config import SourceConfig
from reconcile.core.endpoints import BrokenOff, Unordered
from reconcile.core.errors import (
    AccessDenied,
    ReconcileError,
    SourcePaused,
    SourceUnreachable,
    SourceUnusable,
)
from reconcile.core.http_config import AuthConfig, HttpConfig
from reconcile.core.model import Rate
from reconcile.core.rates import parse_rate
from reconcile.core.sources import open_source
from reconcile.core.sources.spool import Spools

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(grants(45)) as found:
        yield found


@pytest.fixture(scope="module")
def shared() -> Iterator[Provider]:
    with Provider([]) as found:
        yield found


def ghost(api: Provider, answer: Answer) -> None:
    """There is more, and no word of where."""
    answer.body = json.dumps(
        {"data": answer.items, "has_more": True, "next": None, "total": answer.total}
    ).encode()


ONCE: dict[str, Fault] = {
    "429 in seconds": faults.status(429, Retry_After="7"),
    "429 at once": faults.status(429, Retry_After="0"),
    "429 without a word": faults.status(429),
    "429 garbled": faults.status(429, Retry_After="soon"),
    "500": faults.status(500),
    "502": faults.status(502),
    "503 in seconds": faults.status(503, Retry_After="3"),
    "504": faults.status(504),
    "403 once": faults.status(403),
    "reset": faults.reset,
    "cut": faults.cut(40),
    "cut, and nobody said how long it is": faults.cut(40, declared=False),
    "packed, and cut": faults.packed(60),
    "no body": faults.body(b""),
    "not JSON": faults.body(b"<html>busy</html>"),
    "an error with 200": faults.body(b'{"error": "try later"}'),
}
"""What is over when the same is asked for again."""


@pytest.mark.parametrize("by", PAGINGS)
def test_a_listing_is_read_to_its_end_however_it_is_paged(
    by: str, provider: Provider, tmp_path: Path
) -> None:
    for count in (45, 40, 1, 0):
        provider.items = grants(count)
        calls = Calls()
        with reading(provider, tmp_path / str(count), calls, by) as found:
            assert rows(found) == truth(provider)
            assert rows(found) == truth(provider)
    assert len(provider.calls) <= 5 + 5 + 2, "each page once"


@pytest.mark.parametrize("what", ONCE)
def test_what_is_over_the_next_time_is_asked_for_again_at_every_page(
    what: str, provider: Provider, tmp_path: Path
) -> None:
    calls = Calls()
    for begin in (0, 10, 20, 30, 40):
        provider.faults[begin] = [ONCE[what]]
    with reading(provider, tmp_path, calls) as found:
        assert rows(found) == truth(provider)
    assert len(provider.calls) == 10
    told = {"429 in seconds": 7.0, "503 in seconds": 3.0}.get(what)
    assert set(calls.waits) == {told or 1.0}


def test_a_packed_answer_is_unpacked(provider: Provider, tmp_path: Path) -> None:
    provider.always = faults.packed()
    with reading(provider, tmp_path, Calls()) as found:
        assert rows(found) == truth(provider)
    assert {call.headers["accept-encoding"] for call in provider.calls} == {"gzip"}


def test_a_server_whose_certificate_nobody_vouches_for_is_not_asked(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates(tmp_path)
    with tls_before(int(provider.url.rpartition(":")[2]), tmp_path) as port:
        http = HttpConfig(rows="data", paging=PAGINGS["cursor"])
        source = SourceConfig("http", f"https://localhost:{port}/cursor", http=http)
        for vouched, folder in ((False, "a"), (True, "b")):
            if vouched:
                monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
            found = open_source(source, Spools(tmp_path / folder, "j")).open(
                TONIGHT, SCHEMA, Calls()
            )
            with closing(found):
                if vouched:
                    pages = list(found.pages())
                    assert [row for page in pages for row in page.rows] == truth(provider)
                    continue
                with pytest.raises(SourceUnreachable, match="certificate"):
                    list(found.pages())
                assert not provider.calls


def test_a_silent_api_is_asked_again(provider: Provider, tmp_path: Path) -> None:
    provider.faults[10] = [faults.silent(1.5)]
    short = timedelta(milliseconds=100)
    with reading(
        provider, tmp_path, Calls(), change=lambda http: http._replace(timeout=short)
    ) as found:
        assert rows(found) == truth(provider)


@pytest.mark.parametrize(
    ("what", "error"),
    [
        (faults.status(500), SourceUnreachable),
        (faults.reset, SourceUnreachable),
        (faults.cut(40), SourceUnreachable),
        (faults.status(403), AccessDenied),
        (faults.status(302, Location="https://login.example.org/?next=x"), SourceUnusable),
        (faults.status(418), SourceUnusable),
        (faults.body(b""), SourceUnusable),
        (faults.body(b'{"data": [{"id": "g"}], "has_more": false, "total": "45"}'), SourceUnusable),
        (faults.body(b'{"data": [], "has_more": "no", "total": 45}'), SourceUnusable),
        (faults.emptied, SourceUnusable),
        (faults.short(3), SourceUnusable),
        (faults.repeated, SourceUnusable),
        (faults.miscounted(1), SourceUnusable),
        (ghost, SourceUnusable),
    ],
)
def test_what_stays_wrong_is_an_error_and_never_a_shorter_list(
    what: Fault, error: type[ReconcileError], provider: Provider, tmp_path: Path
) -> None:
    provider.faults[40] = [what] * 100
    with reading(provider, tmp_path, Calls()) as found:
        with pytest.raises(error) as raised:
            rows(found)
        assert provider.url in str(raised.value)
        provider.faults.clear()
        provider.items.append({**provider.items[0], "id": "g99", "account_id": "new"})
        found_later = truth(provider)
    with reading(provider, tmp_path, Calls()) as found:
        # What was read before is used; where the total has changed meanwhile, all is read anew.
        assert rows(found) == found_later


@pytest.mark.parametrize(
    ("by", "text"),
    [
        ("cursor", b'{"data": []}'),
        ("cursor", b'{"data": [], "next": null}'),
        ("link", b'{"data": [{"id": 1}]}'),
    ],
)
def test_without_a_total_an_end_that_is_not_said_is_none(
    by: str, text: bytes, provider: Provider, tmp_path: Path
) -> None:
    def plain(http: HttpConfig) -> HttpConfig:
        return http._replace(paging=http.paging._replace(total=None, more=None))

    provider.faults[20] = [faults.body(text)]
    with reading(provider, tmp_path, Calls(), by, plain) as found:
        assert rows(found) == truth(provider)
    assert len(provider.calls) == 6


def test_without_a_total_an_empty_listing_has_to_come_twice(
    provider: Provider, tmp_path: Path
) -> None:
    def plain(http: HttpConfig) -> HttpConfig:
        return http._replace(paging=http.paging._replace(total=None))

    provider.faults[0] = [faults.emptied]
    with reading(provider, tmp_path / "a", Calls(), change=plain) as found:
        assert rows(found) == truth(provider)
    provider.items = []
    with reading(provider, tmp_path / "b", Calls(), change=plain) as found:
        assert rows(found) == []
    assert len(provider.calls) == 6 + 2


def test_an_empty_last_page_without_a_cursor_is_an_end_where_all_came(
    provider: Provider, tmp_path: Path
) -> None:
    provider.items = provider.items[:40]

    def more(_: Provider, answer: Answer) -> None:
        answer.next = 40

    def unmarked(http: HttpConfig) -> HttpConfig:
        return http._replace(paging=http.paging._replace(more=None))

    provider.faults[30] = [more]
    provider.faults[40] = [faults.body(b'{"data": [], "total": 40}')]
    with reading(provider, tmp_path, Calls(), change=unmarked) as found:
        assert rows(found) == truth(provider)
    assert len(provider.calls) == 5


def test_deletes_between_pages_by_offset_are_noticed_and_the_listing_read_anew(
    provider: Provider, tmp_path: Path
) -> None:
    def swapped(api: Provider, _: Answer) -> None:
        """One is deleted and one is added, so that the total stays."""
        api.later.append(lambda: api.items.pop(3) and None)
        api.later.append(lambda: api.items.append({**api.items[0], "id": "g9", "account_id": "n"}))

    provider.faults[0] = [swapped]
    with reading(provider, tmp_path, Calls(), "offset") as found:
        assert rows(found) == truth(provider)
    assert provider.calls[-1].query["offset"] == "36"


def test_a_listing_that_never_stands_still_is_given_up(provider: Provider, tmp_path: Path) -> None:
    for begin in range(0, 45):
        provider.faults[begin] = [faults.deleting(0)] * 9
    with (
        reading(provider, tmp_path, Calls(), "offset") as found,
        pytest.raises(SourceUnusable, match="did not fit together, 3 times"),
    ):
        rows(found)


def test_a_cursor_that_has_expired_begins_the_listing_again(
    provider: Provider, tmp_path: Path
) -> None:
    provider.faults[30] = [faults.status(410)]
    with reading(provider, tmp_path, Calls()) as found:
        assert rows(found) == truth(provider)
    assert len(provider.calls) == 4 + 5
    provider.faults[0] = [faults.status(404)]
    with (
        reading(provider, tmp_path / "b", Calls()) as found,
        pytest.raises(SourceUnusable, match="answers 404"),
    ):
        rows(found)


@pytest.mark.parametrize("by", ["cursor", "page", "offset"])
def test_pages_are_halved_where_the_server_fails_twice_with_one(
    by: str, provider: Provider, tmp_path: Path
) -> None:
    def too_much(_: Provider, answer: Answer) -> None:
        if len(answer.items) > 5 and answer.begin >= 18:
            answer.status, answer.body = 504, b""

    provider.always = too_much
    with reading(provider, tmp_path, Calls(), by) as found:
        assert rows(found) == truth(provider)
    assert {call.query["limit"] for call in provider.calls} == {"10", "5"}


class TestConcurrency:
    """Pages that are asked for before those in front of them have come."""

    @pytest.mark.parametrize("by", ["page", "offset"])
    def test_so_many_are_under_way_at_a_time_and_used_in_their_order(
        self, by: str, provider: Provider, tmp_path: Path
    ) -> None:
        provider.items, provider.delay = grants(300), 0.02
        with reading(
            provider, tmp_path, Calls(), by, lambda http: http._replace(concurrency=8)
        ) as found:
            assert rows(found) == truth(provider)
        assert 2 <= provider.most_at_once <= 8
        places = [(call.path, tuple(call.query.items())) for call in provider.calls]
        assert len(places) == len(set(places)) <= 34, "none is asked for twice"

    def test_a_fault_of_one_that_was_asked_for_early_is_asked_for_again(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        provider.items = grants(300)
        for begin in (100, 110, 200):
            provider.faults[begin] = [faults.status(500), faults.reset]
        with reading(
            provider, tmp_path, Calls(), "page", lambda http: http._replace(concurrency=4)
        ) as found:
            assert rows(found) == truth(provider)

    @pytest.mark.skipif(not LONG, reason="takes 25 s")
    def test_eight_at_a_time_are_six_times_as_fast(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        provider.items, provider.delay = grants(1000), 0.2
        took = []
        for at_a_time in (1, 8):
            begun = time.monotonic()
            with reading(
                provider,
                tmp_path / str(at_a_time),
                Calls(),
                "page",
                lambda http, n=at_a_time: http._replace(concurrency=n),
            ) as found:
                assert rows(found) == truth(provider)
            took.append(time.monotonic() - begun)
        assert took[0] / took[1] >= 6, took


class TestLetIn:
    """Who the caller is."""

    @pytest.mark.parametrize(
        ("auth", "header"),
        [
            (AuthConfig("bearer", "", "tok"), ("authorization", "Bearer tok")),
            (AuthConfig("basic", "me", "p:w"), ("authorization", "Basic bWU6cDp3")),
            (AuthConfig("header", "X-Api-Key", "key"), ("x-api-key", "key")),
        ],
    )
    def test_a_header_goes_with_each_call(
        self, auth: AuthConfig, header: tuple[str, str], provider: Provider, tmp_path: Path
    ) -> None:
        with reading(
            provider, tmp_path, Calls(), change=lambda http: http._replace(auth=auth)
        ) as found:
            assert rows(found) == truth(provider)
        assert {call.headers[header[0]] for call in provider.calls} == {header[1]}

    def test_a_token_of_oauth_is_had_once_and_again_when_it_is_over(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        provider.token = "first"
        auth = AuthConfig("oauth", "me", "s ecret", f"{provider.url}/token", "read")

        def over(api: Provider, answer: Answer) -> None:
            api.token = "second"
            faults.status(401)(api, answer)

        provider.faults[20] = [over]
        with reading(
            provider, tmp_path, Calls(), change=lambda http: http._replace(auth=auth)
        ) as found:
            assert rows(found) == truth(provider)
        ask = ("Basic bWU6cytlY3JldA==", "grant_type=client_credentials&scope=read")
        assert provider.asked_for_tokens == [ask, ask]
        assert len(provider.calls) == 6

    def test_who_gets_no_token_is_not_let_in(self, provider: Provider, tmp_path: Path) -> None:
        auth = AuthConfig("oauth", "me", "secret", f"{provider.url}/token")
        provider.token = "a\nb"
        with (
            reading(
                provider, tmp_path, Calls(), change=lambda http: http._replace(auth=auth)
            ) as found,
            pytest.raises(AccessDenied, match="gives no access_token") as raised,
        ):
            rows(found)
        assert "secret" not in str(raised.value)
        assert not provider.calls


class TestPauses:
    """Waits that an API asks for."""

    def test_a_date_is_measured_by_the_servers_own_clock(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        calls = Calls()
        behind = calls.at - timedelta(hours=3)
        later = format_datetime(behind + timedelta(seconds=20), usegmt=True)
        now = format_datetime(behind, usegmt=True)
        provider.faults[20] = [faults.status(429, Retry_After=later, Date=now)]
        with reading(provider, tmp_path, calls) as found:
            assert rows(found) == truth(provider)
        assert calls.waits == [20.0]

    def test_waits_add_up_and_past_max_wait_the_next_run_goes_on(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        for begin in (10, 20, 30):
            provider.faults[begin] = [faults.status(429, Retry_After="25")]
        calls = Calls()
        with (
            reading(provider, tmp_path, calls) as found,
            pytest.raises(SourcePaused, match="asks for a pause of 25s") as raised,
        ):
            rows(found)
        assert calls.waits == [25.0, 25.0]
        assert raised.value.until == calls.at + timedelta(seconds=25)
        made = len(provider.calls)
        calls.at += timedelta(seconds=25)
        with reading(provider, tmp_path, calls) as found:
            assert rows(found) == truth(provider)
        assert len(provider.calls) == made + 2

    def test_after_a_pause_of_hours_the_pages_are_still_good(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        provider.faults[40] = [faults.status(503, Retry_After="7200")]
        calls = Calls()
        for more in (0, 1):
            calls.at += timedelta(seconds=7200 * more)
            with reading(provider, tmp_path, calls) as found, suppress(SourcePaused):
                assert rows(found) == truth(provider)
        assert len(provider.calls) == 6
        calls.at += timedelta(hours=2)
        with reading(provider, tmp_path, calls) as found:
            assert rows(found) == truth(provider)
        assert len(provider.calls) == 11, "what is older than plan_age is read anew"

    def test_a_budget_ends_the_run_and_the_next_goes_on(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        runs = 0
        while True:
            runs += 1
            with (
                reading(
                    provider, tmp_path, Calls(), change=lambda http: http._replace(budget=2)
                ) as found,
                suppress(SourcePaused),
            ):
                assert rows(found) == truth(provider)
                break
        assert (runs, len(provider.calls)) == (3, 5)

    def test_a_rate_spaces_the_calls_and_a_long_wait_for_it_ends_the_run(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        calls = Calls()
        calls.to_wait = [0.5, 0.0, 0.0, 61.0]
        with (
            reading(
                provider, tmp_path, calls, change=lambda h: h._replace(rate=parse_rate("10/s"))
            ) as found,
            pytest.raises(SourcePaused, match="its rate") as raised,
        ):
            rows(found)
        assert calls.waits == [0.5]
        assert raised.value.until == calls.at + timedelta(seconds=61)
        bucket = (f"{provider.url} 10/s", Rate(1, timedelta(milliseconds=102)))
        assert calls.taken == [bucket] * 4
        assert len(provider.calls) == 2

    def test_who_is_asked_to_stop_stops_before_the_next_page_and_goes_on_there(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        calls = Calls()
        calls.stop_after = 3
        with reading(provider, tmp_path, calls) as found, pytest.raises(BrokenOff):
            rows(found)
        assert len(provider.calls) == 3
        calls.stop_after = None
        with reading(provider, tmp_path, calls) as found:
            assert rows(found) == truth(provider)
        assert len(provider.calls) == 5


class TestLandings:
    """The file that pages are kept in."""

    @pytest.mark.parametrize("at", [-1, -30, 0, 5, 200])
    def test_what_is_not_as_it_was_written_is_asked_for_again(
        self, at: int, provider: Provider, tmp_path: Path
    ) -> None:
        calls = Calls()
        calls.stop_after = 4
        with reading(provider, tmp_path, calls) as found, pytest.raises(BrokenOff):
            rows(found)
        (landing,) = tmp_path.glob("*.pages")
        data = bytearray(landing.read_bytes())
        data[at] ^= 1
        landing.write_bytes(data)
        calls.stop_after = None
        with reading(provider, tmp_path, calls) as found:
            assert rows(found) == truth(provider)
        assert len(provider.calls) > 5

    def test_a_plan_is_for_one_reading_of_the_listing(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        with reading(provider, tmp_path, Calls()) as found:
            page = next(page for page in found.pages() if page.rows)
            assert list(found.pages("acct-00020", page.resume))[-1].rows
        calls = Calls()
        calls.at += timedelta(seconds=1)
        with reading(provider, tmp_path / "elsewhere", calls) as found, pytest.raises(Unordered):
            list(found.pages("acct-00020", page.resume))

    def test_two_that_write_at_once_never_mix_their_pages(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        with reading(provider, tmp_path, Calls()) as old:
            first = old.pages()
            next(first), next(first), next(first)
            assert len(provider.calls) == 2
            with reading(provider, tmp_path, Calls()) as new:
                assert rows(new) == truth(provider)
            assert len(provider.calls) == 2 + 5, "it began a file of its own"
            assert [row for page in first for row in page.rows] == truth(provider)


WRONG = st.sampled_from(
    [
        *ONCE.values(),
        faults.emptied,
        faults.short(3),
        faults.repeated,
        faults.miscounted(-1),
        faults.miscounted(1),
        faults.deleting(0),
        faults.deleting(-1),
        faults.status(404),
        faults.status(410),
        ghost,
    ]
)


@settings(max_examples=2000 if LONG else 40, deadline=None, derandomize=not LONG, database=None)
@given(
    by=st.sampled_from(sorted(PAGINGS)),
    script=st.dictionaries(
        st.sampled_from([0, 9, 10, 18, 19, 20, 27, 28, 29, 30, 36, 37, 40]),
        st.lists(WRONG, min_size=1, max_size=6),
        max_size=5,
    ),
)
def test_whatever_goes_wrong_all_rows_come_or_none(
    by: str,
    script: dict[int, list[Fault]],
    shared: Provider,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("api")
    shared.items = grants(45)
    shared.faults.clear()
    shared.faults.update({begin: list(found) for begin, found in script.items()})
    calls = Calls()
    for _ in range(3):
        with suppress(ReconcileError), reading(shared, folder, calls, by) as api:
            accounts = {row[0] for row in rows(api)}
            # Whoever is still there was there all the time: one who is missing would be revoked.
            assert {row[0] for row in truth(shared)} <= accounts
            break
    shared.faults.clear()
    calls.at += timedelta(hours=3)
    with reading(shared, folder, calls, by) as api:
        assert rows(api) == truth(shared)
