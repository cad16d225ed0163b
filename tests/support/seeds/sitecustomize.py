"""Puts a bug into the text of one module of the program, in any Python that has this folder in its
PYTHONPATH: in the processes that a drill starts, too. RECONCILE_TEST_SEED says which, as JSON:
[module, what is right, what is wrong]."""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

MODULE, RIGHT, WRONG = json.loads(os.environ["RECONCILE_TEST_SEED"])


class Seeded(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        text = Path(self.path).read_text()
        assert RIGHT in text, f"{MODULE} does not say {RIGHT}"
        return compile(text.replace(RIGHT, WRONG), self.path, "exec", dont_inherit=True)


class Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        del target
        spec = PathFinder.find_spec(name, path) if name == MODULE else None
        if spec is not None and spec.origin is not None:
            spec.loader = Seeded(name, spec.origin)
        return spec


sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
