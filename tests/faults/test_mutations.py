"""Files that something was done to: whatever comes, it is one of the documented ends.

Source, configuration, store and target are mutated at random, in all the ways that disks,
copies and editors know. Never is the answer a defect of ours (70) or a traceback; never is
anything revoked because of a file that can be seen to be incomplete.

The suite runs the same few examples each time; `RECONCILE_TEST_LONG=1` searches for new ones.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bad_inputs import (
    AFTER,
    CONFIG,
    DUE,
    Night,
    Ticking,
    completed_night,
    copied,
    opened,
)
from support.cli import Cli, Shown
from support.mutations import VALUES, Mutation, mutated, mutations

from reconcile.cli.exit_codes import ExitCode
from reconcile.cli.render.watcher import AnyWatcher
from reconcile.core.toml_defaults import defaults

LONG = bool(os.environ.get("RECONCILE_TEST_LONG"))
few = settings(max_examples=2000 if LONG else 25, derandomize=not LONG, database=None)
pytestmark = pytest.mark.timeout(3600 if LONG else 120)

QUIET = (ExitCode.OK, ExitCode.BUSY)
DOCUMENTED = {int(code) for code in ExitCode} - {ExitCode.BUG}


class Nights(dict[str, Night]):
    """By the step at which they were killed."""

    def __repr__(self) -> str:
        return "nights"


Rows = list[tuple[str, ...]]


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    """The night that is due: not begun, and killed at some step."""
    with pytest.MonkeyPatch.context() as patch:
        made = completed_night(Cli(tmp_path_factory.mktemp("due"), patch))
        made.add("range_size = 5")
        found = Nights(due=made)
        for step in ("checkpoint_saved", "range_committed"):
            killed = copied(made, tmp_path_factory.mktemp(step))
            with patch.context() as inner:
                inner.setattr(AnyWatcher, "reached", _killing(step))
                assert killed.run().code == 130
            found[step] = killed
        yield found


def _killing(step: str) -> Any:
    def reached(self: Any, name: str) -> None:
        if name == step:
            raise KeyboardInterrupt

    return reached


@contextmanager
def fresh(night: Night) -> Iterator[Night]:
    """A copy to do something to; its clock goes on, so that nobody waits for ever."""
    with tempfile.TemporaryDirectory() as name:
        made = copied(night, Path(name))
        made.cli.clock = Ticking()
        made.cli.clock.advance(600)  # whoever was killed has no lease any more
        yield made


def told(night: Night, *argv: str) -> Shown:
    """What a command says; checked for what holds of every one."""
    shown = night.cli(*(argv or night.argv))
    assert shown.code in DOCUMENTED, str(shown)
    assert "Traceback" not in shown.words
    return shown


def one_message(night: Night) -> Shown:
    """What a run says, as cron mails it: nothing where all is well, else one message for each
    night (one that was done may have to be looked at again) or problem of a configuration."""
    shown = told(night, "-q", *night.argv)
    messages = [line for line in shown.words.splitlines() if line and line[0] != " "]
    assert bool(messages) == (shown.code not in QUIET), str(shown)
    if shown.code != ExitCode.CONFIGURATION:
        about = [message.partition(" failed")[0] for message in messages]
        assert len(about) == len(set(about)), str(shown)
        assert len(about) <= 2
    return shown


def rows(path: Path) -> Rows:
    with opened(path) as db:
        return db.execute("SELECT * FROM entitlements ORDER BY 1, 2").fetchall()


def logged(path: Path) -> Rows:
    with opened(path) as db:
        query = f"SELECT action, \"key\" FROM reconcile_changes WHERE interval = '{DUE}'"
        return db.execute(query).fetchall()


def read(text: str) -> Rows:
    """A table of CSV, read by other means."""
    found = csv.reader(io.StringIO(text, newline=""), strict=True)
    head, *records = [record for record in found if record]
    at = [head.index(name) for name in ("account_id", "entitlement", "level")]
    return sorted({tuple(record[i] for i in at) for record in records})


TRUTH = read(AFTER)


def is_incomplete(content: bytes) -> bool:
    """Whether anybody can see that something is missing at the end."""
    return not content.endswith(b"\n") or bool(content.count(b'"') % 2)


@few
@given(how=mutations())
def test_a_damaged_csv_file_is_refused_or_is_another_truth(
    nights: Nights, how: list[Mutation]
) -> None:
    content = mutated(AFTER.encode(), how)
    with fresh(nights["due"]) as night:
        night.source.write_bytes(content)
        before = rows(night.target)
        shown = one_message(night)
        after = rows(night.target)
        if shown.code == 0:
            assert not is_incomplete(content)
            assert after == read(content.decode("utf-8-sig"))
        elif shown.code != 3:
            assert after == before, "nothing changes unless the night is completed"
        if is_incomplete(content):
            assert after == before


@few
@given(how=mutations())
def test_a_damaged_gzip_file_is_refused_or_is_the_truth(
    nights: Nights, how: list[Mutation]
) -> None:
    with fresh(nights["due"]) as night:
        night.configure("{date}.csv", "{date}.csv.gz")
        packed = mutated(gzip.compress(AFTER.encode(), mtime=0), how)
        night.source.with_suffix(".csv.gz").write_bytes(packed)
        before = rows(night.target)
        if one_message(night).code == 0:
            assert rows(night.target) == TRUTH
        else:
            assert rows(night.target) == before


@few
@given(how=mutations(), state=st.sampled_from(["due", "checkpoint_saved", "range_committed"]))
def test_a_damaged_store_is_refused_or_does_no_harm(
    nights: Nights, how: list[Mutation], state: str
) -> None:
    with fresh(nights[state]) as night:
        night.store.write_bytes(mutated(night.store.read_bytes(), how))
        for argv in (("status",), ("status", "entitlements", DUE), ("changes", "entitlements")):
            told(night, *argv)
        before = rows(night.target)
        shown = one_message(night)
        after = rows(night.target)
        if shown.code == 0:
            assert after == TRUTH
        assert set(after) <= set(before) | set(TRUTH)
        assert set(after) >= set(before) & set(TRUTH)
        log = logged(night.target)
        assert len(log) == len(set(log)), "no change twice"


@few
@given(how=mutations(), state=st.sampled_from(["due", "range_committed"]))
def test_a_damaged_target_is_refused_in_words(
    nights: Nights, how: list[Mutation], state: str
) -> None:
    with fresh(nights[state]) as night:
        night.target.write_bytes(mutated(night.target.read_bytes(), how))
        one_message(night)
        told(night, "changes", "entitlements")


@few
@given(how=mutations())
def test_a_damaged_configuration_is_refused_in_words(nights: Nights, how: list[Mutation]) -> None:
    with fresh(nights["due"]) as night:
        night.config.write_bytes(mutated(CONFIG.encode(), how))
        night.argv = ("run", "entitlements", "--interval", DUE, "--dry-run")
        before = rows(night.target)
        one_message(night)
        assert rows(night.target) == before


KEYS = sorted({*defaults(), "source", "target", "source.path", "target.url", "nonsense", "guards"})


@few
@given(values=st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=4))
def test_any_value_of_any_key_is_taken_or_refused_in_words(
    nights: Nights, values: dict[str, str]
) -> None:
    with fresh(nights["due"]) as night:
        given = {"schedule": '"30 2 * * *"', "source.path": '"exports/{date}.csv"'}
        given |= {"target.url": '"app.db"', **values}
        lines = [f"{'' if key.startswith('store') else 'jobs.entitlements.'}{key}" for key in given]
        texts = [f"{key} = {value}" for key, value in zip(lines, given.values(), strict=True)]
        night.config.write_text("\n".join(texts) + "\n", encoding="utf-8")
        before = rows(night.target)
        night.argv = ("run", "entitlements", "--interval", DUE, "--dry-run")
        assert one_message(night).code in {0, 1, 2, 3, 4, 65, 69, 77, 78}
        for argv in (("status",), ("status", "entitlements"), ("config",)):
            told(night, *argv)
        assert rows(night.target) == before
