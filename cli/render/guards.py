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
_SHARES = {"max_revoke", "max_update"}
"""Guards whose limit is a share of the target's rows."""


def look_command(job: str, interval_id: str, style: Style) -> str:
    """The command that shows what the plan would change."""
    return f"{style.program} changes {job} {interval_id} --planned"


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


def missing(guard: GuardReport, style: Style) -> str:
    """`root, svc-backup, … 3 more`: what the source must contain and lacks."""
    names = list(guard.missing[:_NAMES_SHOWN])
    if len(guard.missing) > len(names):
        names.append(f"{style.dots} {len(guard.missing) - len(names):,} more")
    return ", ".join(map(words.shown, names))


def guard_facts(guard: GuardReport, style: Style) -> list[tuple[str, str]]:
    """What somebody needs to know to approve a plan or to refuse it."""
    rows = [("guard", guard_limit(guard)), ("planned", planned(guard))]
    if guard.missing:
        rows.insert(1, ("missing", missing(guard, style)))
    before = counted_before(guard)
    if before:
        rows.append(("before", before))
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
    """`max_revoke = 10%, at least 10: 17,555 of the 175,554 rows in the target`; numbers are as
    they are."""
    if guard.guard not in _SHARES:
        limit = f" = {guard.limit:,.0f}" if guard.limit else ""
        if guard.missing:
            named = words.count(int(guard.limit), "account")
            limit = f" = {named}, {len(guard.missing):,} of them missing"
        return f"{guard.guard}{limit}; {words.count(guard.base, 'row')} in the target"
    share = f"{guard.limit * 100:g}%"
    allowed = int(guard.limit * guard.base)
    if guard.minimum is not None:
        share += f", at least {words.number(guard.minimum)}"
        allowed = max(allowed, guard.minimum)
    return (
        f"{guard.guard} = {share}: {words.number(allowed)} of the"
        f" {words.count(guard.base, 'row')} in the target"
    )


def counted_before(guard: GuardReport) -> str:
    """`88 revokes by this interval and 1,204 by others in the last 24 hours count too`; empty
    where nothing but the plan counts."""
    if guard.guard not in _SHARES:
        return ""
    noun = "update" if guard.guard == "max_update" else "revoke"
    parts = []
    if guard.spent:
        parts.append(f"{words.count(guard.spent, noun)} by this interval")
    if guard.others:
        others = words.number(guard.others) if parts else words.count(guard.others, noun)
        parts.append(f"{others} by others in the last 24 hours")
    total = guard.spent + guard.others
    return f"{' and '.join(parts)} {'counts' if total == 1 else 'count'} too" if parts else ""


def not_approved(
    guard: GuardReport, refused: str, then: GuardReport | None
) -> list[tuple[str, str]]:
    """What was approved by its hash, and what is planned instead; `then` is what the guard had
    said of the approved plan, where the trail still has it."""
    if then is None:
        return [("approved", refused), ("planned", f"{planned(guard)}, {guard.hash}")]
    return [
        ("approved", f"{_approvable(then)}, {refused}"),
        ("planned", f"{_approvable(guard)}, {guard.hash}: {_compared(guard, then)}"),
    ]


def _approvable(guard: GuardReport) -> str:
    """`19,892 revokes, 7 updates`: what a hash stands for."""
    updates = f", {words.count(guard.update, 'update')}" if guard.update else ""
    return f"{words.count(guard.revoke, 'revoke')}{updates}"


def _compared(guard: GuardReport, then: GuardReport) -> str:
    more = guard.revoke + guard.update - then.revoke - then.update
    if more == 0:
        return "as many, but others"
    return f"{more:,} more" if more > 0 else f"{-more:,} fewer"
