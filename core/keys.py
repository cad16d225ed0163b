"""When two spellings are one account: the key policy of a job.

Files and tables of different makers spell one account in more than one way: `Ann` and
`ann`, an accent as one code point or as two, a blank at the end. Under a key policy other
than `exact` each side maps the spelling it has to the *normalised* account, and only that
crosses the border: order, bounds, checksums and comparison are of normalised accounts. A
side keeps the spelling to itself, for two uses: a change of a row that is there names the
row by its own spelling, and spellings that become one account are not merged; that account
is set apart, with its spellings named, and nothing of it is changed. A policy is about the
account only; other columns of the key, and values, are compared exactly.

Each normaliser is idempotent, so that a normalised account is its own spelling, and is
deterministic for one version of Unicode, that of the Python which runs it. A later version
only adds code points: Unicode's stability policy keeps normal forms and case foldings of
assigned ones.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SHOWN = 5
"""So many spellings of one account are named."""

_WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Code points with the property White_Space (Unicode, PropList.txt). `str.strip()` would also
take U+001C to U+001F, which are separators of data and not blanks."""


class KeyPolicy(StrEnum):
    """Which spellings are one account.

    EXACT     each is an account of its own, NFC and NFD forms too
    CASEFOLD  those that differ in case only (the German sharp s is `ss`), or canonically
    NFC       those that are canonically equivalent: one code point with its accent, or two
    TRIM      those that differ in white space at the beginning or end only
    """

    EXACT = "exact"
    CASEFOLD = "casefold"
    NFC = "nfc"
    TRIM = "trim"


def normaliser(policy: KeyPolicy) -> Callable[[str], str] | None:
    """What maps a spelling to its normalised account; None where each is its own (`exact`).

    `casefold` is the canonical caseless match of the Unicode Standard, section 3.13, D145:
    X and Y match where NFD(toCasefold(NFD(X))) is NFD(toCasefold(NFD(Y))). The first NFD is
    for U+0345, whose folding is no mark any more and so must be put in its place before.
    What comes out is composed (NFC, UAX 15), as names are usually written.
    """
    if policy is KeyPolicy.CASEFOLD:
        return _casefold
    if policy is KeyPolicy.NFC:
        return _nfc
    return _trim if policy is KeyPolicy.TRIM else None


def listed(spellings: Sequence[str]) -> str:
    """Spellings of one account for a message: `'Ann' and 'ann'`.

    What is not composed is written with escapes, or it would look like what is.
    """
    from unicodedata import is_normalized

    shown = [repr(s) if is_normalized("NFC", s) else ascii(s) for s in spellings[:SHOWN]]
    more = len(spellings) - len(shown)
    last = f"{more} more" if more else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last


def _casefold(spelling: str) -> str:
    if spelling.isascii():
        return spelling.lower()
    from unicodedata import normalize

    return normalize("NFC", normalize("NFD", spelling).casefold())


def _nfc(spelling: str) -> str:
    if spelling.isascii():
        return spelling
    from unicodedata import normalize

    return normalize("NFC", spelling)


def _trim(spelling: str) -> str:
    return spelling.strip(_WHITE_SPACE)
