"""Where the process of a function begins. It is called by path, and loads our package from where
it lies itself, whatever is on the path or beside the job."""

from __future__ import annotations

import sys


def begin(function: str) -> int:
    """Call it; the exit status."""
    before = frozenset(sys.modules)  # what no script could have its own of either
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    root = Path(__file__).parents[4]
    spec = spec_from_file_location(
        "reconcile", root / "__init__.py", submodule_search_locations=[str(root)]
    )
    assert spec is not None
    assert spec.loader is not None
    ours = sys.modules["reconcile"] = module_from_spec(spec)
    spec.loader.exec_module(ours)
    calling = import_module("reconcile.core.work.commands.functions.calling")
    status: int = calling.main(function, before)
    return status


if __name__ == "__main__":
    sys.exit(begin(sys.argv[1]))
