"""A module of the program with a bug put into its text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType

_numbers = count(1)


@contextmanager
def seeded(module: ModuleType, right: str, wrong: str) -> Iterator[ModuleType]:
    """Another module with the same text, but `wrong` wherever it says `right`."""
    assert module.__file__ is not None
    text = Path(module.__file__).read_text()
    assert right in text, right
    made = ModuleType(f"{module.__name__}_seeded_{next(_numbers)}")
    made.__package__, made.__file__ = module.__package__, module.__file__
    sys.modules[made.__name__] = made  # where dataclasses look for it
    try:
        exec(compile(text.replace(right, wrong), module.__file__, "exec"), made.__dict__)
        yield made
    finally:
        del sys.modules[made.__name__]
