"""A user of the command line in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Cli


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(tmp_path, monkeypatch)


@pytest.fixture
def terminal(cli: Cli) -> Cli:
    cli.terminal = True
    cli.environ = {"NO_COLOR": "1"}
    return cli
