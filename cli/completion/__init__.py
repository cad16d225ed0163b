"""Completions for bash, zsh and fish: scripts made from the declarations that the parser reads.

A script knows commands, options, and what kind of word is wanted where, so that typing an option
starts nothing. Names of jobs and ids of intervals are asked of the hidden command `complete`,
which says nothing where anything is wrong. A new command, option or argument is in all three
scripts as soon as it is declared; a test compares `completions/` with what is made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SHELLS = {"bash": "reconcile.bash", "zsh": "_reconcile", "fish": "reconcile.fish"}
"""Each shell's file in `completions/`, by the name under which the shell looks for it."""


def script(shell: str) -> str:
    """The completion script of a shell of `SHELLS`."""
    from .bash import script as of_bash
    from .fish import script as of_fish
    from .tables import table
    from .zsh import script as of_zsh

    makers: dict[str, Callable[..., str]] = {"bash": of_bash, "zsh": of_zsh, "fish": of_fish}
    return makers[shell](table())
