"""A Python function is a job like any other: called, heard, stopped, killed, gone on with."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import Heard, run, spec_of, supervised, wait_for
from support.scene import Scene

from reconcile.core.work.commands.functions import REFUSED, SAYS, call_of
from reconcile.core.work.commands.supervision import Spec
from reconcile.core.work.commands.supervision.supervisor import processes

EXAMPLES = Path(__file__).parents[2] / "examples"
TOLD = {
    "RECONCILE_JOB": "nightly",
    "RECONCILE_INTERVAL": "2026-11-30",
    "RECONCILE_SCHEDULED_AT": "2026-11-30T02:30:00Z",
    "RECONCILE_RUN_ID": "run",
    "RECONCILE_TRIGGER": "resume",
    "RECONCILE_GENERATION": "7",
    "RECONCILE_CURSOR": '{"at": [1, null]}',
    "RECONCILE_RANGE": "2",
    "RECONCILE_RANGES": "3",
}


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., Spec]:
    """What calls `job:work` of that text, with these files beside it."""

    def made(text: str, function: str = "job:work", **beside: str) -> Spec:
        for name, content in {"job": text, **beside}.items():
            (tmp_path / f"{name}.py").write_text(content)
        env = {"PYTHONDONTWRITEBYTECODE": "1", **TOLD}
        return spec_of(*call_of(function), cwd=tmp_path, env=env)

    return made


def said(heard: Heard) -> list[object]:
    """The lines of progress that say more than that it goes on."""
    lines = [json.loads(line.data) for line in heard.lines]
    return [line for line in lines if line != {"progress": True}]


def test_it_is_told_what_it_is_called_for(call: Callable[..., Spec]) -> None:
    text = "def work(context):\n    print(context)\n    yield {'cursor': context.cursor}\n"
    ended, heard = run(call(text))
    assert ended.status == 0
    assert heard.output.decode() == (
        "RunContext(job='nightly', interval='2026-11-30', scheduled_at=datetime.datetime("
        "2026, 11, 30, 2, 30, tzinfo=datetime.timezone.utc), run_id='run', trigger='resume',"
        " generation=7, cursor={'at': [1, None]}, range=2, ranges=3)\n"
    )
    assert said(heard) == [{"cursor": {"at": [1, None]}}]


def test_modules_beside_it_are_its_own_and_nobody_elses(call: Callable[..., Spec]) -> None:
    """Those that have the names of ours, of the library's and of what writes tracebacks."""
    names = ["core", "cli", "stores", "json", "inspect", "ast", "signal", "linecache", "traceback"]
    text = f"import {', '.join(names)}\nfrom reconcile import RunContext\n"
    text += "def work(context: RunContext):\n    yield {'count': 1}\n"
    text += "    assert isinstance(context, RunContext)\n"
    text += f"    print({', '.join(f'{name}.mine' for name in names)})\n"
    text += "    print([0][7] + 1)  # of which a traceback shows the part\n"
    ended, heard = run(call(text, **{name: f"mine = {name!r}" for name in names}))
    lines = heard.output.decode().splitlines()
    assert lines[0] == " ".join(names)
    assert (ended.status, lines[-1]) == (1, "IndexError: list index out of range")
    assert said(heard) == [{"count": 1}]


def test_a_traceback_begins_with_its_own_code(call: Callable[..., Spec], tmp_path: Path) -> None:
    text = "def row():\n    raise KeyError('acct')\ndef work(context):\n    yield\n    row()\n"
    ended, heard = run(call(text))
    assert ended.status == 1
    told = heard.output.decode()
    assert told.count("File") == 2
    assert told.startswith(
        "Traceback (most recent call last):\n"
        f'  File "{tmp_path}/job.py", line 5, in work\n    row()\n'
    )


@pytest.mark.parametrize(
    ("text", "function", "refusal"),
    [
        ("", "nowhere:work", "there is no module nowhere in FOLDER, and none is installed"),
        ("", "job:work", "job has no function work"),
        ("work = 3", "job:work", "job:work is no function"),
        (
            "def work(c): return [1]",
            "job:work",
            "job:work is no generator: there is no yield in it",
        ),
        ("async def work(c): yield", "job:work", "job:work is asynchronous: it has to be a plain"),
        ("def work(): yield", "job:work", "job:work has to take one argument, the RunContext"),
        ("import functools\nwork = functools.partial(id)", "job:work", "job:work returned"),
        ("work = iter", "job:work", "job:work is no generator that takes the RunContext"),
        ("def work(c): yield 3", "job:work", "job:work yielded 3, which is no checkpoint: yield a"),
        ("def work(c): yield {}", "job:work", "job:work yielded {}, which is no checkpoint"),
        (
            "def work(c): yield {'curser': 3}",
            "job:work",
            "job:work yielded a checkpoint with 'curser' in it",
        ),
        ("def work(c): yield {'cursor': {3}}", "job:work", "a checkpoint that was yielded is no"),
        ("def work(c): yield {'cursor': 1e999}", "job:work", "a checkpoint that was yielded is no"),
    ],
)
def test_what_is_no_work_is_said_in_one_line(
    call: Callable[..., Spec], tmp_path: Path, text: str, function: str, refusal: str
) -> None:
    ended, heard = run(call(text, function))
    told = heard.output.decode()
    assert told.startswith(SAYS + refusal.replace("FOLDER", str(tmp_path))), told
    assert (told.count("\n"), ended.status) == (1, REFUSED)


def test_an_import_that_fails_in_it_is_its_own_fault(call: Callable[..., Spec]) -> None:
    ended, heard = run(call("import nowhere_at_all"))
    assert ended.status == 1
    assert heard.output.decode().splitlines()[-1] == (
        "ModuleNotFoundError: No module named 'nowhere_at_all'"
    )


def test_told_to_stop_it_is_closed_at_its_next_yield(call: Callable[..., Spec]) -> None:
    text = (
        "import time\n"
        "def work(context):\n"
        "    try:\n"
        "        print('up')\n"
        "        while not context.is_stopping:\n"
        "            time.sleep(0.01)\n"
        "        yield {'cursor': 1}\n"
        "        print('never')\n"
        "    finally:\n"
        "        print('closed')\n"
    )
    heard = Heard()
    with supervised(call(text)) as command:
        heard.listen(command, lambda heard: heard.output == b"up\n")
        command.terminate()
        heard.listen(command, lambda heard: False)
    assert heard.output == b"up\nclosed\n"
    assert said(heard) == [{"cursor": 1}]
    assert heard.ended is not None
    assert heard.ended.status == 128 + signal.SIGTERM


# --- as a job


class FunctionScene(Scene):
    """One folder with a job `nightly` on demand, whose function is `job:work`."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        config = '[jobs.nightly]\npython = "job:work"\n[jobs.nightly.lease]\nttl = "30s"\n'
        (self.folder / "reconcile.toml").write_text(config)
        (self.folder / "job.py").write_text(self.extra)

    def lines(self, name: str) -> list[str]:
        """The whole lines of a file that the function writes."""
        path = self.folder / name
        return path.read_text().split("\n")[:-1] if path.exists() else []


def test_killed_twice_the_example_does_each_step_and_repeats_at_most_one_for_each_kill(
    tmp_path: Path,
) -> None:
    text = (EXAMPLES / "function_steps.py").read_text().replace("1000", "60")
    scene = FunctionScene(tmp_path / "job", extra=text)
    for reached in (10, 30):
        process = scene.start_process("run", "nightly")
        wait_for(lambda reached=reached: len(scene.lines("done")) >= reached, "that step")
        kill(process)
    ended = scene.run("run", "nightly")
    assert ended.code == 0, ended.err
    steps = [int(line.split()[0]) for line in scene.lines("done")]
    assert sorted(set(steps)) == list(range(1, 61))
    assert len(steps) <= 60 + 2
    (interval,) = scene.run("status", "nightly", "--json").json()["intervals"]
    assert (interval["state"], interval["count"], interval["runs"]) == ("completed", 60, 3)


def test_what_was_yielded_is_durable_when_it_goes_on(tmp_path: Path) -> None:
    text = (
        "def work(context):\n"
        "    for step in range(1, 1000000):\n"
        "        yield {'cursor': step}\n"
        "        with open('gone_on', 'a') as file:\n"
        "            file.write(f'{step}\\n')\n"
    )
    scene = FunctionScene(tmp_path / "job", extra=text)
    process = scene.start_process("run", "nightly")
    wait_for(lambda: len(scene.lines("gone_on")) > 20, "some steps")
    kill(process)
    last = int(scene.lines("gone_on")[-1])
    query = "SELECT json_extract(value, '$.cursor.cursor') FROM record WHERE kind = 'interval'"
    ((cursor,),) = scene.ask(scene.store, query)
    assert int(cursor) >= last


def kill(process: subprocess.Popen[str]) -> None:
    """Kill it, and wait until its supervisor and the function are gone as well."""
    family = {(one.pid, one.started) for one in processes.descendants(process.pid)}
    assert len(family) == 2
    process.kill()
    process.communicate()

    def living() -> set[tuple[int, int]]:
        return {(one.pid, one.started) for one in processes.everyone() if not one.has_ended}

    wait_for(lambda: not family & living(), "the end of the function")


def test_what_it_raises_is_why_its_run_failed(tmp_path: Path) -> None:
    text = "def work(c):\n    yield\n    raise ValueError('bad row')\n"
    ended = FunctionScene(tmp_path / "raises", extra=text).run("run", "nightly")
    assert ended.code == 1
    assert "job:work raised ValueError: bad row" in ended.err
    text = "def work(c):\n    return 3\n"
    ended = FunctionScene(tmp_path / "returns", extra=text).run("run", "nightly")
    assert ended.code == 78
    assert "job:work is no generator" in ended.err
