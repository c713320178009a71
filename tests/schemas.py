"""Stores of a test's own in the PostgreSQL server that all tests share."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg


@contextmanager
def new_schema(url: str) -> Iterator[str]:
    """The URL of a store that isn't there yet, and isn't there any more afterwards."""
    name = f"t{uuid4().hex}"
    yield f"{url}?schema={name}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
