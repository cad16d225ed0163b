"""What a guard found, and the command that approves it all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import words

if TYPE_CHECKING:
    from ...core.records import GuardReport
    from .words import Style

_NAMES_SHOWN = 5
GUARDS = {
    "max_revoke": "too many revokes",
    "max_update": "too many updates",
    "empty_source": "the source is empty",
    "min_rows": "the source has too few rows",
    "must_contain": "the source lacks accounts that it must contain",
}
"""What a guard found, in words. One that is not named here shows its name."""


def approve_command(job: str, interval_id: str, plan_hash: str, style: Style) -> str:
    """The command that approves exactly this plan."""
    return f'{style.program} resume {job} {interval_id} --approve {plan_hash} -m "why"'


def refuse_command(job: str, interval_id: str, style: Style) -> str:
    """The command that gives the interval up."""
    return f'{style.program} skip {job} {interval_id} -m "why"'


def planned(guard: GuardReport) -> str:
    """`15,302 grants, 19,892 revokes (11.3%), 7 updates`."""
    share = f" ({words.percent(guard.revoke, guard.base)})" if guard.base else ""
    return (
        f"{words.count(guard.grant, 'grant')}, {words.count(guard.revoke, 'revoke')}{share},"
        f" {words.count(guard.update, 'update')}"
    )


def losing(guard: GuardReport, style: Style) -> str:
    """`8,613 would lose everything they have: 2to3, abinit, … 8,611 more`."""
    count = guard.losing_accounts
    names = list(guard.losing_names[:_NAMES_SHOWN])
    if names and count > len(names):
        names.append(f"{style.dots} {count - len(names):,} more")
    have = "it has" if count == 1 else "they have"
    named = f": {', '.join(names)}" if names else ""
    return f"{words.number(count)} would lose everything {have}{named}"


def guard_facts(guard: GuardReport, style: Style) -> list[tuple[str, str]]:
    """What somebody needs to know to approve a plan or to refuse it."""
    rows = [("guard", guard_limit(guard)), ("planned", planned(guard))]
    if guard.losing_accounts:
        text = losing(guard, style)
        if guard.revokes_elsewhere:
            verb = "is" if guard.revokes_elsewhere == 1 else "are"
            text += f"; {words.count(guard.revokes_elsewhere, 'revoke')} {verb} elsewhere"
        rows.append(("accounts", text))
    if guard.most_revoked:
        most = ", ".join(f"{name} {words.number(n)}" for name, n in guard.most_revoked)
        rows.append(("most", most))
    last = "" if guard.last_rows is None else f", last time {words.number(guard.last_rows)}"
    rows.append(("source", f"{guard.source}: {words.count(guard.source_rows, 'row')}{last}"))
    return rows


def guard_limit(guard: GuardReport) -> str:
    """`max_revoke = 10%: 17,555 of the 175,554 rows in the target`; numbers are as they are."""
    if guard.guard not in {"max_revoke", "max_update"}:
        limit = f" = {guard.limit:,.0f}" if guard.limit else ""
        return f"{guard.guard}{limit}; {words.count(guard.base, 'row')} in the target"
    share = f"{guard.limit * 100:g}%"
    allowed = words.number(int(guard.limit * guard.base))
    return (
        f"{guard.guard} = {share}: {allowed} of the {words.count(guard.base, 'row')} in the target"
    )
