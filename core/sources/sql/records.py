"""A statement's rows, with their columns picked and as the schema wants them."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import SourceUnusable
from ..blocks import Block, Writing
from .values import value_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...config import SourceConfig
    from ...rows import Schema

_WRITING = Writing("SQL", "utf-8", len, "")
_LOOK = "look at what the query gives there"


@dataclass(frozen=True, slots=True)
class Fetched(Block):
    """Some rows, as the driver gave them. `path` says for messages where they are from; `line`
    is the number of the first, from 1."""

    rows: Sequence[Sequence[Any]] = ()
    unit: ClassVar[str] = "row"

    def unusable(self, line: int, why: str, *, hint: str = "") -> SourceUnusable:
        """An error that names the source and the row."""
        return SourceUnusable(f"{self.path} row {line:,}: {why}", hint=hint or _LOOK)


def fetched(name: str, rows: Sequence[Sequence[Any]], first: int) -> Fetched:
    """Rows of the source that is called so, from its `first` on."""
    return Fetched(name, "", 0, first, _WRITING, rows)


def names_wanted(config: SourceConfig, schema: Schema) -> list[str]:
    """The columns of the schema, account first, as the source names them before `rename`."""
    names = [column.name for column in schema.columns]
    names[0] = config.account or names[0]
    return names


def names_there(config: SourceConfig, schema: Schema) -> list[str]:
    """The columns to ask a table for: what `rename` leads from, where it does."""
    leads = {ours: theirs for theirs, ours in config.rename.items()}
    return [leads.get(name, name) for name in names_wanted(config, schema)]


class SqlRecords:
    """The rows of one statement. Implements `rows.Records`."""

    def __init__(self, config: SourceConfig, schema: Schema) -> None:
        self._config = config
        self._schema = schema
        self.readers = [value_reader(column.kind, config.null) for column in schema.columns]
        self._pick: Callable[[Sequence[Any]], tuple[Any, ...]] = tuple
        self._mend: list[tuple[int, Callable[[Any], Any]]] = []

    def begin(
        self, name: str, columns: Sequence[str], mend: Mapping[int, Callable[[Any], Any]]
    ) -> None:
        """The statement's columns are known. `mend` are what the values of some of them are put
        right with. Raises `SourceUnusable` where one of the schema is missing."""
        at = _positions(name, columns, names_wanted(self._config, self._schema), self._config)
        picked = itemgetter(*at)
        self._pick = picked if len(at) > 1 else lambda row: (row[at[0]],)
        self._mend = [(i, mend[where]) for i, where in enumerate(at) if where in mend]

    def raw(self, block: Block) -> tuple[list[Any], int]:
        """See `rows.Records`."""
        assert isinstance(block, Fetched), "nothing else is read"
        rows = list(map(self._pick, block.rows))
        for i, mend in self._mend:
            rows = [(*row[:i], mend(row[i]), *row[i + 1 :]) for row in rows]
        return rows, 0

    def lines(self, block: Block) -> Sequence[int]:
        """See `rows.Records`."""
        assert isinstance(block, Fetched), "nothing else is read"
        return range(block.line, block.line + len(block.rows))


def _positions(
    name: str, columns: Sequence[str], wanted: Sequence[str], config: SourceConfig
) -> list[int]:
    """Where the wanted columns are; upper and lower case are told apart only where they must."""
    ours = [config.rename.get(column, column) for column in columns]
    folded = [column.lower() for column in ours]
    found = []
    for one in wanted:
        exact = [i for i, column in enumerate(ours) if column == one]
        at = exact or [i for i, column in enumerate(folded) if column == one.lower()]
        if not at:
            raise SourceUnusable(
                f"{name} has no column {config.name_in_file(one)}; it has {', '.join(columns)}",
                hint="select it, as in SELECT customer AS account_id, or map its name to ours"
                " with rename",
            )
        if len(at) > 1:
            raise SourceUnusable(
                f"{name} has more than one column {one}", hint="name them differently in the query"
            )
        found.append(at[0])
    return found
