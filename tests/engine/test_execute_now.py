"""Running a job here and now, for tests: the same checks, no store, and whatever the handler raises."""

import pytest

from tenure import Context, Fail, InvalidValue, Snooze, Tenure
from tests.engine.kit import Between


async def test_a_handler_runs_with_its_arguments_decoded_and_touches_no_store(app: Tenure, between: Between) -> None:
    @app.job(queue="mail", max_attempts=7, labels={"a": "1"})
    async def work(ctx: Context, items: tuple[int, ...], scale: int = 2) -> list[int]:
        assert isinstance(items, tuple)
        assert (ctx.attempt, ctx.max_attempts, ctx.queue, ctx.labels) == (1, 7, "mail", {"a": "1"})
        await ctx.progress(0.5, "half")
        await ctx.enqueue(work.build((1,)))
        ctx.check_cancelled()
        return [scale * item for item in items]

    assert await app.execute_now(work.build((1, 2))) == [2, 4]
    assert await app.execute_now(work.options(tenant="acme").build((1, 2), scale=3)) == [3, 6]
    assert between.calls == []


async def test_a_handler_sees_the_id_that_was_made_for_its_job(app: Tenure) -> None:
    @app.job
    async def work(ctx: Context) -> str:
        return ctx.id

    id = app.new_id()
    assert await app.execute_now(work.options(id=id).build()) == id


async def test_a_plain_function_runs_in_a_thread(app: Tenure) -> None:
    @app.job
    def work(ctx: Context, n: int) -> str:
        return f"{ctx.tenant} {n}"

    assert await app.execute_now(work.options(tenant="acme").build(7)) == "acme 7"


@pytest.mark.parametrize("error", [ValueError("boom"), Fail("never"), Snooze(after=5), KeyboardInterrupt()])
async def test_what_a_handler_raises_comes_out_as_it_is(app: Tenure, error: BaseException) -> None:
    @app.job
    async def work() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        await app.execute_now(work.build())
    assert raised.value is error


async def test_wrong_arguments_are_refused_here_too(app: Tenure) -> None:
    @app.job
    async def work(n: int) -> None: ...

    with pytest.raises(InvalidValue, match="Expected `int`"):
        await app.execute_now(work.build("7"))  # type: ignore[arg-type]  # the subject of the test
    with pytest.raises(InvalidValue, match="priority 101"):
        await app.execute_now(work.options(priority=101).build(7))


async def test_what_a_handler_makes_is_its_tenants(app: Tenure) -> None:
    @app.job
    async def other() -> None: ...

    @app.job
    async def work() -> str:
        return (await other.enqueue()).tenant

    assert await app.execute_now(work.options(tenant="acme").build()) == "acme"
    assert (await other.enqueue()).tenant == "default"
