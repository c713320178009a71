"""In the user's transaction: what is rolled back was never enqueued, and a handler's writes end its job."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure import Context, InvalidValue, JobFailed, Tenure, Unsupported
from tenure.blobs import MemoryBlobs
from tenure.domain.errors import JobCancelled
from tenure.domain.states import State
from tenure.engine import transactions
from tenure.engine.flows import Flow
from tenure.engine.importing import environment

PATIENCE = 20.0


@pytest.fixture
def app(tmp_path: Path) -> Tenure:
    made = Tenure(f"sqlite:///{tmp_path}/app.db")

    @made.job(max_attempts=1)
    async def pay(order: int) -> int:
        return order

    return made


@pytest.fixture
def connection(app: Tenure, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    async def prepare() -> None:
        async with app:
            pass

    asyncio.run(prepare())
    opened = sqlite3.connect(tmp_path / "app.db")
    opened.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    opened.commit()
    yield opened
    opened.close()


async def waiting(app: Tenure) -> int:
    return len(await app.jobs())


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "rolled back"])
def test_a_job_goes_with_the_users_transaction(app: Tenure, connection: sqlite3.Connection, commit: bool) -> None:
    async def main() -> None:
        async with app:
            connection.execute("INSERT INTO orders VALUES (1)")
            handle = await app.definitions["pay"].options(connection=connection).enqueue(1)
            connection.commit() if commit else connection.rollback()
            assert await waiting(app) == (1 if commit else 0)
            assert connection.execute("SELECT count(*) FROM orders").fetchone()[0] == (1 if commit else 0)
            if commit:
                async with app.worker():
                    assert await handle.result(PATIENCE) == 1

    asyncio.run(main())


def test_a_job_that_is_known_by_name_alone_goes_with_it_too(app: Tenure, connection: sqlite3.Connection) -> None:
    async def main() -> None:
        async with app:
            connection.execute("INSERT INTO orders VALUES (1)")
            await app.send("elsewhere", {"order": 1}, connection=connection)
            connection.rollback()
            assert await waiting(app) == 0

    asyncio.run(main())


def test_what_carries_a_job_of_its_own_takes_no_connection(app: Tenure, connection: sqlite3.Connection) -> None:
    pay = app.definitions["pay"].options(connection=connection)

    async def main() -> None:
        async with app:
            with pytest.raises(InvalidValue, match="connection: a schedule can't"):
                await app.schedule("nightly", 60, pay.build(1))

    asyncio.run(main())


def test_nobody_sees_it_before_the_commit(app: Tenure, connection: sqlite3.Connection) -> None:
    async def main() -> None:
        async with app:
            await app.definitions["pay"].options(connection=connection).enqueue(1)
            assert await waiting(app) == 0
            assert [event async for event in app.events(follow=False)] == []
            connection.commit()
            assert await waiting(app) == 1

    asyncio.run(main())


def test_the_same_from_code_without_a_loop(app: Tenure, connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row
    with connection:
        connection.execute("INSERT INTO orders VALUES (1)")
        app.definitions["pay"].sync.options(connection=connection).enqueue(1)
    assert connection.row_factory is sqlite3.Row
    assert [job.payload for job in app.sync.jobs()] == [{"order": 1}]
    app.sync.close()


def test_a_connection_to_another_file_is_refused(app: Tenure, connection: sqlite3.Connection, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    with pytest.raises(InvalidValue, match=r"other\.db"):
        app.definitions["pay"].sync.options(connection=other).enqueue(1)
    other.close()


def test_a_connection_without_a_transaction_is_refused(app: Tenure, connection: sqlite3.Connection) -> None:
    connection.isolation_level = None
    with pytest.raises(InvalidValue, match="in no transaction"):
        app.definitions["pay"].sync.options(connection=connection).enqueue(1)


def test_what_is_no_connection_is_refused(app: Tenure, connection: sqlite3.Connection) -> None:
    with pytest.raises(InvalidValue, match="a str isn't"):
        app.definitions["pay"].sync.options(connection="app.db").enqueue(1)


class Fairy:
    """As SQLAlchemy's pool gives: what it isn't asked for by name it looks up in the driver's connection."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.dbapi_connection = self.driver_connection = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dbapi_connection, name)


class Alchemy:
    """As SQLAlchemy's Connection: it shows its pool's, or raises an error of its own when it is closed or async."""

    def __init__(self, raw: sqlite3.Connection | None) -> None:
        self._raw = raw

    @property
    def connection(self) -> Fairy:
        if self._raw is None:
            raise RuntimeError("this connection is closed")
        return Fairy(self._raw)


class Session:
    """As SQLAlchemy's Session: it gives a connection, and shows none."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def connection(self) -> Alchemy:
        return Alchemy(self._raw)


@pytest.mark.parametrize(
    "wrapped", [Fairy, Alchemy, lambda raw: Session(raw).connection()], ids=["raw", "connection", "of a session"]
)
def test_the_connection_below_sqlalchemys_is_found(
    app: Tenure, connection: sqlite3.Connection, wrapped: Callable[[sqlite3.Connection], Any]
) -> None:
    connection.execute("INSERT INTO orders VALUES (1)")
    app.definitions["pay"].sync.options(connection=wrapped(connection)).enqueue(1)
    connection.rollback()
    assert list(app.sync.jobs()) == []
    app.definitions["pay"].sync.options(connection=wrapped(connection)).enqueue(2)
    connection.commit()
    assert [job.payload for job in app.sync.jobs()] == [{"order": 2}]
    app.sync.close()


@pytest.mark.parametrize(
    "wrapped",
    [Session, lambda raw: Alchemy(None), lambda raw: raw.cursor(), lambda raw: [raw]],
    ids=["session", "closed", "cursor", "list"],
)
def test_nothing_else_is_searched_for_a_connection(
    app: Tenure, connection: sqlite3.Connection, wrapped: Callable[[sqlite3.Connection], Any]
) -> None:
    with pytest.raises(InvalidValue, match=r"doesn't show, a sqlite3 connection; give one, or Django's"):
        app.definitions["pay"].sync.options(connection=wrapped(connection)).enqueue(1)
    assert not connection.in_transaction


DJANGO = """
import sys

import django
from django.conf import settings

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}})
django.setup()

from django.db import connection, connections, transaction
from tenure import InvalidValue, Tenure

app = Tenure(f"sqlite:///{sys.argv[1]}")


@app.job
async def pay(order: int) -> None: ...


def refused(word):
    try:
        pay.sync.options(connection=connection).enqueue(0)
    except InvalidValue as error:
        assert word in str(error), error
    else:
        raise AssertionError("it was taken")


refused("transaction.atomic()")
with connection.cursor() as cursor:
    cursor.execute("SELECT 1")
refused("in no transaction")
try:
    with transaction.atomic():
        pay.sync.options(connection=connection).enqueue(1)
        raise ZeroDivisionError
except ZeroDivisionError:
    pass
with transaction.atomic():
    pay.sync.options(connection=connection).enqueue(2)
    pay.sync.options(connection=connections["default"]).enqueue(3)
assert sorted(job.payload["order"] for job in app.sync.jobs()) == [2, 3]
connection.close()
app.sync.close()
"""


def test_the_connection_below_djangos_is_found(connection: sqlite3.Connection, tmp_path: Path) -> None:
    """In a process of its own: Django is set up once in each."""
    pytest.importorskip("django")
    command = [sys.executable, "-c", DJANGO, str(tmp_path / "app.db")]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_store_that_cant_join_says_so() -> None:
    app = Tenure("memory://")

    @app.job
    async def pay(order: int) -> None: ...

    async def main() -> None:
        async with app:
            with pytest.raises(Unsupported, match="memory"):
                await pay.options(connection=object()).enqueue(1)

    asyncio.run(main())


def test_a_handlers_writes_commit_with_its_success(app: Tenure, connection: sqlite3.Connection) -> None:
    @app.job
    async def ship(ctx: Context, order: int) -> str:
        async with ctx.transaction() as tx:
            tx.connection.execute("INSERT INTO orders VALUES (?)", (order,))
            tx.enqueue(app.definitions["pay"].build(order))
            tx.result = "shipped"
        return "ignored"

    async def main() -> None:
        async with app, app.worker() as worker:
            handle = await ship.enqueue(7)
            assert await handle.result(PATIENCE) == "shipped"
            await worker.idle()
            assert [job.job_type for job in await app.jobs(state="succeeded")] == ["pay", "ship"]
            story = await handle.get()
            assert [lease.outcome for lease in story.history] == ["succeeded"]

    asyncio.run(main())
    assert connection.execute("SELECT id FROM orders").fetchall() == [(7,)]


def test_a_handler_that_breaks_undoes_its_writes(app: Tenure, connection: sqlite3.Connection) -> None:
    @app.job(max_attempts=1)
    async def ship(ctx: Context, order: int) -> None:
        async with ctx.transaction() as tx:
            tx.connection.execute("INSERT INTO orders VALUES (?)", (order,))
            raise ValueError("out of boxes")

    async def main() -> None:
        async with app, app.worker():
            with pytest.raises(JobFailed, match="out of boxes"):
                await (await ship.enqueue(7)).result(PATIENCE)

    asyncio.run(main())
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)


def test_a_cancelled_job_writes_nothing(app: Tenure, connection: sqlite3.Connection) -> None:
    seen: list[type[BaseException]] = []

    @app.job(max_attempts=1)
    async def ship(ctx: Context, order: int) -> None:
        await app.handle(ctx.id).cancel()
        try:
            async with ctx.transaction() as tx:
                tx.connection.execute("INSERT INTO orders VALUES (?)", (order,))
        except JobCancelled as error:
            seen.append(type(error))

    async def main() -> None:
        async with app, app.worker() as worker:
            handle = await ship.enqueue(7)
            await worker.idle()
            assert (await handle.get()).state is State.CANCELLED

    asyncio.run(main())
    assert seen == [JobCancelled]
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)


Write = Callable[[Tenure, str], Awaitable[object]]

WRITES: dict[str, Write] = {
    "enqueue": lambda app, id: app.definitions["pay"].enqueue(1),
    "enqueue_many": lambda app, id: app.enqueue_many([app.definitions["pay"].build(1)]),
    "another tenant": lambda app, id: app.tenant("acme").enqueue(app.definitions["pay"].build(1)),
    "send": lambda app, id: app.send("unknown"),
    "flow": lambda app, id: flow_of(app).enqueue(),
    "flow.cancel": lambda app, id: flow_of(app).cancel(),
    "cancel": lambda app, id: app.cancel(id),
    "replay": lambda app, id: app.replay(id, payload={}),
    "discard": lambda app, id: app.discard(id),
    "schedule": lambda app, id: app.schedule("nightly", 60, app.definitions["pay"].build(1)),
    "queue": lambda app, id: app.queue("default").pause(),
    "tenant": lambda app, id: app.tenant("acme").pause(),
    "sweep": lambda app, id: app.fleet.sweep(),
    "purge": lambda app, id: app.fleet.purge(),
    "from a thread": lambda app, id: asyncio.to_thread(app.sync.send, "unknown"),
    "a second transaction": lambda app, id: transactions.joining(app.made()).transaction().__aenter__(),
    "another app on the file": lambda app, id: Tenure(app.url).send("unknown"),
}


def flow_of(app: Tenure) -> Flow:
    flow = app.flow()
    flow.add(app.definitions["pay"].build(1))
    return flow


@pytest.mark.parametrize("write", WRITES)
def test_a_plain_write_inside_would_wait_for_itself(
    app: Tenure, connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """It is refused at once, not when the transaction's time is up: here that never comes."""
    monkeypatch.setattr(transactions, "LONGEST_SECONDS", None)

    @app.job(max_attempts=1)
    async def ship(ctx: Context) -> None:
        async with ctx.transaction():
            await WRITES[write](app, ctx.id)

    async def main() -> None:
        async with app, app.worker():
            with pytest.raises(JobFailed, match=r"NotReady: inside ctx\.transaction\(\).* use tx\.enqueue"):
                await (await ship.enqueue()).result(PATIENCE)

    asyncio.run(main())


def test_reading_inside_goes_on(app: Tenure, connection: sqlite3.Connection) -> None:
    @app.job(max_attempts=1)
    async def ship(ctx: Context) -> list[str]:
        async with ctx.transaction() as tx:
            tx.result = [job.job_type for job in await app.jobs()]
            await app.definitions["pay"].options(connection=tx.connection).enqueue(1)
        return []

    async def main() -> None:
        async with app, app.worker() as worker:
            assert await (await ship.enqueue()).result(PATIENCE) == ["ship"]
            await worker.idle()
            assert [job.job_type for job in await app.jobs(state="succeeded")] == ["pay", "ship"]

    asyncio.run(main())


def test_another_store_can_be_written_inside(app: Tenure, connection: sqlite3.Connection, tmp_path: Path) -> None:
    other = Tenure(f"sqlite:///{tmp_path}/other.db")

    @app.job(max_attempts=1)
    async def ship(ctx: Context) -> None:
        async with ctx.transaction():
            await other.send("elsewhere")

    async def main() -> None:
        async with app, other, app.worker():
            await (await ship.enqueue()).result(PATIENCE)
            assert [job.job_type for job in await other.jobs()] == ["elsewhere"]

    asyncio.run(main())


def test_a_task_that_outlives_the_transaction_may_write_again(app: Tenure, connection: sqlite3.Connection) -> None:
    @app.job(max_attempts=1)
    async def ship(ctx: Context) -> None:
        ended = asyncio.Event()

        async def later() -> None:
            await ended.wait()
            await app.definitions["pay"].enqueue(1)

        async with ctx.transaction():
            task = asyncio.create_task(later())
        ended.set()
        await task

    async def main() -> None:
        async with app, app.worker() as worker:
            await ship.enqueue()
            await worker.idle()
            assert sorted(job.job_type for job in await app.jobs(state="succeeded")) == ["pay", "ship"]

    asyncio.run(main())


# Large payloads


TEXT = "x" * 140_000
"""More than lies in a record."""


@pytest.mark.parametrize("sync", [True, False])
def test_a_large_payload_lies_in_the_blob_store(tmp_path: Path, sync: bool) -> None:
    blobs = MemoryBlobs()
    app = Tenure(f"sqlite:///{tmp_path}/app.db", blobs=blobs)

    @app.job
    async def length(text: str) -> int:
        return len(text)

    app.sync.queue("default").resume()  # opens the store once
    app.sync.close()
    connection = sqlite3.connect(tmp_path / "app.db")
    if sync:
        length.sync.options(connection=connection).enqueue(TEXT)
    else:

        async def enqueue() -> None:
            await length.options(connection=connection).enqueue(TEXT)

        asyncio.run(enqueue())
    connection.commit()
    connection.close()

    async def main() -> None:
        async with app, app.worker():
            (job,) = await app.jobs()
            assert (await app.view(job.id)).job.spec.codec == "json.blob"
            assert await app.handle(job.id).result(PATIENCE) == len(TEXT)

    asyncio.run(main())


def test_a_result_of_the_wrong_type_fails_the_job_and_commits_nothing(
    app: Tenure, connection: sqlite3.Connection
) -> None:
    @app.job
    async def ship(ctx: Context, order: int) -> int:
        async with ctx.transaction() as tx:
            tx.connection.execute("INSERT INTO orders VALUES (?)", (order,))
            tx.result = "shipped"
        return order

    async def main() -> None:
        async with app, app.worker():
            with pytest.raises(JobFailed, match=r"invalid_result.*result of ship can't be kept: Expected `int`"):
                await ship.call(7)

    asyncio.run(main())
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
