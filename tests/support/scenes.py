"""The scenes of the main job: how each comes about, and the command that is looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from .fakes import NoSignal
from .screens import EYES, OTHER, Hook, Screen, Stage
from .small import HAS, SHOULD, write_source, write_target

CONFIG = """\
[jobs.entitlements]
schedule = "30 2 * * *"
start = 2026-11-27
source = "exports/{date}.csv"
target = "app.db"
range_size = 8

[jobs.entitlements.lease]
ttl = "6h"
progress_deadline = "6h"
"""
TONIGHT = "2026-11-30"
RUN = ("run", "entitlements")
FEW = [row for row in HAS if row[0] < "acct-0025"]
"""A truth that would take everything from 16 of 40 accounts."""
RAISED = [(account, name, "99") for account, name, _ in HAS]
FEWER = [row for row in HAS if row[0] < "acct-0024"]
CONTRADICTION = [("acct-0007", "seats", "9"), ("acct-0030", "sso", "yes")]


@dataclass(frozen=True)
class Scene:
    """One screen. `prepare` makes what is there before; `around`: the command is called while a
    run on another host is at that step, after `before`; `hooks` are those of the command itself.
    `THIS` in `argv` is the hash of the plan that waits."""

    name: str
    argv: tuple[str, ...]
    prepare: tuple[Callable[[Stage], None], ...] = ()
    around: tuple[str, int] | None = None
    hooks: dict[tuple[str, int], Hook] = field(default_factory=dict)
    change: dict[str, object] = field(default_factory=dict)
    before: Callable[[Stage], None] = lambda stage: None


# --- what was there before


def hash_of(shown: Screen) -> str:
    """The hash of the plan that a run under `--json` says waits."""
    return str(json.loads(shown.data)["guard"]["hash"])


def job(stage: Stage) -> None:
    """The job with its table, and the exports of four nights: all the same but the last."""
    (stage.folder / "reconcile.toml").write_text(CONFIG)
    (stage.folder / "exports").mkdir()
    write_target(stage.folder / "app.db")
    for day, rows in (("27", HAS[:-3]), ("28", HAS), ("29", HAS[:-1]), ("30", SHOULD)):
        write_source(stage.folder / f"exports/2026-11-{day}.csv", rows)


def tonight(stage: Stage) -> None:
    """The first night that is owed is that of the 30th."""
    job(stage)
    text = CONFIG.replace("start = 2026-11-27", "start = 2026-11-30")
    (stage.folder / "reconcile.toml").write_text(text)
    stage.day(30)


def export(rows: list[tuple[str, str, str]], day: str = TONIGHT) -> Callable[[Stage], None]:
    def write(stage: Stage) -> None:
        write_source(stage.folder / f"exports/{day}.csv", rows)

    return write


def no_export(stage: Stage) -> None:
    (stage.folder / f"exports/{TONIGHT}.csv").unlink()


def only_tonight(stage: Stage) -> None:
    """Four nights are owed, and three exports never came."""
    job(stage)
    for day in ("27", "28", "29"):
        (stage.folder / f"exports/2026-11-{day}.csv").unlink()
    stage.day(30)


def cut_export(stage: Stage) -> None:
    path = stage.folder / f"exports/{TONIGHT}.csv"
    path.write_text(path.read_text()[:-9])


def contradicting(stage: Stage) -> None:
    export([*SHOULD, *CONTRADICTION])(stage)


def ran(*argv: str, code: int = 0, by: str = "alice") -> Callable[[Stage], None]:
    def call(stage: Stage) -> None:
        shown = stage.elsewhere(login=by)(*argv)
        assert shown.code == code, f"{shown}"

    return call


def killed(step: str, count: int) -> Callable[[Stage], None]:
    def kill(stage: Stage) -> None:
        stage.killed_at(step, count, *RUN)

    return kill


def later(day: int, hour: int, minute: int) -> Callable[[Stage], None]:
    return lambda stage: stage.day(day, hour, minute)


def history(stage: Stage) -> None:
    """Three nights: the first with a kill in it, one given up, one rerun."""
    job(stage)
    killed("range_committed", 1)(stage)
    stage.day(27, 2, 40)
    ran(*RUN)(stage.elsewhere(holder=OTHER, dead=frozenset({"one"})))
    stage.day(28)
    ran("skip", "entitlements", "2026-11-28", "-m", "wrong export, OPS-71")(stage)
    stage.day(29, 4, 10)
    ran(*RUN)(stage)
    ran("rerun", "entitlements", "2026-11-29", "-m", "app.db was restored, OPS-77", by="bob")(stage)
    stage.day(30, 2, 20)


def tonight_waits(stage: Stage) -> None:
    """The night of the 30th waits for an approval."""
    tonight(stage)
    export(FEW)(stage)
    stage.kept = hash_of(stage.elsewhere(eye=EYES[-1])(*RUN))
    stage.day(30, 2, 41)


def guarded(guard: str) -> Callable[[Stage], None]:
    """The job has one more guard."""
    return change_config("range_size = 8", f"range_size = 8\nguards.{guard}")


def two_nights(stage: Stage) -> None:
    """Two nights revoke what one may, and half of it again, within 24 hours."""
    job(stage)
    change_config("start = 2026-11-27", "start = 2026-11-29")(stage)
    export(HAS[:-9], "2026-11-29")(stage)
    export(HAS[:-15])(stage)
    stage.day(29, 12, 0)
    ran(*RUN)(stage)
    stage.day(30)


def given_up_partly(stage: Stage) -> None:
    """A night is given up when half of it is applied."""
    tonight(stage)
    killed("range_committed", 3)(stage)
    stage.day(30, 2, 40)
    other = stage.elsewhere(holder=OTHER, dead=frozenset({"one"}))
    assert other("skip", *ONE, "-m", "wrong export, OPS-71").code == 0


def failed(stage: Stage) -> None:
    """The export of tonight is cut, and the deadline is at 08:30."""
    tonight(stage)
    change_config("range_size = 8", 'range_size = 8\ndeadline = "6h"')(stage)
    cut_export(stage)
    ran(*RUN, code=65)(stage)


def tonight_done(stage: Stage) -> None:
    tonight(stage)
    ran(*RUN)(stage)
    stage.day(30, 2, 41)


def known(stage: Stage) -> None:
    """The night before is completed, and tonight's is due."""
    job(stage)
    change_config("start = 2026-11-27", "start = 2026-11-29")(stage)
    stage.day(29)
    ran(*RUN)(stage)
    stage.day(30)


# --- what happens meanwhile


def signal(name: str) -> Hook:
    def send(stage: Stage) -> None:
        stage.stop.reason = name

    return send


def taken_over(stage: Stage) -> None:
    """Another host takes this run for dead, and does the night."""
    other = stage.elsewhere(holder=OTHER, dead=frozenset({"one"}))
    assert other(*RUN).code == 0


def forced_out(stage: Stage) -> None:
    other = stage.elsewhere(holder=OTHER)
    assert other("stop", "entitlements", "--force", "-m", "hung, OPS-81").code == 0


def change_config(old: str, new: str) -> Callable[[Stage], None]:
    def change(stage: Stage) -> None:
        path = stage.folder / "reconcile.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def late(stage: Stage) -> None:
    """The night of the 29th is begun when that of the 30th is nearly due."""
    job(stage)
    change_config("start = 2026-11-27", "start = 2026-11-29")(stage)
    stage.day(30, 2, 20)


def much_later(stage: Stage) -> None:
    stage.clock.advance(20 * 60)


def broken_config(stage: Stage) -> None:
    text = CONFIG.replace("range_size", "rangesize").replace("app.db", "postgresql://u:p@h/x")
    (stage.folder / "reconcile.toml").write_text(text + 'progress_deadlin = "1m"\n')


def no_config(stage: Stage) -> None:
    (stage.folder / "reconcile.toml").unlink()


def fails_for_good(stage: Stage) -> None:
    tonight(stage)
    change_config("range_size = 8", "range_size = 8\nmax_attempts = 1")(stage)
    cut_export(stage)


def tonight_paused(stage: Stage) -> None:
    """Paused before the night of the 30th came due."""
    job(stage)
    change_config("start = 2026-11-27", "start = 2026-11-29")(stage)
    stage.day(29, 2, 30)
    ran(*RUN)(stage)
    ran("pause", "entitlements", "--until", "2026-12-01T05:00Z", "-m", "disk swap, OPS-77")(stage)
    stage.day(30)


def paused_before(stage: Stage) -> None:
    """Three nights fell into a pause."""
    job(stage)
    change_config("start = 2026-11-27", "start = 2026-11-27\ncatch_up.policy = 'all'")(stage)
    ran(*RUN)(stage)
    ran("pause", "entitlements", "-m", "disk swap, OPS-77")(stage)
    stage.day(30, 9, 0)


def rated(stage: Stage) -> None:
    """Four nights are owed, and two an hour may be begun late."""
    job(stage)
    change_config("range_size = 8", 'range_size = 8\ncatch_up.rate = "2/h"')(stage)
    stage.day(30)


def blocking(stage: Stage) -> None:
    """The night of the 28th fails for good, and holds up the two after it."""
    job(stage)
    change_config(
        "start = 2026-11-27", 'start = 2026-11-28\nmax_attempts = 1\non_failed = "block"'
    )(stage)
    path = stage.folder / "exports/2026-11-28.csv"
    path.write_text(path.read_text()[:-9])
    stage.day(30)


def filling(stage: Stage) -> None:
    """Three old nights are to be filled in, two an hour, before the first that is due."""
    job(stage)
    change_config("start = 2026-11-27", "start = 2026-12-05")(stage)
    stage.day(30, 9, 0)


def filled_partly(stage: Stage) -> None:
    """Two of three old nights are done, and the third waits for the rate."""
    filling(stage)
    asked = ("backfill", "entitlements", *SPAN, "--rate", "2/h", "-m", "new column, OPS-9")
    stage.elsewhere(stop=NoSignal("SIGINT"))(*asked)
    ran(*RUN)(stage)


SPAN = ("--from", "2026-11-27", "--to", "2026-11-29")
THIS = "{hash}"
"""Stands for the hash of the plan that waits."""
WHY = ("-m", "cancelled plans, OPS-12")


def kept(stage: Stage, keep: str = "2d") -> None:
    """Three nights are on record, and no more than that is kept."""
    history(stage)
    begin = "[jobs.entitlements]\nschedule"
    change_config(begin, f'[store]\nkeep = "{keep}"\n\n{begin}')(stage)


def aged(stage: Stage) -> None:
    """Two of three nights are older than what is kept."""
    kept(stage)
    stage.clock.advance(6 * 3600)


IN_THE_MIDDLE = ("range_committed", 2)
ONE = ("entitlements", TONIGHT)
APPROVE = ("resume", *ONE, "--approve", THIS)
ANOTHER = {"holder": OTHER, "dead": frozenset({"one"})}
"""Another process, that finds the first one dead."""

SCENES = [
    Scene("init", ("init",)),
    Scene("init-demo", ("init", "--demo")),
    Scene("init-again", ("init",), (job,)),
    Scene("run-dry", (*RUN, "--dry-run"), (tonight,)),
    Scene("run-dry-guard", (*RUN, "--dry-run"), (tonight, export(FEW))),
    Scene("run-dry-quarantine", (*RUN, "--dry-run"), (tonight, contradicting)),
    Scene("run-completed", RUN, (tonight,)),
    Scene("run-several-nights", RUN, (job, later(29, 2, 30))),
    Scene("run-nothing-due", RUN, (tonight_done,)),
    Scene("run-new", RUN, (job, change_config("start = 2026-11-27\n", ""), later(29, 10, 8))),
    Scene("run-by-name-done", (*RUN, "--interval", TONIGHT), (tonight_done,)),
    Scene("run-by-name-wrong", (*RUN, "--interval", "2026-11-30T03:00Z"), (tonight_done,)),
    Scene("run-busy", RUN, (tonight,), around=IN_THE_MIDDLE),
    Scene("run-busy-late", RUN, (late,), around=("range_committed", 1), before=much_later),
    Scene("run-busy-planning", RUN, (known,), around=("checkpoint_saved", 2)),
    Scene("run-wait-in-vain", (*RUN, "--wait", "10m"), (tonight,), around=IN_THE_MIDDLE),
    Scene("run-needs-approval", RUN, (tonight, export(FEW))),
    Scene("run-still-needs-approval", RUN, (tonight_waits,)),
    Scene("run-needs-approval-empty", RUN, (tonight, export([]))),
    Scene("run-needs-approval-updates", RUN, (tonight, export(RAISED))),
    Scene("run-needs-approval-few", RUN, (tonight, guarded("min_rows = 1000"))),
    Scene(
        "run-needs-approval-lacks",
        RUN,
        (tonight, guarded('must_contain = ["acct-0001", "root", "svc-backup"]')),
    ),
    Scene("run-needs-approval-day", RUN, (two_nights,)),
    Scene("status-job-given-up", ("status", "entitlements"), (given_up_partly,)),
    Scene("run-source-missing", RUN, (tonight, no_export)),
    Scene("run-source-cut", RUN, (tonight, cut_export)),
    Scene("run-waits-to-retry", RUN, (tonight, cut_export, ran(*RUN, code=65), later(30, 2, 32))),
    Scene("run-failed-for-good", RUN, (fails_for_good,)),
    Scene("run-overtaken", RUN, (only_tonight,)),
    Scene("status-overtaken", ("status",), (only_tonight, ran(*RUN, code=69))),
    Scene("status-job-overtaken", ("status", "entitlements"), (only_tonight, ran(*RUN, code=69))),
    Scene("run-incomplete", RUN, (tonight, contradicting)),
    Scene("run-interrupted", RUN, (tonight,), hooks={IN_THE_MIDDLE: signal("SIGINT")}),
    Scene("run-interrupted-plan", RUN, (tonight,), hooks={("range_planned", 2): signal("SIGTERM")}),
    Scene("run-out-of-time", (*RUN, "--max-runtime", "6s"), (tonight,)),
    Scene("run-fenced-out", RUN, (tonight,), hooks={("range_committed", 1): taken_over}),
    Scene("run-forced-out", RUN, (tonight,), hooks={("range_committed", 1): forced_out}),
    Scene(
        "run-resumed",
        RUN,
        (tonight, killed("range_committed", 3), later(30, 2, 40)),
        change=ANOTHER,
    ),
    Scene(
        "resume",
        ("resume", "entitlements"),
        (tonight, killed("range_committed", 3), later(30, 2, 40)),
        change=ANOTHER,
    ),
    Scene("resume-nothing", ("resume",), (tonight_done,)),
    Scene("approve", (*APPROVE, *WHY), (tonight_waits,)),
    Scene("approve-other", (*APPROVE[:-1], "4e1f9c2ab0d3", *WHY), (tonight_waits,)),
    Scene("approve-too-late", (*APPROVE, *WHY), (tonight_waits, export(FEWER))),
    Scene(
        "approve-planned-anew",
        (*APPROVE, *WHY),
        (tonight_waits, export(FEWER), ran(*RUN, code=4), later(30, 2, 50)),
    ),
    Scene("approve-unsigned", APPROVE, (tonight_waits,), change={"typed": "\n"}),
    Scene("status", ("status",), (history,)),
    Scene("status-new", ("status",), (tonight,)),
    Scene("status-waits", ("status",), (tonight_waits,)),
    Scene("status-running", ("status",), (tonight,), around=IN_THE_MIDDLE),
    Scene("status-failed", ("status",), (failed, later(30, 2, 32))),
    Scene("status-failed-later", ("status",), (failed, later(30, 5, 0))),
    Scene("status-overdue", ("status",), (failed, later(30, 20, 0))),
    Scene("status-given-up", ("status",), (fails_for_good, ran(*RUN, code=65), later(30, 5, 0))),
    Scene("status-job-overdue", ("status", "entitlements"), (failed, later(30, 20, 0))),
    Scene("status-job", ("status", "entitlements"), (history,)),
    Scene("status-job-waits", ("status", "entitlements"), (tonight_waits,)),
    Scene("status-job-running", ("status", "entitlements"), (tonight,), around=IN_THE_MIDDLE),
    Scene("status-interval", ("status", "entitlements", "2026-11-27"), (history,)),
    Scene("status-interval-rerun", ("status", "entitlements", "2026-11-29"), (history,)),
    Scene("status-interval-waits", ("status", *ONE), (tonight_waits,)),
    Scene(
        "status-interval-incomplete", ("status", *ONE), (tonight, contradicting, ran(*RUN, code=3))
    ),
    Scene("prune", ("prune",), (aged,)),
    Scene("prune-dry", ("prune", "--dry-run"), (aged,)),
    Scene("status-pruned", ("status", "entitlements", "2026-11-27"), (aged, ran("prune"))),
    Scene("rerun", ("rerun", *ONE, "-m", "app.db was restored, OPS-77"), (tonight_done,)),
    Scene("rerun-unfinished", ("rerun", *ONE, *WHY), (tonight_waits,)),
    Scene("rerun-busy", ("rerun", *ONE, *WHY), (tonight,), around=IN_THE_MIDDLE),
    Scene("rerun-old", ("rerun", "entitlements", "2026-11-27", *WHY), (history,)),
    Scene("skip", ("skip", *ONE, "-m", "wrong export, OPS-12"), (tonight_waits,)),
    Scene(
        "skip-partly",
        ("skip", *ONE, *WHY),
        (tonight, killed("range_committed", 3)),
        change=ANOTHER,
    ),
    Scene("skip-done", ("skip", *ONE, *WHY), (tonight_done,)),
    Scene(
        "backfill-dry",
        ("backfill", "entitlements", *SPAN, "--rate", "2/h", "--dry-run"),
        (filling,),
    ),
    Scene("backfill", ("backfill", "entitlements", *SPAN, *WHY), (filling,)),
    Scene("backfill-cancel", ("backfill", "entitlements", "--cancel", *WHY), (filled_partly,)),
    Scene("run-backfill-waits", RUN, (filled_partly,)),
    Scene("status-job-backfill", ("status", "entitlements"), (filled_partly,)),
    Scene("stop-nobody", ("stop", "entitlements", *WHY), (tonight_done,)),
    Scene("run-waits-for-rate", RUN, (rated, ran(*RUN, "--max-runtime", "30s"))),
    Scene("run-blocked", RUN, (blocking, ran(*RUN, code=65), export(SHOULD), later(30, 5, 0))),
    Scene("status-blocked", ("status",), (blocking, ran(*RUN, code=65), later(30, 5, 0))),
    Scene("pause", ("pause", "entitlements", "--until", "05:00Z", *WHY), (tonight_done,)),
    Scene(
        "pause-stop",
        ("pause", "entitlements", "--stop", *WHY),
        (tonight, change_config('ttl = "6h"', 'ttl = "10m"')),  # so long it waits, poll by poll
        around=IN_THE_MIDDLE,
    ),
    Scene("run-paused", RUN, (tonight, ran("pause", "entitlements", *WHY))),
    Scene("status-paused", ("status",), (tonight_paused,)),
    Scene("status-job-paused", ("status", "entitlements"), (paused_before,)),
    Scene("unpause", ("unpause", "entitlements", *WHY), (paused_before,)),
    Scene("unpause-nothing", ("unpause", "entitlements", *WHY), (tonight_done,)),
    Scene(
        "stop-asked", ("stop", "entitlements", "--no-wait", *WHY), (tonight,), around=IN_THE_MIDDLE
    ),
    Scene(
        "stop-force", ("stop", "entitlements", "--force", *WHY), (tonight,), around=IN_THE_MIDDLE
    ),
    Scene("changes", ("changes", "entitlements"), (tonight_done,)),
    Scene(
        "changes-account", ("changes", "entitlements", "--account", "acct-0012"), (tonight_done,)
    ),
    Scene("changes-planned", ("changes", *ONE, "--planned"), (tonight_waits,)),
    Scene("config", ("config",), (tonight,)),
    Scene("config-wrong", ("config",), (broken_config,)),
    Scene("config-missing", RUN, (tonight, no_config)),
    Scene("unknown-job", ("run", "entitlement"), (tonight,)),
    Scene("unknown-command", ("rnu", "entitlements"), (tonight,)),
    Scene("no-job-named", ("run",), (tonight,)),
    Scene("no-command", ()),
]
