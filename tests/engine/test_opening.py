"""Stores by their URL, and apps that open and close them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tenure import InvalidValue, Tenure, Unsupported
from tenure.domain.errors import StoreUnavailable
from tenure.stores import opening
from tenure.stores.memory import MemoryStore
from tenure.stores.opening import open_store
from tenure.stores.sql.sqlite import SqliteStore
from tests.engine.kit import Between


def test_the_embedded_stores() -> None:
    assert isinstance(open_store("memory://"), MemoryStore)
    assert isinstance(open_store("sqlite:///jobs.db"), SqliteStore)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///jobs.db", "jobs.db"),
        ("sqlite:///a/b%20c.db", "a/b c.db"),
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("sqlite:///caf%C3%A9.db", "café.db"),
        ("sqlite:///50%25.db", "50%.db"),
        ("sqlite:///me@home.db", "me@home.db"),
    ],
)
def test_a_file_is_named_by_its_path(url: str, path: str) -> None:
    store: Any = open_store(url)
    assert store._file.path == Path(path).absolute()


@pytest.mark.parametrize("scheme", ["redis", "rediss", "valkey", "valkeys"])
def test_a_store_that_is_not_there_yet_is_refused_with_those_that_are(scheme: str) -> None:
    with pytest.raises(Unsupported) as refused:
        open_store(f"{scheme}://host")
    said = str(refused.value)
    assert said.startswith(
        f"Tenure has no store for {scheme}:// yet; the stores that are there: memory://, sqlite://, "
    )
    assert "pip" not in said


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_missing_extra_is_named(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "find_spec", lambda name: None)
    with pytest.raises(Unsupported, match=rf"{scheme}:// needs the extra 'postgres': pip install 'tenure\["):
        open_store(f"{scheme}://user:secret@host/db")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "give memory://, sqlite:///path/to/jobs.db or postgresql://host/db"),
        ("jobs.db", "url 'jobs.db': give memory://"),
        ("sqlite:jobs.db", "give memory://, sqlite:///"),
        ("mysql://localhost/db", "no store is known for mysql://; known are memory://, sqlite://"),
        ("://x", "no store is known for ://"),
        ("memory://name", "a memory store has no name"),
        ("sqlite://jobs.db", "a file has no host; give sqlite:///jobs.db with three slashes"),
        ("sqlite://host/jobs.db", "a file has no host"),
        ("sqlite://", "name the file, as in sqlite:///jobs.db"),
        ("sqlite:///", "name the file, as in sqlite:///jobs.db"),
        ("sqlite:///a%00b", "name the file"),
        ("sqlite:///:memory:", "a store in memory is memory://"),
        ("sqlite:///jobs.db?mode=ro", "no options are known for a file"),
        ("sqlite:///jobs.db#x", "no options are known for a file"),
        ("http://[::1", "no store is known for http://"),
        ("postgresql://host/db?schema=Shop", "schema 'Shop': give up to 48 of a-z, 0-9 and _"),
        ("postgresql://host/db?schema=", "schema ''"),
        ("postgresql://host/db?schema=1st", "not beginning with a digit"),
        ("postgresql://[::1/db", "url: "),
        ("postgresql://host/db?nonsense=1", 'invalid URI query parameter: "nonsense"'),
    ],
)
def test_a_url_that_names_no_store_says_what_to_give(url: str, says: str) -> None:
    with pytest.raises(InvalidValue, match=says):
        open_store(url)


@pytest.mark.parametrize("url", [Path("jobs.db"), 5, b"memory://"])
def test_what_is_no_url_is_refused(url: Any) -> None:
    with pytest.raises(InvalidValue, match="url: give a string, not"):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:hunter2@host/db",
        "mysql://user:hun@ter2/hunter2@host/db",
        "mysql://:hunter2@host/db",
        "mysql://hunter2@host/db",
        "mysql://host/db?password=hunter2",
        "mysql://host/db?sslmode=x#hunter2",
        "user:hunter2@host/db",
        "sqlite://user:hunter2@host/jobs.db",
        "sqlite://hunter2@host",
        "sqlite:///jobs.db?key=hunter2",
        "memory://user:hunter2@host",
        "redis://user:hunter2@host",
        "postgresql://user:hunter2@host/db?schema=No",
        "postgresql://user:hunter2@host/db?nonsense=1",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises((InvalidValue, Unsupported)) as refused:
        open_store(url)
    shown = f"{refused.value} {refused.value!r} {refused.value.__cause__}"
    assert "hunter2" not in shown


def test_other_peoples_stores_bring_their_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name = "theirs"

        def load(self) -> Any:
            return lambda url: f"the store at {url}"

    monkeypatch.setattr(opening, "entry_points", lambda group: [Point()] if group == "tenure.stores" else [])
    assert open_store("theirs://x") == "the store at theirs://x"  # type: ignore[comparison-overlap]  # a stand-in


# Apps


async def test_opening_is_lazy_and_a_closed_app_opens_again(tmp_path: Path) -> None:
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")

    @app.job
    async def work(n: int) -> int:
        return n

    assert list(tmp_path.iterdir()) == []
    async with app:
        handle = await work.enqueue(7)
    again = await app.get(handle.id)
    assert again.payload == {"n": 7}
    async with app.worker():
        assert await work.call(8) == 8
    await app.close()
    await app.close()


async def test_a_store_that_was_given_stays_open(app: Tenure) -> None:
    async with app:
        await app.send("work")
    assert len(await app.jobs()) == 1


def test_an_app_shows_no_url(tmp_path: Path) -> None:
    assert "secret" not in repr(Tenure(f"sqlite:///{tmp_path}/secret.db"))


def test_an_app_works_in_one_loop_after_the_other(tmp_path: Path) -> None:
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")
    for _ in range(3):
        asyncio.run(_used(app))
    assert asyncio.run(_used(app)) == 4


async def _used(app: Tenure) -> int:
    async with app:
        await app.send("work")
        return len(await app.jobs())


# The first callers


async def test_many_first_callers_open_the_store_once(app: Tenure, between: Between) -> None:
    held = between.hold("migrate")
    callers = [asyncio.create_task(app.send("work")) for _ in range(5)]
    await held.came.wait()
    held.let_go()
    await asyncio.gather(*callers)
    assert len(await app.jobs()) == 5
    assert verbs(between).count("migrate") == 1


async def test_a_first_caller_that_fails_fails_alone(app: Tenure, between: Between) -> None:
    between.fail("migrate", times=1)
    first, *others = [asyncio.create_task(app.send("work")) for _ in range(3)]
    with pytest.raises(StoreUnavailable):
        await first
    await asyncio.gather(*others)
    assert verbs(between).count("migrate") == 2


async def test_a_first_caller_that_goes_takes_nobody_along(app: Tenure, between: Between) -> None:
    held = between.hold("migrate")
    first, *others = [asyncio.create_task(app.send("work")) for _ in range(3)]
    await held.came.wait()
    first.cancel()
    held.let_go()
    await asyncio.gather(*others)
    assert (first.cancelled(), len(await app.jobs())) == (True, 2)


def test_loops_that_have_ended_are_let_go(tmp_path: Path) -> None:
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")

    async def use() -> None:
        await asyncio.gather(app.send("work"), app.send("work"))

    for _ in range(3):
        asyncio.run(use())
    assert len(app._enqueuers) == len(app._opening) == 1
    app.sync.close()


def verbs(between: Between) -> list[str]:
    return [verb for verb, _ in between.calls]


def test_what_isnt_ours_in_a_servers_url_stays_as_it_was() -> None:
    """libpq reads a plus sign as one, and a space as %20."""
    store: Any = open_store("postgresql://host/db?options=-c%20a%3Db+c&schema=shop&sslmode=require")
    assert store._server.schema == "shop"
    assert store._server._address == "postgresql://host/db?options=-c%20a%3Db+c&sslmode=require"


async def test_a_function_says_where_the_store_is_now(tmp_path: Path) -> None:
    where = tmp_path / "one.db"
    app = Tenure(lambda: f"sqlite:///{where}")

    @app.job
    async def add(n: int) -> None: ...

    async def numbers() -> list[int]:
        return [job.payload["n"] for job in await app.jobs()]

    await add.enqueue(1)
    left = app.made()
    where = tmp_path / "two.db"
    assert app.url == f"sqlite:///{where}"
    assert await numbers() == []
    with pytest.raises(StoreUnavailable, match="was closed"):
        await left.get([("default", app.new_id())])
    await add.enqueue(2)
    assert await numbers() == [2]
    with app.on_store(MemoryStore()):
        where = tmp_path / "one.db"
        assert await numbers() == []
    assert await numbers() == [1]
    await app.close()
