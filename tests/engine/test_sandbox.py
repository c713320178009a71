"""The sandbox that users test with, and its pytest plugin."""

import asyncio
from pathlib import Path

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
            await greet.enqueue("ann")
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
