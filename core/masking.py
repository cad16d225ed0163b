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
# Where an address begins, who, and what is secret up to the last @ before a blank.
_USER = re.compile(r"((?:://|\bsqlite:/{0,2})[^\s/:@]*):[^\s]*@")
# Who is the secret himself where the web is asked for something: https://TOKEN@host.
_ALONE = re.compile(r"(\bhttps?://)[^\s/:@?#]+@", re.IGNORECASE)
_FIELD = re.compile(rf"([\w-]*(?:{_NAMES})[\w-]*=)[^\s&#;]+", re.IGNORECASE)
_BARE_FIELD = re.compile(r"([?&]key=)[^\s&#;]+", re.IGNORECASE)


def mask(text: str) -> str:
    """The text with `***` for each password and token of the addresses in it."""
    if "@" in text:
        text = _ALONE.sub(rf"\1{MASK}@", _USER.sub(rf"\1:{MASK}@", text))
    if "=" in text:
        text = _BARE_FIELD.sub(rf"\1{MASK}", _FIELD.sub(rf"\1{MASK}", text))
    return text


def mask_address(address: str) -> str:
    """As `mask`, of a text that is one address and nothing else: blanks end nothing in it."""
    hidden = mask(address.replace(" ", "\0").replace("\t", "\1"))
    return hidden.replace("\0", " ").replace("\1", "\t")
