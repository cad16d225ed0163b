"""What a name means is written beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def undocumented(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    if not ast.get_docstring(tree):
        yield f"{path}: the module"
    for node in public(tree):
        if not ast.get_docstring(node):
            yield f"{path}:{node.lineno} {node.name}"


def public(parent: ast.Module | ast.ClassDef) -> Iterator[Named]:
    """Public classes and functions, and the public methods of public classes."""
    for node in parent.body:
        if isinstance(node, Named) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node)


def test_every_public_name_has_a_docstring(modules: list[Path]) -> None:
    assert [name for path in modules for name in undocumented(path)] == []


def test_a_missing_docstring_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("class A:\n    def b(self): ...\n    def _c(self): ...\n")
    assert [name.rpartition(" ")[2] for name in undocumented(path)] == ["module", "A", "b"]
