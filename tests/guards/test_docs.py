"""What a name means is written beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def undocumented(path: Path, ports: AbstractSet[str] = frozenset()) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    if not ast.get_docstring(tree):
        yield f"{path}: the module"
    for node in public(tree):
        if not ast.get_docstring(node) and not speaks_for_itself(node, ports):
            yield f"{path}:{node.lineno} {node.name}"


def public(parent: ast.Module | ast.ClassDef) -> Iterator[Named]:
    """Public classes and functions, and the public methods of public classes."""
    for node in parent.body:
        if isinstance(node, Named) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node)


def speaks_for_itself(node: Named, ports: AbstractSet[str]) -> bool:
    """A test's name is its sentence; a property reads as a field of its class; what a port
    asks for is described there."""
    if isinstance(node, ast.ClassDef):
        return False
    is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)
    return node.name.startswith("test_") or is_property or node.name in ports


def methods_of_ports(root: Path) -> set[str]:
    """Names of the methods that `core/ports.py` describes."""
    tree = ast.parse((root / "core/ports.py").read_text())
    return {
        node.name
        for node in public(tree)
        if not isinstance(node, ast.ClassDef) and ast.get_docstring(node)
    }


def test_every_public_name_has_a_docstring(root: Path, modules: list[Path]) -> None:
    ports = methods_of_ports(root)
    found = [
        name
        for path in modules
        for name in undocumented(path, frozenset() if path.name == "ports.py" else ports)
    ]
    assert found == []


def test_a_missing_docstring_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("class A:\n    def b(self): ...\n    def _c(self): ...\n    def d(self): ...\n")
    names = [name.rpartition(" ")[2] for name in undocumented(path, {"d"})]
    assert names == ["module", "A", "b"]
