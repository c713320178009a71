"""Stores by their URL. Other people's stores register a scheme by the entry point group `tenure.stores`."""

import os
from collections.abc import Callable
from importlib.metadata import entry_points
from importlib.util import find_spec
from urllib.parse import quote, unquote

from tenure.domain.errors import InvalidValue, Unsupported
from tenure.domain.extras import Extra, needs
from tenure.domain.store import Store

GROUP = "tenure.stores"

COMING = ("redis", "rediss", "valkey", "valkeys")
"""Schemes of a store that isn't written yet."""


def open_store(url: str) -> Store:
    """The store at a URL, not yet opened. Raises `InvalidValue` for a URL that names none."""
    if not isinstance(url, str):
        raise InvalidValue(f"url: give a string, not {type(url).__name__}")
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise InvalidValue(f"url {_shown(url)!r}: give memory://, sqlite:///path/to/jobs.db or postgresql://host/db")
    make = _SCHEMES.get(scheme) or _registered(scheme)
    if make is not None:
        return make(url)
    there = ", ".join(f"{known}://" for known in _SCHEMES)
    if scheme in COMING:
        raise Unsupported(f"Tenure has no store for {scheme}:// yet; the stores that are there: {there}")
    raise InvalidValue(f"url {_shown(url)!r}: no store is known for {scheme}://; known are {there}")


def absolute(url: str) -> str:
    """The URL of the same store from any other folder: one that names a file gets its whole path."""
    if not url.startswith("sqlite://"):
        return url
    return f"sqlite:///{quote(os.path.abspath(_path(url)))}"


def register(scheme: str, make: Callable[[str], Store]) -> None:
    """Makes a scheme known in this process: what an entry point does for every process."""
    _SCHEMES[scheme] = make


def _shown(url: str) -> str:
    """A URL without what may be secret in it: whatever stands before an @, or in its options."""
    scheme, separator, rest = url.rpartition("://")
    place, options, _ = rest.partition("?")
    _, at, place = place.rpartition("@")
    return scheme + separator + ("…@" if at else "") + place + ("?…" if options else "")


def _memory(url: str) -> Store:
    from tenure.stores.memory import MemoryStore

    if url != "memory://":
        raise InvalidValue(f"url {_shown(url)!r}: a memory store has no name; give memory://")
    return MemoryStore()


def _sqlite(url: str) -> Store:
    from tenure.stores.sql.sqlite import SqliteStore

    return SqliteStore(_path(url))


def _postgres(url: str) -> Store:
    if find_spec("psycopg") is None:
        raise Unsupported(needs(f"{url.partition('://')[0]}://", Extra.POSTGRES))
    from tenure.stores.sql.postgres import PostgresStore

    return PostgresStore(url)


def _path(url: str) -> str:
    """The file that a sqlite:// URL names."""
    place, options, _ = url.removeprefix("sqlite://").partition("?")
    if options or "#" in place:
        raise InvalidValue(f"url {_shown(url)!r}: no options are known for a file")
    host, _, path = place.partition("/")
    if host:
        raise InvalidValue(f"url {_shown(url)!r}: a file has no host; give sqlite:///jobs.db with three slashes")
    path = unquote(path)
    if path == ":memory:":
        raise InvalidValue("url 'sqlite:///:memory:': a store in memory is memory://")
    if not path or "\0" in path:
        raise InvalidValue(
            f"url {_shown(url)!r}: name the file, as in sqlite:///jobs.db (or sqlite:////var/lib/jobs.db)"
        )
    return path


def _registered(scheme: str) -> Callable[[str], Store] | None:
    for point in entry_points(group=GROUP):
        if point.name == scheme:
            made: Callable[[str], Store] = point.load()
            return made
    return None


_SCHEMES: dict[str, Callable[[str], Store]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
}
