"""Every screen of the main job, kept as text: to a terminal, a pipe, cron, the journal and a
program. A changed screen is looked at, then written anew: RECONCILE_TEST_UPDATE_SCREENS=1."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.scenes import RUN, SCENES, THIS, Scene, late
from support.screens import EYES, OTHER, TERMINAL, Eye, Keep, Screen, Stage, new_folder, settled

KEPT = Path(__file__).with_name("screens")
UPDATE = os.environ.get("RECONCILE_TEST_UPDATE_SCREENS") == "1"
UNDER_WAY = "run-under-way"
WIDTH = 80
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    folder = new_folder()
    yield Stage(folder, monkeypatch)
    shutil.rmtree(folder)


def look(scene: Scene, stage: Stage) -> Screen:
    """What the scene's command shows."""
    argv = [stage.kept if word == THIS else word for word in scene.argv]
    for name, value in scene.change.items():
        setattr(stage, name, value)
    stage.hooks = scene.hooks
    if scene.around is None:
        return stage(*argv)
    shown = []

    def meanwhile(other: Stage) -> None:
        del other
        scene.before(stage)
        shown.append(stage(*argv))
        raise KeyboardInterrupt

    other = stage.elsewhere(holder=OTHER, hooks={scene.around: meanwhile})
    other(*RUN)
    return shown[0]


def screens(scene: Scene, stage: Stage, copy: Path) -> dict[str, Screen]:
    """The scene as every eye sees it."""
    for step in scene.prepare:
        step(stage)
    keep = Keep.of(stage, copy)
    return {eye.name: look(scene, keep.again(eye)) for eye in EYES}


def kept_as(shown: dict[str, Screen]) -> str:
    """One text of all eyes; what looks as another does is said so."""
    parts, before = [], {}
    for name, screen in shown.items():
        text = str(screen)
        same = before.setdefault(text.partition("\n")[2], name)
        parts.append(f"--- {name}\n{text}" if same == name else f"--- {name}: as {same}\n")
    return "\n".join(parts)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_screen_is_as_it_was_looked_at(scene: Scene, stage: Stage, tmp_path: Path) -> None:
    shown = screens(scene, stage, tmp_path / "copy")
    text = kept_as(shown)
    is_kept(text, scene.name)
    assert len({screen.code for screen in shown.values()}) == 1
    for eye in EYES:
        fits(eye, shown[eye.name])


def is_kept(text: str, name: str) -> None:
    """Compare with what is kept under the name, or keep it."""
    path = KEPT / f"{name}.txt"
    if UPDATE:
        KEPT.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def fits(eye: Eye, screen: Screen) -> None:
    """A line on a terminal is no longer than it is wide, but for commands to copy; without
    colour there are no escape codes; what a program reads is one object, or one a line."""
    words, data = settled(screen.words), settled(screen.data)
    if eye.terminal:
        for line in [*words.splitlines(), *data.splitlines()]:
            shown = _COLOUR.sub("", line)
            assert len(shown) <= WIDTH or is_to_be_copied(shown), shown
    if eye != TERMINAL:
        assert "\x1b" not in words + data
    if eye.options == ("--json",):
        assert all(isinstance(json.loads(line), dict) for line in screen.data.splitlines())


def is_to_be_copied(line: str) -> bool:
    """A command, alone on its line or after its label; or a line of tab-separated data."""
    return "reconcile " in line or "\t" in line


def test_every_scene_is_kept_and_nothing_else() -> None:
    names = {scene.name for scene in SCENES} | {UNDER_WAY}
    assert {path.stem for path in KEPT.glob("*.txt")} == names


def test_the_bar_while_a_night_is_worked(stage: Stage) -> None:
    late(stage)
    assert stage.elsewhere()(*RUN).code == 0
    stage.day(30)
    drawn: list[str] = []

    def look_up(other: Stage) -> None:
        drawn.append(settled(other.named(other.seen.getvalue())).replace("\x1b", "␛"))

    stage.eye = TERMINAL
    stage.hooks = {("checkpoint_saved", 4): look_up, ("range_committed", 3): look_up}
    assert stage(*RUN).code == 0
    planning, applying = drawn
    is_kept(f"--- planning\n{planning}\n--- applying\n{applying}", UNDER_WAY)
    assert all(
        len(re.sub(r"␛\[[0-9;]*m", "", line)) <= WIDTH
        for line in (planning + applying).splitlines()
    )
