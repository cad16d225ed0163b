"""Which kind of source a job means, as far as it is no file."""

_OF_SQL = ("query", "table", "scope")
_WEB = ("http://", "https://")
_DATABASES = ("sqlite", "postgresql", "postgres", "mysql", "mariadb", "oracle", "mssql")


def is_database(written: object) -> bool:
    """Whether a source as it is written is a database: by its type, by a key that only they have,
    or by its address."""
    if isinstance(written, str):
        kind, mark, _ = written.partition(":")
        return bool(mark) and kind.lower().partition("+")[0] in _DATABASES
    if not isinstance(written, dict):
        return False
    if "type" in written:
        return bool(written["type"] == "sql")
    return any(key in written for key in _OF_SQL) or is_database(written.get("url"))


def is_web(written: object) -> bool:
    """Whether a source as it is written is an HTTP API."""
    if isinstance(written, str):
        return written.lower().startswith(_WEB)
    if not isinstance(written, dict):
        return False
    return written.get("type") == "http" or bool({"url", "url_file"} & written.keys())
