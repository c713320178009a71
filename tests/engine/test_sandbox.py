"""The sandbox that users test with, and its pytest plugin."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tenure import Context, Tenure
from tenure.domain.errors import NotReady
from tenure.testing.sandbox import Sandbox, sandbox

pytest_plugins = ["pytester"]

app = Tenure("sqlite:///never-made.db")


@app.job(queue="mail")
async def greet(name: str) -> str:
    if name == "twice":
        await greet.enqueue("once more")
    return f"hello {name}"


@dataclass
class Order:
    name: str
    sizes: tuple[int, ...]


class Opaque(msgspec.Struct, eq=False):
    """Two of it are never equal."""

    n: int


@app.job
async def book(order: Order, id: UUID, at: datetime, pair: tuple[int, str], own: Opaque, marks: int = 5) -> None: ...


@app.job
async def ring(times: int) -> None: ...


@app.job(queue="third")
async def third() -> None: ...


@app.job(queue="second")
async def second(ctx: Context) -> None:
    await ctx.enqueue(third.build())


@app.job(queue="first")
async def first(ctx: Context) -> None:
    await ctx.enqueue(second.build())
    await ctx.enqueue(greet.options(delay=60).build("later"))


def sign_up(name: str) -> None:
    """What a user would test."""
    greet.sync.options(tenant="acme").enqueue(name)


def test_what_was_enqueued_can_be_asserted() -> None:
    with sandbox(app) as queue:
        sign_up("ann")
        assert queue.assert_enqueued(greet, name="ann").tenant == "acme"
        with pytest.raises(AssertionError, match=r"greet\(name='bob'\) isn't enqueued; there are: greet"):
            queue.assert_enqueued(greet, name="bob")
        with pytest.raises(AssertionError, match="2 times"):
            queue.assert_enqueued("greet", times=2)
        with pytest.raises(AssertionError, match="1 jobs are enqueued"):
            queue.assert_nothing_enqueued()
    assert not Path("never-made.db").exists()


def test_arguments_of_any_type_that_can_be_sent_are_compared() -> None:
    id, at = UUID(int=7), datetime(2026, 11, 2, 8, tzinfo=UTC)
    given: dict[str, Any] = {"order": Order("a", (1, 2)), "id": id, "at": at, "pair": (1, "x"), "own": Opaque(3)}
    with sandbox(app) as queue:
        book.sync.enqueue(**given)
        assert queue.assert_enqueued(book, **given, marks=5, times=1).payload["pair"] == [1, "x"]
        for name, value in given.items():
            queue.assert_enqueued(book, **{name: value})
            queue.assert_enqueued("book", **{name: value})
        queue.assert_enqueued(book, at=at.astimezone(timezone(timedelta(hours=2))))
        wrong: dict[str, Any] = {"order": Order("b", (1, 2)), "id": UUID(int=8), "at": at + timedelta(seconds=1)}
        for name, value in {**wrong, "pair": (1, "y"), "own": Opaque(4), "marks": 6, "nothing": 1}.items():
            with pytest.raises(AssertionError, match=r"book\(.*\) isn't enqueued; there are: book"):
                queue.assert_enqueued(book, **{name: value})


def test_a_parameter_called_times_leaves_the_count_its_place() -> None:
    with sandbox(app) as queue:
        ring.sync.enqueue(times=3)
        ring.sync.enqueue(times=3)
        queue.assert_enqueued(ring, times=3)
        queue.assert_enqueued(ring, 2, times=3)
        with pytest.raises(AssertionError, match=r"ring\(times=3\) isn't enqueued 1 times"):
            queue.assert_enqueued(ring, 1, times=3)
        with pytest.raises(AssertionError, match=r"ring\(times=2\) isn't enqueued"):
            queue.assert_enqueued(ring, times=2)


def test_a_job_of_a_type_without_a_handler_is_compared_as_plain_data() -> None:
    with sandbox(app) as queue:
        app.sync.send("elsewhere", {"id": UUID(int=7), "n": 1})
        queue.assert_enqueued("elsewhere", id=UUID(int=7), times=1)
        queue.assert_enqueued("elsewhere", n=1)
        with pytest.raises(AssertionError, match="elsewhere"):
            queue.assert_enqueued("elsewhere", n=2)


def test_drain_runs_what_is_due_and_what_that_enqueues() -> None:
    with sandbox(app) as queue:
        queue.assert_nothing_enqueued()
        sign_up("twice")
        assert queue.drain() == 2
        assert {job.state for job in queue.jobs()} == {"succeeded"}
        assert queue.drain() == 0


def test_drain_goes_on_with_queues_that_had_no_jobs_when_it_began() -> None:
    with sandbox(app) as queue:
        first.sync.enqueue()
        assert queue.drain() == 3
        assert [job.job_type for job in queue.jobs(state="pending")] == ["greet"]
        queue.advance(60)
        assert queue.drain() == 1


def test_drain_fires_schedules_that_are_due() -> None:
    with sandbox(app) as queue:
        app.sync.schedule("often", 60, third.build())
        assert queue.drain() == 0
        queue.advance(60)
        assert queue.drain() == 1
        assert queue.drain() == 0


def test_time_passes_when_the_test_says_so() -> None:
    with sandbox(app) as queue:
        greet.sync.options(delay=3600).enqueue("later")
        assert queue.drain() == 0
        queue.advance(3600)
        assert queue.drain() == 1


def test_the_same_from_an_async_test() -> None:
    async def main() -> None:
        with sandbox(app) as queue:
            await queue.assert_nothing_enqueued_async()
            with pytest.raises(NotReady, match="assert_nothing_enqueued_async"):
                queue.assert_nothing_enqueued()
            await greet.enqueue("ann")
            with pytest.raises(AssertionError, match="1 jobs are enqueued"):
                await queue.assert_nothing_enqueued_async()
            await queue.assert_enqueued_async(greet, name="ann")
            assert await queue.drain_async() == 1
            with pytest.raises(NotReady, match="drain_async"):
                queue.drain()

    asyncio.run(main())


def test_two_sandboxes_see_nothing_of_each_other() -> None:
    with sandbox(app) as first:
        sign_up("ann")
        with sandbox(app) as second:
            second.assert_nothing_enqueued()
        assert len(first.jobs()) == 1
        assert isinstance(first, Sandbox)


def test_the_plugin_finds_the_app(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        shop="from tenure import Tenure\napp = Tenure()\n@app.job\nasync def ship(n: int) -> None: ...\n",
        test_shop="""
            from shop import ship

            def test_it(tenure_sandbox):
                ship.sync.enqueue(3)
                tenure_sandbox.assert_enqueued(ship, n=3)
        """,
    )
    pytester.makeini("[pytest]\ntenure_app = shop:app\n")
    pytester.syspathinsert()
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_the_plugin_says_what_is_missing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(tenure_sandbox): ...")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*tell pytest which app to test*"])
