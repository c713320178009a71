"""In the user's transaction: what is rolled back was never enqueued, and a handler's writes end its job."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tenure import Context, InvalidValue, JobFailed, Tenure, Unsupported
from tenure.domain.errors import JobCancelled
from tenure.domain.states import State

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


async def _flow(app: Tenure) -> None:
    flow = app.flow()
    flow.add(app.definitions["pay"].build(1))
    await flow.enqueue()


@pytest.mark.parametrize(
    "enqueue",
    [lambda app: app.definitions["pay"].enqueue(1), lambda app: app.send("unknown"), _flow],
    ids=["job", "by name", "flow"],
)
def test_a_plain_enqueue_inside_would_wait_for_itself(
    app: Tenure, connection: sqlite3.Connection, enqueue: Callable[[Tenure], Awaitable[object]]
) -> None:
    @app.job(max_attempts=1)
    async def ship(ctx: Context) -> None:
        async with ctx.transaction():
            await enqueue(app)

    async def main() -> None:
        async with app, app.worker():
            with pytest.raises(JobFailed, match=r"use tx\.enqueue"):
                await (await ship.enqueue()).result(PATIENCE)

    asyncio.run(main())
