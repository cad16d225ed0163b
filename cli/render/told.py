"""One thing to say: a sentence, facts below it, and the commands to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .words import shown

if TYPE_CHECKING:
    from .words import Style

_NARROWEST = 40


class Told:
    """One thing to say: about what, its state, the rest of that sentence, and details."""

    def __init__(self, about: str, state: str, rest: str = "") -> None:
        self.about = about
        self.state = state
        self.rest = rest
        self.details: list[str] = []

    def text(self, style: Style, *, before: str = "", gap: str = "  ") -> str:
        """All lines, ending with a newline; the sentence wrapped to the width."""
        sentence = f"{before}{self.about}{gap}{self.state}{self.rest}"
        first, *more = wrapped(sentence, style.width, first="")
        at = len(before) + len(self.about) + len(gap)
        if first[at : at + len(self.state)] == self.state:
            first = f"{first[:at]}{style.state(self.state)}{first[at + len(self.state) :]}"
        return "\n".join([first, *more, *self.details]) + "\n"

    def prose(self, text: str, width: int) -> None:
        """A sentence, indented and wrapped."""
        self.details += wrapped(text, width)

    def facts(self, rows: list[tuple[str, str]], width: int) -> None:
        """Labels and texts; what does not fit goes on below the text."""
        wide = max((len(label) for label, _ in rows), default=0)
        for label, text in rows:
            start = f"  {label:{wide}}  "
            self.details += wrapped(text, width, first=start, rest=" " * len(start))

    def command(self, label: str, command: str, width: int) -> None:
        """A command to type, never wrapped: below its label where both do not fit."""
        line = f"  {label}: {command}"
        below = [f"  {label}:", f"    {command}"]
        self.details += [line] if len(line) <= width else below


def wrapped(text: str, width: int, first: str = "  ", rest: str = "  ") -> list[str]:
    """Lines of at most `width` columns; words, paths and commands are not broken. A name with
    control characters in it is shown with escapes."""
    from textwrap import wrap

    return wrap(
        "\n".join(map(shown, text.split("\n"))),
        max(width, _NARROWEST),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    ) or [first.rstrip()]
