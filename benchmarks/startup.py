"""What a knock with nothing due costs, beside the imports that it cannot do without.

    python benchmarks/startup.py [ROUNDS]

Runs `reconcile run` with nothing due and `python -c "import typer, sqlite3, tomllib"` by
turns, so that a busy machine slows both, and prints the medians and their ratio. Exit
status 1 when the ratio is above the budget. Figures are only worth anything of an installed
wheel, whose .pyc files exist, as `pip install .` makes it; an editable install looks for each
module by code of its own.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUDGET = 1.6
RECONCILE = Path(sys.executable).with_name("reconcile")
BARE = [sys.executable, "-c", "import typer, sqlite3, tomllib"]
KNOCK = [str(RECONCILE), "run", "entitlements"]


def seconds(argv: list[str], folder: Path) -> float:
    begun = time.perf_counter()
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - begun


def main(rounds: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([RECONCILE, "init", "--demo"], cwd=folder, check=True, capture_output=True)
        seconds(KNOCK, folder)
        for argv in (BARE, KNOCK):
            seconds(argv, folder)
        pairs = [(seconds(BARE, folder), seconds(KNOCK, folder)) for _ in range(rounds)]
    bare, knock = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = knock / bare
    print(f"imports alone        {bare * 1000:6.1f} ms  (median of {rounds})")
    print(f"nothing due          {knock * 1000:6.1f} ms")
    print(f"ratio                {ratio:6.2f}     (budget {BUDGET})")
    return int(ratio > BUDGET)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 25))
