from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.config import (
    CatchUpConfig,
    EntitlementsConfig,
    Job,
    SourceConfig,
    TargetConfig,
    sqlite_path,
    sqlite_url,
)

names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(names.filter(lambda name: name not in {".", ".."}), min_size=1, max_size=4))
def test_an_sqlite_url_leads_back_to_its_path(parts: list[str]) -> None:
    path = PurePosixPath("/", *parts)
    assert sqlite_path(sqlite_url(path)) == Path(path)
    assert sqlite_path(sqlite_url(path, "single_host=yes")) == Path(path)


def test_the_query_begins_at_the_question_mark() -> None:
    url = sqlite_url(PurePosixPath("/a b/100%?#.db"), "single_host=yes")
    assert url == "sqlite:///a b/100%25%3F%23.db?single_host=yes"


@pytest.mark.parametrize(
    ("path", "configured", "in_force"),
    [
        ("/x/{date}.csv", None, "all"),
        ("/x/{yesterday:%Y}.csv", None, "all"),
        ("/x/export.csv", None, "latest"),
        ("/x/export.csv", "all", "all"),
        ("/x/{interval}.csv", "none", "none"),
    ],
)
def test_a_live_source_has_no_past_to_replay(
    path: str, configured: str | None, in_force: str
) -> None:
    work = EntitlementsConfig(SourceConfig("csv", path), TargetConfig("sql", "sqlite:///a", "t"))
    job = Job("j", Path("/x"), None, work, catch_up=CatchUpConfig(configured))
    assert job.catch_up_policy == in_force
