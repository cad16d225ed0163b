"""Nothing in the repository is about one machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

# Spelled with a gap each, so that this file does not find itself.
PRIVATE = re.compile("|".join(["/wor[k]/", "/tm[p]/v", r"\.\./share[d]"]))


def tracked(root: Path) -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    return [root / name for name in names.stdout.decode().split("\0") if name]


def test_no_tracked_file_names_a_path_of_the_machine_it_was_written_on(root: Path) -> None:
    found = [
        f"{path}: {match[0]}"
        for path in tracked(root)
        if path.is_file()
        for match in PRIVATE.finditer(path.read_bytes().decode(errors="replace"))
    ]
    assert found == []


def test_such_a_path_would_be_found() -> None:
    assert PRIVATE.search("source = " + "/".join(["", "work", "main", "app.db"]))
