"""Jobs in a database of the project: `TENURE = {"DATABASE": "default"}`.

Its name is read at each call, not when Django starts: a test runner gives each alias a test database, and each of its
parallel processes a copy of that. Jobs are wherever the rows are.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from tenure.domain.errors import StoreError
from tenure.engine.sync import PORTAL
from tenure.stores.opening import open_store

NOT_OF_THE_SERVER = frozenset(
    ["client_encoding", "cursor_factory", "isolation_level", "pool", "prepare_threshold", "server_side_binding"]
)
"""`OPTIONS` of Django's PostgreSQL that are about Django's own connections."""


class Database:
    """A database that `DATABASES` names."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        try:
            self._vendor = connections[alias].vendor
        except ConnectionDoesNotExist:
            known = ", ".join(connections)
            raise ImproperlyConfigured(f"TENURE['DATABASE']: DATABASES has no {alias!r:.80}; it has {known}") from None
        if self._vendor not in ("postgresql", "sqlite"):
            raise ImproperlyConfigured(
                f"TENURE['DATABASE']: jobs can be in PostgreSQL or SQLite, {alias!r} is {self._vendor}; "
                "give TENURE = {'URL': …} with a store of its own"
            )

    def url(self) -> str:
        """Where it is now."""
        settings: dict[str, Any] = connections.settings[self.alias]
        return postgres_url(self.alias, settings) if self._vendor == "postgresql" else _sqlite(settings)

    def make_schema(self) -> None:
        """Makes the jobs' tables, and leaves no connection: a database in use can't be copied."""
        try:
            PORTAL.run(_migrated(self.url()))
        except StoreError as error:
            raise CommandError(f"TENURE['DATABASE']: {error}") from error

    def before_it_is_destroyed(self, close: Callable[[], None]) -> None:
        """A test database can't be destroyed while connections to it are open, and Django has no signal for it."""
        creation = connections[self.alias].creation
        destroy = creation.destroy_test_db

        def closed_first(*args: Any, **options: Any) -> Any:
            close()
            return destroy(*args, **options)

        creation.destroy_test_db = closed_first


async def _migrated(url: str) -> None:
    store = open_store(url)
    try:
        await store.migrate()
    finally:
        await store.close()


def _sqlite(settings: dict[str, Any]) -> str:
    """A database in memory is its process's own, and so are its jobs."""
    name = settings["NAME"]
    if isinstance(name, str) and (name == ":memory:" or "mode=memory" in name):
        return "memory://"
    return f"sqlite:///{quote(str(name))}"


def postgres_url(alias: str, settings: dict[str, Any]) -> str:
    """What Django would give the driver."""
    options = {name: value for name, value in settings["OPTIONS"].items() if name not in NOT_OF_THE_SERVER}
    if "assume_role" in options:
        raise ImproperlyConfigured(f"TENURE['DATABASE']: {alias!r} has assume_role, which jobs can't follow")
    host, port = str(settings["HOST"]), str(settings["PORT"])
    if host.startswith("/"):
        options["host"], host = host, ""
    user, password = (quote(str(settings[name]), safe="") for name in ("USER", "PASSWORD"))
    who = f"{user}:{password}@" if password else f"{user}@" if user else ""
    place = who + (f"[{host}]" if ":" in host else host)
    query = f"?{urlencode(options, quote_via=quote)}" if options else ""
    return f"postgresql://{place}{f':{port}' if port else ''}/{quote(str(settings['NAME']), safe='')}{query}"
