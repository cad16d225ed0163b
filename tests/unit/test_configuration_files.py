from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from reconcile.cli import configuration
from reconcile.cli.configuration import load
from reconcile.core.errors import AccessDenied, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB = '[jobs.{}]\nsource = "e.csv"\ntarget = "{}.db"\n'


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or JOB.format("j", "app"), encoding="utf-8")
    path.chmod(0o644)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder; the folders of user and system are empty too."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", f"{tmp_path / 'system'}:{tmp_path / 'system2'}")
    monkeypatch.setattr(configuration, "SYSTEM_FOLDER", tmp_path / "etc")
    here = tmp_path / "here"
    here.mkdir()
    return here


@contextmanager
def somebody_else() -> Iterator[None]:
    """For root, to whom everything is allowed."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


class TestFinding:
    def test_the_first_of_the_usual_places_is_read(self, folder: Path) -> None:
        root = folder.parent
        places = [
            root / "etc/reconcile.toml",
            root / "system2/reconcile/reconcile.toml",
            root / "system/reconcile/reconcile.toml",
            root / "user/reconcile/reconcile.toml",
            folder / "reconcile.toml",
        ]
        for place in places:
            write(place)
            assert load(None, environ={}, cwd=folder).path == place
        named = write(root / "named.toml")
        environ = {"RECONCILE_CONFIG": "../named.toml"}
        assert load(None, environ=environ, cwd=folder).path.samefile(named)
        given = write(root / "given.toml")
        assert load(given, environ=environ, cwd=folder).path == given

    def test_a_relative_path_is_that_of_the_caller(self, folder: Path) -> None:
        write(folder / "x/mine.toml")
        config = load(Path("x/mine.toml"), environ={}, cwd=folder)
        assert config.path == folder / "x/mine.toml"
        assert config.jobs["j"].work.source.path == str(folder / "x/e.csv")

    def test_none_at_all_names_all_places_and_how_to_write_one(self, folder: Path) -> None:
        with pytest.raises(ConfigError) as refused:
            load(None, environ={}, cwd=folder)
        for place in ("here", "user/reconcile", "system/reconcile", "system2/reconcile", "etc"):
            assert f"{folder.parent / place}/reconcile.toml" in str(refused.value)
        assert "reconcile init" in refused.value.hint

    def test_a_named_one_that_is_not_there_is_not_replaced_by_another(self, folder: Path) -> None:
        write(folder / "reconcile.toml")
        with pytest.raises(ConfigError, match=r"nope\.toml: no such configuration"):
            load(Path("nope.toml"), environ={}, cwd=folder)
        with pytest.raises(ConfigError, match="which RECONCILE_CONFIG names"):
            load(None, environ={"RECONCILE_CONFIG": "nope.toml"}, cwd=folder)
        with pytest.raises(ConfigError, match="no such configuration"):
            load(Path("reconcile.toml/x"), environ={}, cwd=folder)

    def test_the_usual_folders_are_not_looked_up_where_the_file_is_here(self, folder: Path) -> None:
        write(folder / "reconcile.toml")
        code = (
            "import sys; from pathlib import Path; from reconcile.cli.configuration import load;"
            "load(None, environ={}, cwd=Path(sys.argv[1]));"
            "assert 'platformdirs' not in sys.modules and 'difflib' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code, str(folder)], check=True, timeout=60)

    def test_the_environment_given_fills_in_texts(self, folder: Path) -> None:
        write(folder / "reconcile.toml", JOB.format("j", "${N}"))
        url = load(None, environ={"N": "x"}, cwd=folder).jobs["j"].work.target.url
        assert url == f"sqlite://{folder}/x.db"

    def test_a_given_store_goes_before_the_files(self, folder: Path) -> None:
        write(folder / "sub/reconcile.toml", '[store]\nurl = "a.db"')
        config = load(Path("sub/reconcile.toml"), environ={}, cwd=folder, store="b.db")
        assert config.store.url == f"sqlite://{folder}/b.db"


class TestDropIns:
    def test_they_are_read_in_order_of_name(self, folder: Path) -> None:
        main = write(folder / "reconcile.toml")
        for name in ("20-b.toml", "10-a.toml", "40-d.toml", "30-c.toml"):
            write(folder / "conf.d" / name, JOB.format(name[3], name[3]))
        assert list(load(main, environ={}, cwd=folder).jobs) == ["j", "a", "b", "c", "d"]

    def test_other_files_and_copies_of_editors_are_left_alone(self, folder: Path) -> None:
        main = write(folder / "reconcile.toml")
        for name in ("a.toml~", "a.toml.dpkg-old", ".#a.toml", ".a.toml", "README"):
            write(folder / "conf.d" / name, "not TOML [")
        assert list(load(main, environ={}, cwd=folder).jobs) == ["j"]

    def test_they_are_named_with_their_line(self, folder: Path) -> None:
        write(folder / "reconcile.toml")
        write(folder / "conf.d/a.toml", JOB.format("a", "a") + "zz = 1")
        with pytest.raises(ConfigError, match=r"^conf\.d/a\.toml line 4: jobs\.a\.zz: no such key"):
            load(None, environ={}, cwd=folder)

    def test_a_folder_that_is_none_is_no_folder(self, folder: Path) -> None:
        write(folder / "conf.d", "x")
        assert load(write(folder / "reconcile.toml"), environ={}, cwd=folder).jobs


class TestReading:
    @pytest.mark.parametrize("name", ["reconcile.toml", "conf.d/a.toml", "conf.d"])
    def test_what_all_users_may_write_is_refused(self, folder: Path, name: str) -> None:
        write(folder / "reconcile.toml")
        write(folder / "conf.d/a.toml", JOB.format("a", "a"))
        open_to_all = folder / name
        open_to_all.chmod(open_to_all.stat().st_mode | 0o002)
        with pytest.raises(AccessDenied, match="writable for all users") as refused:
            load(None, environ={}, cwd=folder)
        assert refused.value.hint == f"chmod o-w {open_to_all}"

    def test_what_the_group_may_write_is_read(self, folder: Path) -> None:
        write(folder / "reconcile.toml").chmod(0o664)
        assert load(None, environ={}, cwd=folder).jobs

    def test_the_mode_is_that_of_the_file_behind_a_link(self, folder: Path) -> None:
        (folder / "reconcile.toml").symlink_to(write(folder.parent / "real.toml"))
        assert load(None, environ={}, cwd=folder).jobs
        (folder.parent / "real.toml").chmod(0o666)
        with pytest.raises(AccessDenied):
            load(None, environ={}, cwd=folder)

    def test_what_may_not_be_read_is_access_denied(self) -> None:
        with TemporaryDirectory() as name:
            root = Path(name)
            root.chmod(0o755)
            write(root / "reconcile.toml").chmod(0)
            with somebody_else(), pytest.raises(AccessDenied, match="may not be read"):
                load(root / "reconcile.toml", environ={}, cwd=root)
            write(root / "reconcile.toml")
            write(root / "conf.d/a.toml").parent.chmod(0o700)
            if os.geteuid() == 0:
                with somebody_else(), pytest.raises(AccessDenied, match=r"conf\.d may not be read"):
                    load(root / "reconcile.toml", environ={}, cwd=root)

    def test_a_folder_in_which_one_may_not_look_is_access_denied(self) -> None:
        with TemporaryDirectory() as name:
            root = Path(name)
            write(root / "in/reconcile.toml")
            (root / "in").chmod(0)
            root.chmod(0o755)
            try:
                with somebody_else(), pytest.raises(AccessDenied):
                    load(root / "in/reconcile.toml", environ={}, cwd=root)
            finally:
                (root / "in").chmod(0o700)

    def test_what_is_not_utf_8_is_refused_with_its_line(self, folder: Path) -> None:
        (folder / "reconcile.toml").write_bytes(b"# fine\n# caf\xe9\n")
        with pytest.raises(ConfigError, match="line 2: not UTF-8"):
            load(None, environ={}, cwd=folder)

    def test_a_byte_order_mark_is_no_part_of_the_first_key(self, folder: Path) -> None:
        text = JOB.format("j", "app").encode()
        (folder / "reconcile.toml").write_bytes(b"\xef\xbb\xbf" + text)
        assert load(None, environ={}, cwd=folder).jobs

    def test_what_is_no_file_is_refused_without_waiting_for_it(self, folder: Path) -> None:
        os.mkfifo(folder / "reconcile.toml")
        with pytest.raises(ConfigError, match="is not a file"):
            load(None, environ={}, cwd=folder)
        with pytest.raises(ConfigError, match="is not a file"):
            load(folder, environ={}, cwd=folder)

    @pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
    def test_a_name_that_no_file_can_have_is_refused(self, folder: Path, name: str) -> None:
        with pytest.raises(ConfigError):
            load(Path(name), environ={}, cwd=folder)

    def test_a_loop_of_links_is_refused(self, folder: Path) -> None:
        (folder / "reconcile.toml").symlink_to("reconcile.toml")
        with pytest.raises(ConfigError, match="symbolic links"):
            load(None, environ={}, cwd=folder)
