"""Working inside a user's own transaction in the same database: what they roll back never happened."""

from collections.abc import Callable
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from tenure.domain.errors import InvalidValue, KeyWaits, StoreUnavailable
from tenure.domain.model import Unit
from tenure.domain.store import Clock
from tenure.stores.fibers import waited
from tenure.stores.sql.joined import below, shown
from tenure.stores.sql.postgres.connection import Server, translated
from tenure.stores.sql.postgres.place import Held, Overtaken, Place
from tenure.stores.sql.postgres.runners import AsyncpgRunner, AsyncPsycopgRunner, PsycopgRunner, Runner, UsersRunner
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.stores.sql.postgres.wake import channel, payload

T = TypeVar("T")

TRIES = 5
"""How often a call begins again inside one transaction: whoever is faster holds it up for as long as they take."""

WANTED = (
    "give psycopg's, asyncpg's, Django's or SQLAlchemy's (of a session: session.connection(); "
    "of an async one: await session.connection())"
)


def is_async(given: Any) -> bool:
    """Whether a connection belongs to an event loop."""
    return isinstance(given, AsyncConnection) or _is_asyncpg(given) or shown(given, "sync_connection") is not None


def sync_runner(given: Any) -> UsersRunner:
    """How to run statements on a user's blocking connection. Raises `InvalidValue` for one where that can't be."""
    found = given if isinstance(given, Connection) else below(given)
    if is_async(given) or is_async(found):
        raise InvalidValue("connection: it belongs to an event loop; await the enqueue there")
    if not isinstance(found, Connection):
        raise InvalidValue(f"connection: a {type(given).__name__} isn't, and doesn't show, one of psycopg 3; {WANTED}")
    _check(found)
    return PsycopgRunner(found)


async def async_runner(given: Any) -> UsersRunner:
    """The same for a connection of the running event loop, for a fiber."""
    found = given
    if shown(given, "sync_connection") is not None:  # SQLAlchemy's; it begins with the first statement
        await given.exec_driver_sql("SELECT 1")
        found = shown(shown(given.sync_connection, "connection"), "driver_connection")
    if isinstance(found, AsyncConnection):
        _check(found)
        return AsyncPsycopgRunner(found, waited)
    if not _is_asyncpg(found):
        raise InvalidValue(f"connection: a {type(given).__name__} doesn't show one of psycopg 3 or asyncpg; {WANTED}")
    if not found.is_in_transaction():
        raise InvalidValue("connection: it is in no transaction; begin one, or enqueue without connection=")
    return AsyncpgRunner(found, waited)


def _check(connection: "Connection[Any] | AsyncConnection[Any]") -> None:
    status = connection.info.transaction_status
    if status is TransactionStatus.IDLE and connection.autocommit:
        raise InvalidValue("connection: it is in no transaction; begin one, or enqueue without connection=")
    if status is TransactionStatus.INERROR:
        raise InvalidValue("connection: its transaction has failed; roll it back first")
    if connection.closed:
        raise InvalidValue("connection: it is closed")


def _is_asyncpg(given: Any) -> bool:
    return type(given).__module__.startswith("asyncpg.") and hasattr(given, "is_in_transaction")


def run_joined(server: Server, place: Place, clock: Clock | None, runner: Runner, part: Callable[[Unit], T]) -> T:
    """Runs a part in the caller's transaction. If it breaks, it alone is undone."""
    attempt = 1
    while True:
        try:
            with translated(server):
                return _run(server, PostgresTables(runner, place), clock, runner, part, careful=attempt > 1)
        except Held as held:
            raise KeyWaits(
                f"{server.shown}: a transaction that is still open holds the key of one of these jobs, and your "
                "connection's lock_timeout is over: roll back, and try again"
            ) from held
        except Overtaken as overtaken:
            if attempt == TRIES:
                raise StoreUnavailable(
                    f"{server.shown}: others were faster {TRIES} times; roll your transaction back and try again "
                    "(under REPEATABLE READ it can't see what they did)"
                ) from overtaken
            attempt += 1


def _run(
    server: Server,
    tables: PostgresTables,
    clock: Clock | None,
    runner: Runner,
    part: Callable[[Unit], T],
    careful: bool,
) -> T:
    runner.run("SAVEPOINT tenure", ())
    try:
        _, now = tables.begin(writing=True, careful=careful)
        unit = Unit(tables, now if clock is None else clock())
        answer = part(unit)
        tables.keep(unit)
        topics = unit.topics()
        if topics:
            runner.run("SELECT pg_notify($1, $2)", (channel(server), payload(topics)))
    except BaseException:
        runner.run("ROLLBACK TO SAVEPOINT tenure", ())
        raise
    finally:
        runner.run("RELEASE SAVEPOINT tenure", ())
    return answer
