"""A `Scene` whose target is a table on a PostgreSQL server, in a schema of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from .forks import DRIVERS
from .postgres_server import fresh_name, shared_server
from .scene import Scene, Table
from .target import TABLE

OURS = ("reconcile_fence", "reconcile_ranges", "reconcile_changes")


class PostgresScene(Scene):
    """See `Scene`. `schema` is dropped with `drop`."""

    variables: ClassVar[dict[str, str]] = DRIVERS
    """Has processes forked from one that has imported psycopg; see `fork_server.py`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.target.unlink()
        self.server = shared_server()
        self.schema = fresh_name("scene")
        self.server.do(f"CREATE SCHEMA {self.schema}", f"SET search_path = {self.schema}")
        self.do(TABLE)
        self.configure(
            '"app.db"', f'{{ url = "{self.url}", table = "{self.schema}.entitlements" }}'
        )

    @property
    def url(self) -> str:
        return self.server.url()

    def configure(self, old: str, new: str) -> None:
        """Change what the configuration says."""
        config = self.folder / "reconcile.toml"
        text = config.read_text()
        assert old in text
        config.write_text(text.replace(old, new))

    def do(self, *statements: str) -> None:
        """What somebody else does in the schema."""
        self.server.do(f"SET search_path = {self.schema}", *statements)

    def answer(self, query: str) -> list[tuple[Any, ...]]:
        """What the schema holds."""
        with self.server.admin() as db:
            db.execute(f"SET search_path = {self.schema}".encode())
            return db.execute(query.encode()).fetchall()

    def fill(self, table: Table) -> None:
        """Put rows there before the first night."""
        with self.server.admin() as db:
            db.execute(f"SET search_path = {self.schema}".encode())
            with db.cursor() as cursor, cursor.copy(b"COPY entitlements FROM STDIN") as copy:
                for (account, name), level in table.items():
                    copy.write_row((account, name, level))

    def rows(self) -> Table:
        query = "SELECT account_id, entitlement, level FROM entitlements"
        return {(account, name): level for account, name, level in self.answer(query)}

    def log(self, date: str) -> list[tuple[str, str]]:
        query = f"SELECT action, key FROM reconcile_changes WHERE interval = '{date}'"
        return self.answer(query)  # type: ignore[return-value]

    def keep_copy(self) -> None:
        """Copy the table and ours, to be brought back by `restore`."""
        tables = ("entitlements", *OURS)
        self.do(*(f"CREATE TABLE copy_{table} AS TABLE {table}" for table in tables))

    def restore(self) -> None:
        """Bring back what was copied."""
        for table in ("entitlements", *OURS):
            always = " OVERRIDING SYSTEM VALUE" if table == "reconcile_changes" else ""
            self.do(
                f"DELETE FROM {table}",
                f"INSERT INTO {table}{always} SELECT * FROM copy_{table}",
            )

    def audit(self) -> None:
        """From now on have each write to the table noted, whoever makes it: what was there
        before, what is there after, and by which program."""
        self.do(
            "CREATE TABLE audit (n bigint GENERATED ALWAYS AS IDENTITY, was entitlements,"
            " is_now entitlements, program text)",
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT"
            " AS $$ BEGIN INSERT INTO audit (was, is_now, program) VALUES (old, new,"
            " current_setting('application_name')); RETURN NULL; END $$",
            "CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON entitlements FOR EACH ROW"
            " EXECUTE FUNCTION note()",
        )

    def drop(self) -> None:
        self.server.drop(self.schema)
