"""Secrets in addresses: found, and never shown.

An address may carry a password (`postgresql://user:password@host/db`) or a token
(`https://host/path?token=…`). `mask` takes both out of any text that may hold an address.
Everything that is shown of a configuration goes through it, and so does the text of every
`ReconcileError`, because an address that cannot be read is quoted by whoever refuses it.

Where it is doubtful how far a password goes, too much is hidden rather than too little: a
password may hold any letter, and one that was not percent-encoded (`pass/word@`) breaks the
rules for addresses, not the rule here.
"""

from __future__ import annotations

import re

MASK = "***"
_NAMES = (
    r"password|passwd|passphrase|pwd|secret|token|api_?key|access_?key|private_?key"
    r"|credentials?|signature|sig|auth"
)


def _patterns(letter: str, of_field: str) -> tuple[re.Pattern[str], ...]:
    """What is hidden, each after a group that is kept: the password of an address, up to the
    last @ of `letter`s; a token in the user's place, as the web has it; a field by its
    name. An address begins after a colon and slashes, of which a path may have made one."""
    return (
        re.compile(rf"((?::/{{1,3}}|\bsqlite:)[^\s/:@]*:){letter}*(?=@)"),
        re.compile(r"(\bhttps?:/{1,2})[^\s/:@?#]+(?=@)", re.IGNORECASE),
        re.compile(rf"([\w-]*(?:{_NAMES})[\w-]*=){of_field}+", re.IGNORECASE),
        re.compile(rf"([?&]key=){of_field}+", re.IGNORECASE),
    )


_IN_TEXTS = _patterns(r"\S", r"[^&#;\s]")
_IN_ADDRESSES = _patterns(r"[\s\S]", "[^&#;]")


def mask(text: str) -> str:
    """The text with `***` for each password and token of the addresses in it."""
    return _masked(text, _IN_TEXTS)


def mask_address(address: str) -> str:
    """As `mask`, of a text that is one address and nothing else: blanks end nothing in it."""
    return _masked(address, _IN_ADDRESSES)


def server_shown(address: str) -> str:
    """User, host and path of a server's address: what may be shown of one that a `KEY_file`
    holds. Nothing where it cannot be told where a password ends."""
    scheme, mark, rest = address.partition("://")
    login, at, where = rest.rpartition("@")
    if any(sign in login for sign in "@/?#"):
        return f"{scheme}{mark}{MASK}"
    return f"{scheme}{mark}{login.partition(':')[0]}{at}{where.partition('?')[0]}"


def beyond_host(address: str) -> str:
    """A web address of which all that may be secret is hidden: `https://hc-ping.com/***`."""
    scheme, _, rest = address.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{scheme}://{host}/{MASK}"


def whose(address: str) -> str:
    """What kind of service an address is for, and nothing else of it: `mailto://***`."""
    return f"{address.partition(':')[0]}://{MASK}"


def _masked(text: str, patterns: tuple[re.Pattern[str], ...]) -> str:
    if "@" in text or "=" in text:
        for pattern in patterns:
            text = pattern.sub(rf"\1{MASK}", text)
    return text
