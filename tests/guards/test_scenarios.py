"""The map from what users were hurt by to the tests that show it names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NAMED = sorted(set(re.findall(r"`(\w+/\w+\.py(?:::\w+)?)`", (TESTS / "SCENARIOS.md").read_text())))


def test_the_map_is_read() -> None:
    assert len(NAMED) > 30


@pytest.mark.parametrize("name", NAMED)
def test_a_named_test_exists(name: str) -> None:
    path, _, function = name.partition("::")
    text = (TESTS / path).read_text()
    defined = rf"^(def {function}\(|class {function}\b|{function} = )"
    assert not function or re.search(defined, text, re.MULTILINE)
