"""Which spellings are one account under each policy."""

from __future__ import annotations

import sys
from unicodedata import normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconcile.core.keys import KeyPolicy, listed, normaliser

E_ACUTE, E_THEN_ACUTE = "caf\u00e9", "cafe\u0301"
INVALID = "\udcff"

texts = st.text(st.characters(codec=None), max_size=12)


def normalised(policy: str, spelling: str) -> str:
    normalise = normaliser(KeyPolicy(policy))
    return spelling if normalise is None else normalise(spelling)


def test_exact_maps_nothing() -> None:
    assert normaliser(KeyPolicy.EXACT) is None


@pytest.mark.parametrize(
    ("policy", "one", "other"),
    [
        ("casefold", "Google", "gOOGLE"),
        ("casefold", "STRASSE", "stra\u00dfe"),
        ("casefold", "\u03a3\u03a3", "\u03c3\u03c2"),  # a sigma at the end of a word
        ("casefold", E_ACUTE.upper(), E_THEN_ACUTE),
        ("casefold", "\u0345\u0301", "\u0301\u0399"),  # a mark that folds to a letter
        ("casefold", "\uab70", "\u13a0"),  # Cherokee folds to the capital
        ("nfc", E_ACUTE, E_THEN_ACUTE),
        ("nfc", "\u212b", "\u00c5"),
        ("nfc", "a\u0323\u0307", "a\u0307\u0323"),
        ("trim", " ann", "ann"),
        ("trim", "\u3000ann\t\r\n", "\u00a0ann\u2028"),
    ],
)
def test_these_are_one_account(policy: str, one: str, other: str) -> None:
    assert one != other
    assert normalised(policy, one) == normalised(policy, other)


@pytest.mark.parametrize(
    ("policy", "one", "other"),
    [
        ("casefold", "ann", "ann "),
        ("casefold", "caf\u00e9", "cafe"),
        ("casefold", "\uff41", "a"),  # full width: a compatible form, and another letter
        ("casefold", "i", "\u0131"),
        ("nfc", "Ann", "ann"),
        ("nfc", "\ufb01", "fi"),
        ("nfc", "ann", " ann"),
        ("trim", "Ann", "ann"),
        ("trim", "a b", "ab"),
        ("trim", "\x1cann", "ann"),  # a separator of data is no blank, nor is a joiner
        ("trim", "\u200bann", "ann"),
        ("trim", E_ACUTE, E_THEN_ACUTE),
    ],
)
def test_these_are_two_accounts(policy: str, one: str, other: str) -> None:
    assert normalised(policy, one) != normalised(policy, other)


@pytest.mark.parametrize("policy", ["casefold", "nfc", "trim"])
@given(texts)
@example(INVALID + "A\u0301")
@example("\u0345")
@example("\x00A")
def test_a_normalised_account_is_its_own_spelling(policy: str, spelling: str) -> None:
    once = normalised(policy, spelling)
    assert normalised(policy, once) == once


@given(texts, texts)
def test_casefold_is_the_canonical_caseless_match(one: str, other: str) -> None:
    def folded(text: str) -> str:
        return normalize("NFD", normalize("NFD", text).casefold())

    for left, right in ((one, other), (one, one.swapcase()), (one, normalize("NFD", one))):
        same = normalised("casefold", left) == normalised("casefold", right)
        assert same == (folded(left) == folded(right))


def test_no_letter_folds_to_what_would_fold_further() -> None:
    """Then no text does: folding is letter by letter, and marks only move between letters."""
    for code in range(sys.maxunicode + 1):
        folded = normalize("NFD", normalize("NFD", chr(code)).casefold())
        assert all(c.casefold() == c for c in folded), hex(code)


@given(st.text(st.characters(max_codepoint=127)))
def test_the_short_way_for_ascii_leads_to_the_same(spelling: str) -> None:
    assert normalised("casefold", spelling) == normalize(
        "NFC", normalize("NFD", spelling).casefold()
    )
    assert normalised("nfc", spelling) == normalize("NFC", spelling)


def test_spellings_are_listed_so_that_they_can_be_told_apart() -> None:
    assert listed(["Ann", "ann"]) == "'Ann' and 'ann'"
    assert listed([E_ACUTE, E_THEN_ACUTE]) == "'caf\u00e9' and 'cafe\\u0301'"
    assert listed(["ann", "ann\u00a0", "ann "]) == "'ann', 'ann\\xa0' and 'ann '"
    assert listed([INVALID]) == "'\\udcff'"
    assert listed([f"a{'!' * n}" for n in range(9)]).endswith(", 'a!!!!' and 4 more")
