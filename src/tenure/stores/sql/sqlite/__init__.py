"""The SQLite store."""

from tenure.stores.sql.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
