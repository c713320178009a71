"""What the tests of app and worker share: every store under a clock moved by hand, and an app on it.

`async def` tests run on a loop of their own. A test of real time says so: `@pytest.mark.parametrize("clock", [REAL])`.
"""

import asyncio
import inspect
from collections.abc import Coroutine, Iterator
from typing import Any, cast

import pytest

from tenure import Settings, Tenure
from tenure.domain.store import Clock, Store
from tenure.testing.clock import ManualClock
from tenure.testing.factories import MemoryFactory, PostgresFactory, SqliteFactory
from tenure.testing.factory import StoreFactory
from tests.engine.kit import Between

HANGS_SECONDS = 30
"""A test that takes this long waits for what will never come."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(_whole(pyfuncitem.obj(**arguments)))
    return True


async def _whole(test: Coroutine[Any, Any, None]) -> None:
    """The test, after which nothing of ours may be left running: every task has an owner that awaits it."""
    async with asyncio.timeout(HANGS_SECONDS):
        await test
    for _ in range(3):
        await asyncio.sleep(0)
    left = sorted(name for task in asyncio.all_tasks() if (name := task.get_name()).startswith("tenure"))
    assert not left, f"left running: {left}"


@pytest.fixture
def clock() -> Clock:
    """The store's clock: it stands still until a test moves it."""
    return ManualClock()


@pytest.fixture(params=[MemoryFactory, SqliteFactory, PostgresFactory], ids=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Store]:
    if request.param is PostgresFactory:
        request.getfixturevalue("postgres_url")
    factory: StoreFactory = request.param()
    store = asyncio.run(factory.create(clock))
    if store.capabilities.multi_host:  # whoever begins to listen to a server is told once to look again
        asyncio.run(store.wait(["queue/none"], HANGS_SECONDS))
    yield store
    asyncio.run(factory.destroy(store))


@pytest.fixture
def between(store: Store) -> Between:
    """The store as the app sees it: it counts calls, and breaks where a test wants it to."""
    return Between(store)


@pytest.fixture
def settings() -> Settings:
    return Settings(shutdown_grace=5, cancel_grace=5)


@pytest.fixture
def app(between: Between, settings: Settings) -> Tenure:
    return Tenure(store=cast(Store, between), settings=settings)
