from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.core.config import CommandConfig, Job
from reconcile.core.errors import ConfigError
from reconcile.core.model import Interval
from reconcile.core.placeholders import fill_words
from reconcile.core.toml import parse
from reconcile.core.toml_values import show_duration

MAIN = Path("/srv/rec/reconcile.toml")
NIGHT = Interval("j", datetime(2026, 11, 30, 2, 30, tzinfo=UTC), "2026-11-30")


def job(text: str, environ: dict[str, str] | None = None) -> Job:
    whole = f'[jobs.j]\nschedule = "30 2 * * *"\n{text}'
    return parse([(MAIN, whole)], environ or {}, cwd=MAIN.parent).jobs["j"]


def command(text: str, environ: dict[str, str] | None = None) -> CommandConfig:
    work = job(text, environ).work
    assert isinstance(work, CommandConfig)
    return work


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        job(text)
    assert refused.value.hint
    return f"{refused.value}\n  {refused.value.hint}"


def test_a_text_is_split_as_a_shell_splits_it_and_a_list_stands_as_it_is() -> None:
    assert command("""command = '/bin/b.sh --to "a b" c\\ d'""").command == (
        "/bin/b.sh",
        "--to",
        "a b",
        "c d",
    )
    line = 'command = ["sh", "-c", "a | b; ${X} $(c) *"]'
    assert command(line).command == ("sh", "-c", "a | b; ${X} $(c) *")


def test_what_is_left_out_has_its_default() -> None:
    work = command('command = "b"')
    assert (work.cwd, work.env, work.env_file, work.ranges) == ("/srv/rec", {}, None, None)
    assert show_duration(work.kill_after) == "10s"
    assert job('command = "b"').catch_up_policy == "latest"


def test_every_key_of_a_command_can_be_written_and_paths_are_those_of_the_file() -> None:
    more = 'cwd = "w"\nenv = { A = "${X}y", B = "" }\nenv_file = "e"\nkill_after = "3s"\nranges = 4'
    work = command(f'command = "b"\n{more}', {"X": "x"})
    assert work == CommandConfig(
        ("b",), "/srv/rec/w", {"A": "xy", "B": ""}, "/srv/rec/e", timedelta(seconds=3), 4
    )


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("a | b", 'a "|"'),
        ("a && b", 'a "&"'),
        ("a; b", 'a ";"'),
        ("a > b", 'a ">"'),
        ("a < b", 'a "<"'),
        ("(a)", 'a "("'),
        ("a `b`", 'a "`"'),
        ("a $HOME", "a variable ($…)"),
        ("a ${HOME}", "a variable ($…)"),
        ('a "$HOME"', "a variable ($…)"),
        ("a $(b)", "$(…)"),
        ("a *.csv", 'a "*"'),
        ("a file?", 'a "?"'),
        ("a [0-9]", "a pattern ([…])"),
        ("a ~/b", 'a "~"'),
        ("a # b", 'a "#"'),
        ("a\nb", "a line break"),
    ],
)
def test_what_needs_a_shell_is_refused_and_one_is_named(line: str, named: str) -> None:
    quoted = line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    told = refusal(f'command = "{quoted}"')
    assert f"line 3: jobs.j.command: {named} needs a shell" in told
    assert 'write command = ["sh", "-c", ' in told


@pytest.mark.parametrize("line", ["a '|' b", "a '$HOME' x$", "a \\| \\$X", 'a "*" ";"', "a#b c=d"])
def test_what_is_quoted_needs_none(line: str) -> None:
    quoted = line.replace("\\", "\\\\").replace('"', '\\"')
    assert command(f'command = "{quoted}"').command == tuple(shlex.split(line))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('command = ""', "command: names no program"),
        ("command = []", "command: names no program"),
        ("command = 3", "command: is neither a text nor a list of texts"),
        ('command = ["a", 3]', "command: is neither a text nor a list of texts"),
        ('command = "a \'b"', "command: cannot be split into words: no closing quotation"),
        ('command = "A=1 b"', "command: begins with a variable"),
        ('command = ["a\\u0000"]', "command: has a NUL"),
        ('command = "a {date:%q}"', "command: {date:%q} has an unknown strftime mark"),
        ('command = "a"\nranges = 0', "ranges: is 0"),
        (
            'command = "a"\nenv = { RECONCILE_JOB = "x" }',
            "env.RECONCILE_JOB: is one that",
        ),
        ('command = "a"\nenv = { "a b" = "x" }', 'env."a b": cannot be the name of a variable'),
        ('command = "a"\ntarget = "app.db"', "target: stands beside a command"),
        ('command = "a"\nrange_size = 5', "range_size: means nothing for a command"),
        ('command = "a"\nguards = {}', "guards: means nothing for a command"),
        ('command = "a"\nkill_afer = "5s"', "kill_afer: no such key\n  did you mean kill_after?"),
        ('source = "a.csv"\ntarget = "a.db"\nranges = 3', "ranges: is for a job with a command"),
    ],
)
def test_what_cannot_work_is_refused_with_key_and_mend(text: str, says: str) -> None:
    assert says in refusal(text)


def test_words_are_filled_in_for_the_interval_and_other_braces_stay() -> None:
    words = ["{date}", "{yesterday:%d}/{interval}", '{"a": {}}', "{x}", "${Y}", "{dates}"]
    assert fill_words(words, NIGHT) == ["2026-11-30", "29/2026-11-30", *words[2:]]


def test_a_command_whose_words_name_the_interval_is_for_each_of_them() -> None:
    dated, plain = job('command = "usage {date}"'), job('command = "usage {x}"')
    assert (dated.catch_up_policy, plain.catch_up_policy) == ("all", "latest")
    assert not dated.work.overtakes


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=1))
def test_words_that_were_quoted_for_a_shell_come_back(words: list[str]) -> None:
    line = shlex.join(["program", *words])
    if "{" not in line and len(line) < 1000:
        toml = '"' + line.replace("\\", "\\\\").replace('"', '\\"').replace("\x7f", "") + '"'
        expected = tuple(shlex.split(line.replace("\x7f", "")))
        assert command(f"command = {toml}").command == expected
