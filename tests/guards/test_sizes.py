"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FILE = 400
FUNCTION = 60


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def test_no_file_is_long(modules: list[Path]) -> None:
    lines = {str(path): len(path.read_text().splitlines()) for path in modules}
    assert {path: count for path, count in lines.items() if count > FILE} == {}


def test_no_function_is_long(modules: list[Path]) -> None:
    long = [
        f"{path}:{function.lineno} {function.name} has {length(function)} lines"
        for path in modules
        for function in functions(path)
        if length(function) > FUNCTION
    ]
    assert long == []
