"""Jobs in a PostgreSQL database."""

from tenure.stores.sql.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
