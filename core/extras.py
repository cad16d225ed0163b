"""How what an extra brings is installed.

By the Python that this program runs in: the `pip` that a shell finds is often another one, which
does not know this `reconcile` and would take whatever an index has under that name.
"""

import sys
from shlex import quote


def install(extra: str) -> str:
    """The command to type, for one of the extras in pyproject.toml."""
    return f"{quote(sys.executable)} -m pip install 'reconcile[{extra}]'"
