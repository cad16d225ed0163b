"""Accounts that are looked up one by one in an API: a look-up that fails is no empty one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from support import provider as faults
from support.api import Calls, reading, rows, truth
from support.provider import Provider, grants

from reconcile.core.endpoints import AsksEach, BrokenOff
from reconcile.core.errors import SourcePaused, SourceUnreachable, SourceUnusable

AWKWARD = ["a b", "a/b", "a%2Fb", "é", "日本", "?x=1", "#"]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(grants(12)) as found:
        yield found


def asked(provider: Provider) -> list[str]:
    """The accounts that were looked up, in the order of the calls."""
    paths = (call.path for call in provider.calls)
    return [path.rpartition("/")[2] for path in paths if path.startswith("/users/")]


@pytest.mark.parametrize("at_a_time", [1, 4])
def test_each_account_of_the_listing_is_looked_up_once(
    at_a_time: int, provider: Provider, tmp_path: Path
) -> None:
    provider.items += [
        {**provider.items[0], "id": f"x{n}", "account_id": name} for n, name in enumerate(AWKWARD)
    ]
    with reading(
        provider, tmp_path, Calls(), "lookups", lambda http: http._replace(concurrency=at_a_time)
    ) as found:
        assert rows(found) == truth(provider)
    assert len(asked(provider)) == len(set(asked(provider))) == 12 + len(AWKWARD)
    assert provider.most_at_once <= at_a_time


def test_one_that_fails_is_left_alone_with_the_reason(provider: Provider, tmp_path: Path) -> None:
    provider.of_account["acct-00003"] = [faults.status(500)] * 9
    provider.of_account["acct-00005"] = [faults.status(404)]
    provider.of_account["acct-00007"] = [faults.body(b'{"grants": [{"account_id": "x"}]}')] * 9
    with reading(provider, tmp_path, Calls(), "lookups") as found:
        pages = list(found.pages())
    bad = {account: why for page in pages for account, why in page.bad.items()}
    assert bad.keys() == {"acct-00003", "acct-00005", "acct-00007"}
    assert "answers 500" in bad["acct-00003"]
    assert "answers 404" in bad["acct-00005"]
    assert [row for page in pages for row in page.rows] == [
        row for row in truth(provider) if row[0] not in bad
    ]


def test_who_is_not_there_has_nothing_only_where_that_is_said(
    provider: Provider, tmp_path: Path
) -> None:
    provider.of_account["acct-00005"] = [faults.status(404)]
    with reading(
        provider, tmp_path, Calls(), "lookups", lambda http: http._replace(missing="nothing")
    ) as found:
        assert rows(found) == [row for row in truth(provider) if row[0] != "acct-00005"]


def test_an_answer_that_is_of_another_account_is_none(provider: Provider, tmp_path: Path) -> None:
    def wrong(api: Provider, answer: faults.Answer) -> None:
        answer.items = [item for item in api.items if item["account_id"] == "acct-00001"]

    provider.of_account["acct-00003"] = [wrong] * 9
    with reading(
        provider,
        tmp_path,
        Calls(),
        "lookups",
        lambda http: http._replace(values={"account_id": "account_id"}),
    ) as found:
        pages = list(found.pages())
    assert [*{account for page in pages for account in page.bad}] == ["acct-00003"]


def test_where_several_in_a_row_fail_the_api_is_away_and_the_next_run_goes_on(
    provider: Provider, tmp_path: Path
) -> None:
    for number in range(4, 12):
        provider.of_account[f"acct-{number:05d}"] = [faults.status(503)] * 2
    for _ in range(9):
        with suppress(SourceUnreachable), reading(provider, tmp_path, Calls(), "lookups") as found:
            assert rows(found) == truth(provider)
            break
    assert asked(provider).count("acct-00003") == 1
    assert sum(call.path == "/users" for call in provider.calls) == 1

    def away(api: Provider, answer: faults.Answer) -> None:
        answer.status, answer.body = 500, b""

    with Provider(grants(12)) as other:
        for number in range(4, 12):
            other.of_account[f"acct-{number:05d}"] = [away] * 99
        with (
            reading(other, tmp_path / "other", Calls(), "lookups") as found,
            pytest.raises(SourceUnreachable),
        ):
            rows(found)
        other.of_account.clear()
        with reading(other, tmp_path / "other", Calls(), "lookups") as found:
            assert rows(found) == truth(other), "nobody is left alone because the API was away"


@pytest.mark.parametrize("at_a_time", [1, 3])
def test_who_is_broken_off_asks_again_for_what_was_under_way_only(
    at_a_time: int, provider: Provider, tmp_path: Path
) -> None:
    calls = Calls()
    calls.stop_after = 8
    with (
        reading(
            provider, tmp_path, calls, "lookups", lambda http: http._replace(concurrency=at_a_time)
        ) as found,
        pytest.raises(BrokenOff),
    ):
        rows(found)
    calls.stop_after = None
    with reading(
        provider, tmp_path, calls, "lookups", lambda http: http._replace(concurrency=at_a_time)
    ) as found:
        assert rows(found) == truth(provider)
    assert len(asked(provider)) <= 12 + at_a_time
    assert sum(call.path == "/users" for call in provider.calls) == 1


def test_a_budget_is_used_up_and_none_of_it_in_vain(provider: Provider, tmp_path: Path) -> None:
    runs = 0
    while runs < 9:
        runs += 1
        with (
            reading(
                provider,
                tmp_path,
                Calls(),
                "lookups",
                lambda http: http._replace(budget=5, concurrency=3),
            ) as found,
            suppress(SourcePaused),
        ):
            assert rows(found) == truth(provider)
            break
    assert (runs, len(provider.calls)) == (3, 13)


def test_after_too_long_a_break_the_listing_and_all_are_asked_for_again(
    provider: Provider, tmp_path: Path
) -> None:
    calls = Calls()
    calls.stop_after = 6
    with reading(provider, tmp_path, calls, "lookups") as found, pytest.raises(BrokenOff):
        rows(found)
    calls.stop_after = None
    calls.at += timedelta(hours=3)
    provider.items = provider.items[3:]
    with reading(provider, tmp_path, calls, "lookups") as found:
        assert rows(found) == truth(provider)


def test_a_listing_without_its_accounts_is_an_error(provider: Provider, tmp_path: Path) -> None:
    provider.items.append({**provider.items[0], "id": "x", "account_id": ""})
    with (
        reading(provider, tmp_path, Calls(), "lookups") as found,
        pytest.raises(SourceUnusable, match="account_id is empty"),
    ):
        rows(found)


class TestOfTheTarget:
    """Look-ups of the accounts that the target has."""

    def test_each_is_asked_for_and_who_came_meanwhile_is_left_alone(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        calls = Calls()
        calls.there = [f"acct-{number:05d}" for number in range(2, 9)]
        with reading(provider, tmp_path, calls, "target") as found:
            assert isinstance(found, AsksEach)
            assert rows(found) == [row for row in truth(provider) if row[0] in calls.there]
            assert found.unasked(["acct-00001", "acct-00002"]).keys() == {"acct-00001"}
        assert asked(provider) == calls.there
        with reading(provider, tmp_path, calls, "target") as found:
            assert isinstance(found, AsksEach)
            assert found.unasked([*calls.there, "new"]).keys() == {"new"}, "in another process too"

    def test_where_a_listing_says_who_there_is_everybody_was_asked_for(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        with reading(provider, tmp_path, Calls(), "lookups") as found:
            assert not isinstance(found, AsksEach)

    def test_who_is_broken_off_goes_on(self, provider: Provider, tmp_path: Path) -> None:
        calls = Calls()
        calls.there = [f"acct-{number:05d}" for number in range(12)]
        calls.stop_after = 5
        with reading(provider, tmp_path, calls, "target") as found, pytest.raises(BrokenOff):
            rows(found)
        calls.stop_after = None
        with reading(provider, tmp_path, calls, "target") as found:
            assert rows(found) == truth(provider)
        assert len(provider.calls) == 12
