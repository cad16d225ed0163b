"""The bar that shows a run on a terminal: two lines, redrawn in place, gone at the end.

    entitlements 2026-11-29  ━━━━━━━━╸━━━━━━━━━━━━━━━━━━  range 17/~69  8m 14s left
      17,000 accounts   +3,471 -4,569 ~0   99 accounts/s

Rate and time left are those of the ranges of this phase in this process: a run that goes
on at range 18 has not done the 17 before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from . import words

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from rich.console import RenderableType
    from rich.live import Live
    from rich.text import Text

    from ...core.events import Progress
    from ...core.ports import Clock
    from ..environment import Environment
    from .words import Style

_SHORTEST_BAR = 10
_LONGEST_BAR = 40
_SECONDS_BETWEEN = 0.1


class Drawing:
    """Makes pictures of progress, one after the other; remembers how fast it goes."""

    def __init__(self, clock: Clock, style: Style) -> None:
        self._clock = clock
        self._style = style
        self._first: tuple[str, str, int, int, float] | None = None

    def of(self, progress: Progress) -> RenderableType:
        """Two lines, cut to the terminal's width."""
        from rich.console import Group
        from rich.text import Text

        rate, left = self._pace(progress)
        about = f"{progress.job} {progress.interval}"
        where = words.of_total(progress.range, progress.total, exact=progress.exact)
        to_go = f"  {words.span(left)} left" if left >= 1 else ""
        tail = f"{progress.phase} range {where}{to_go}"
        if progress.phase == "command":
            tail = f"range {where}{to_go}" if progress.total else "running"
        room = self._style.width - len(about) - len(tail) - 4
        first = Text(f"{about}  ", no_wrap=True, overflow="ellipsis")
        first.append_text(self._bar(progress, room))
        first.append(tail)
        if progress.phase == "command":
            return Group(first, Text(self._counted(progress, rate), no_wrap=True))
        changes = words.short_changes(
            {"grant": progress.grant, "revoke": progress.revoke, "update": progress.update}
        )
        second = f"  {words.count(progress.accounts, 'account')}   {changes}"
        if rate:
            second += f"   {rate:,.0f} accounts/s"
        return Group(first, Text(second, no_wrap=True, overflow="ellipsis"))

    @staticmethod
    def _counted(progress: Progress, rate: float) -> str:
        """What a command says of itself."""
        if not progress.accounts:
            return "  checkpoint saved"
        second = f"  checkpoint saved, count {progress.accounts:,}"
        return f"{second}   {rate:,.0f}/s" if rate else second

    def _bar(self, progress: Progress, room: int) -> Text:
        from rich.text import Text

        room = min(room, _LONGEST_BAR)
        if not progress.total or room < _SHORTEST_BAR:
            return Text()
        full = min(room, room * progress.range // progress.total)
        done, rest = ("\N{BOX DRAWINGS HEAVY HORIZONTAL}",) * 2 if self._style.unicode else "#-"
        if not self._style.colour:
            rest = "-" if not self._style.unicode else "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
        # NO_COLOR means no attributes either: rich itself only leaves the colours out.
        styles = ("cyan", "dim") if self._style.colour else ("", "")
        return Text.assemble((done * full, styles[0]), (rest * (room - full), styles[1]), "  ")

    def _pace(self, progress: Progress) -> tuple[float, float]:
        """Accounts per second, and seconds left; zeros where they are not known yet."""
        now = self._clock.boot()
        first = self._first
        if first is None or first[:2] != (progress.interval, progress.phase):
            self._first = (
                progress.interval,
                progress.phase,
                progress.range,
                progress.accounts,
                now,
            )
            return 0.0, 0.0
        _, _, range_then, accounts_then, then = first
        elapsed, ranges = now - then, progress.range - range_then
        if elapsed <= 0 or ranges <= 0:
            return 0.0, 0.0
        rate = (progress.accounts - accounts_then) / elapsed
        left = 0.0
        if progress.total is not None and progress.total > progress.range:
            left = (progress.total - progress.range) * elapsed / ranges
        return max(rate, 0.0), left


class Bar:
    """A progress bar on standard error."""

    def __init__(self, env: Environment, style: Style) -> None:
        self._env = env
        self._drawing = Drawing(env.clock, style)
        self._drawn: tuple[str, float] | None = None
        self._live = live(env.words, style, transient=True)
        self._live.start()

    def show(self, progress: Progress) -> None:
        """Draw how far the work is; not so often that drawing costs time."""
        drawing, now = self._drawing.of(progress), self._env.clock.boot()
        if self._drawn is None or self._drawn[0] != progress.phase or self._is_old(now):
            self._drawn = (progress.phase, now)
            self._live.update(drawing, refresh=True)

    def _is_old(self, now: float) -> bool:
        return self._drawn is None or now - self._drawn[1] >= _SECONDS_BETWEEN

    def above(self, text: str) -> None:
        """Print a text that stays, above the bar."""
        self._live.stop()
        self._env.words(text)
        self._live.start(refresh=True)

    def close(self) -> None:
        """Take the bar away and give the cursor back."""
        self._live.stop()


def live(write: Callable[[str], None], style: Style, *, transient: bool) -> Live:
    """A part of a terminal that is drawn again and again, and in the end taken away or left."""
    from rich.console import Console
    from rich.live import Live

    console = Console(
        file=cast("IO[str]", _Stream(write)),
        force_terminal=True,
        no_color=not style.colour,
        width=style.width,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    return Live(
        console=console,
        transient=transient,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )


class _Stream:
    """A stream of ours as a file for rich."""

    encoding = "utf-8"

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def write(self, text: str) -> int:
        """See `Environment.words` and `data`."""
        self._write(text)
        return len(text)

    def flush(self) -> None:
        """It is done."""

    def isatty(self) -> bool:
        """It is only made for terminals."""
        return True
