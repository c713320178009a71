"""Natural batching: jobs of many callers leave together, and nobody pays for another's trouble."""

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import msgspec
import pytest

from tenure import InvalidValue, OutcomeUnknown, Tenure
from tenure.domain.errors import StoreUnavailable
from tenure.domain.job import NewJob
from tenure.engine import client
from tests.engine.kit import Between, Meddle


@pytest.fixture
def add(app: Tenure) -> Any:
    @app.job
    async def add(n: int = 0, padding: str = "") -> None: ...

    return add


def sizes(between: Between) -> list[int]:
    """How many jobs each call to the store carried."""
    return [len(jobs) for jobs in between.of("enqueue")]


async def numbers(app: Tenure) -> list[int]:
    """What is in the store, oldest first."""
    return [job.payload["n"] for job in reversed(await app.jobs())]


async def test_an_idle_process_sends_at_once(add: Any, between: Between) -> None:
    await add.enqueue(1)
    await add.enqueue(2)
    assert sizes(between) == [1, 1]


async def test_what_comes_while_a_call_is_on_its_way_leaves_together(app: Tenure, add: Any, between: Between) -> None:
    held = between.hold("enqueue")
    first = asyncio.create_task(add.enqueue(0))
    await held.came.wait()
    others = [asyncio.create_task(add.enqueue(n)) for n in range(1, 200)]
    await asyncio.sleep(0)
    held.let_go()
    handles = await asyncio.gather(first, *others)
    assert sizes(between) == [1, 199]
    assert len({handle.id for handle in handles}) == 200
    assert await numbers(app) == list(range(200))


async def test_a_flush_carries_at_most_1000_jobs(app: Tenure, add: Any, between: Between) -> None:
    held = between.hold("enqueue")
    first = asyncio.create_task(add.enqueue(0))
    await held.came.wait()
    many = asyncio.create_task(app.enqueue_many([add.build(n) for n in range(1, 2_301)]))
    others = [asyncio.create_task(add.enqueue(n)) for n in range(2_301, 2_401)]
    await asyncio.sleep(0)
    held.let_go()
    await asyncio.gather(first, many, *others)
    assert max(sizes(between)) == 1_000
    found = await numbers(app)
    assert sorted(found) == list(range(2_401))
    assert [n for n in found if n < 2_301] == list(range(2_301)), (
        "one caller's jobs are in order, whoever comes between"
    )


async def test_a_flush_carries_at_most_4_mib(app: Tenure, add: Any, between: Between) -> None:
    large = "x" * 200_000
    handles = await app.enqueue_many([add.build(n, padding=large) for n in range(50)])
    assert len(handles) == 50
    assert sizes(between) == [20, 20, 10]
    for jobs in between.of("enqueue"):
        assert sum(len(job.payload) for job in jobs) <= client.FLUSH_BYTES


async def test_a_cancelled_caller_leaves_the_batch_alone(app: Tenure, add: Any, between: Between) -> None:
    held = between.hold("enqueue")
    callers = [asyncio.create_task(add.enqueue(0))]
    await held.came.wait()
    callers += [asyncio.create_task(add.enqueue(n)) for n in range(1, 5)]
    await asyncio.sleep(0)
    callers[0].cancel()  # on its way
    callers[3].cancel()  # still waiting
    held.let_go()
    done = await asyncio.gather(*callers, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in done] == [True, False, False, True, False]
    assert await numbers(app) == list(range(5))


async def test_the_buffer_is_bounded_and_enqueue_waits(
    app: Tenure, add: Any, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "WAITING_JOBS", 10)
    await app.opened()
    held = between.hold("enqueue")
    callers = [asyncio.create_task(add.enqueue(n)) for n in range(50)]
    await held.came.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    enqueuer = await app.enqueuer()
    assert enqueuer._jobs_waiting == 10
    held.let_go()
    await asyncio.gather(*callers)
    assert max(sizes(between)) <= 10
    assert sorted(await numbers(app)) == list(range(50))


async def test_one_whose_data_breaks_the_call_is_alone_in_the_end(app: Tenure, add: Any, between: Between) -> None:
    async def poisoned(verb: Meddle, jobs: Sequence[NewJob], *, atomic: bool) -> Any:
        if any(b'"n":13' in job.payload for job in jobs):
            raise ValueError("thirteen")
        return await verb(jobs, atomic=atomic)

    held = between.hold("enqueue")
    callers = [asyncio.create_task(add.enqueue(0))]
    await held.came.wait()
    callers += [asyncio.create_task(add.enqueue(n)) for n in range(1, 40)]
    await asyncio.sleep(0)
    between.meddle["enqueue"] = poisoned
    held.let_go()
    done = await asyncio.gather(*callers, return_exceptions=True)
    assert [n for n, one in enumerate(done) if isinstance(one, BaseException)] == [13]
    assert str(done[13]) == "thirteen"
    assert sorted(await numbers(app)) == [n for n in range(40) if n != 13]
    assert sizes(between)[1] == 39, "they left together"
    assert len(sizes(between)) < 20, "halved, not one by one"


async def test_an_unknown_outcome_is_asked_about_again_with_the_same_jobs(
    app: Tenure, add: Any, between: Between
) -> None:
    """The call took effect and its answer was lost: the second answer is that of the first."""
    answers: list[Any] = []

    async def lost(verb: Meddle, jobs: Sequence[NewJob], *, atomic: bool) -> Any:
        answers.append(await verb(jobs, atomic=atomic))
        if len(answers) < 3:
            raise OutcomeUnknown()
        return answers[-1]

    between.meddle["enqueue"] = lost
    handle = await add.enqueue(1)
    first, second, third = between.of("enqueue")
    assert first == second == third
    assert handle.created
    assert await numbers(app) == [1]


async def test_an_outcome_that_stays_unknown_is_told_to_each_with_its_own_jobs(
    app: Tenure, add: Any, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "DEADLINE_SECONDS", 0.0)
    held = between.hold("enqueue")
    first = asyncio.create_task(add.enqueue(0))
    await held.came.wait()
    others = [asyncio.create_task(add.enqueue(n)) for n in (1, 2)]
    await asyncio.sleep(0)
    between.fail("enqueue", times=1, error=OutcomeUnknown())
    held.let_go()
    done = await asyncio.gather(first, *others, return_exceptions=True)
    sent = between.of("enqueue")[1]
    assert len(sent) == 2
    assert [one.ids for one in done[1:] if isinstance(one, OutcomeUnknown)] == [(job.id,) for job in sent]


async def test_a_store_that_is_away_is_told_at_once_and_the_next_call_goes_through(
    app: Tenure, add: Any, between: Between
) -> None:
    between.fail("enqueue", times=1)
    with pytest.raises(StoreUnavailable, match="the store is away"):
        await add.enqueue(1)
    assert (await add.enqueue(2)).created
    assert await numbers(app) == [2]


async def test_closing_waits_for_what_is_on_its_way(app: Tenure, add: Any, between: Between) -> None:
    held = between.hold("enqueue")
    caller = asyncio.create_task(add.enqueue(1))
    await held.came.wait()
    closing = asyncio.create_task(app.close())
    await asyncio.sleep(0)
    assert not closing.done()
    held.let_go()
    await closing
    assert (await caller).created


def test_each_event_loop_has_its_own_way_to_the_store(app: Tenure, add: Any) -> None:
    for n in range(3):
        asyncio.run(add.enqueue(n))
    assert asyncio.run(numbers(app)) == [0, 1, 2]


@pytest.mark.parametrize(("ahead", "at_once"), [(1, [1_000]), (3, [1_000, 1_000])], ids=["one", "three"])
async def test_full_batches_leave_ahead_of_an_answer_if_the_store_keeps_their_order(
    app: Tenure, add: Any, between: Between, ahead: int, at_once: list[int]
) -> None:
    """One that isn't full waits: more may come to go with it."""
    (await app.enqueuer())._ahead = ahead
    held = between.hold("enqueue")
    many = asyncio.create_task(app.enqueue_many([add.build(n) for n in range(2_500)]))
    await between.called("enqueue", len(at_once))
    for _ in range(10):
        await asyncio.sleep(0)
    assert sizes(between) == at_once
    held.let_go()
    await many
    assert sizes(between) == [1_000, 1_000, 500]
    assert await numbers(app) == list(range(2_500))


async def test_nothing_of_many_jobs_leaves_if_one_of_them_is_wrong(app: Tenure, add: Any, between: Between) -> None:
    calls = [add.build(n) for n in range(2_500)]
    calls[2_400] = add.build("many")
    with pytest.raises(InvalidValue):
        await app.enqueue_many(calls)
    assert sizes(between) == []


# An iterator


async def test_an_iterator_is_read_while_its_first_jobs_are_on_their_way(
    app: Tenure, add: Any, between: Between
) -> None:
    read: list[int] = []

    def calls() -> Iterator[Any]:
        for n in range(50_000):
            read.append(n)
            yield add.build(n)

    held = between.hold("enqueue")
    many = asyncio.create_task(app.enqueue_many(calls()))
    await held.came.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert client.WAITING_JOBS <= len(read) < 15_000, "not more than may wait"
    held.let_go()
    handles = await many
    assert [handle.created for handle in handles] == [True] * 50_000
    assert max(sizes(between)) == 1_000
    for n in (0, 999, 1_000, 31_234, 49_999):
        assert (await handles[n].get()).payload["n"] == n


async def test_an_iterator_may_give_jobs_of_several_kinds_and_tenants(app: Tenure, add: Any) -> None:
    ways = [add, add.options(priority=3), add.options(tenant="acme"), add.options(key="one")]
    calls = [ways[n % 4].build(3 if n % 4 == 3 else n) for n in range(1_500)]
    calls += [add.build(n) for n in range(1_500, 3_000)]
    handles = await app.enqueue_many(call for call in calls)
    assert len(handles) == 3_000
    seen = [await handles[n].get() for n in (1_400, 1_401, 1_402, 2_999)]
    assert [(job.payload["n"], job.priority, job.tenant) for job in seen] == [
        (1_400, 0, "default"),
        (1_401, 3, "default"),
        (1_402, 0, "acme"),
        (2_999, 0, "default"),
    ]
    assert {handle.id for handle in handles[3:1_500:4]} == {handles[3].id}, "the second of a key is the first"
    assert (await handles[1_403].get()).payload["n"] == 3


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_an_iterator_of_few(app: Tenure, add: Any, count: int) -> None:
    assert len(await app.enqueue_many(add.build(n) for n in range(count))) == count
    assert await numbers(app) == list(range(count))


async def test_what_goes_wrong_in_an_iterator_is_told_once_the_jobs_before_are_in(app: Tenure, add: Any) -> None:
    await app.queue("default").configure(max_depth=1_900)

    def calls() -> Iterator[Any]:
        yield from (add.build(n) for n in range(2_500))
        raise RuntimeError("the file ends here")

    with pytest.raises(RuntimeError) as told:
        await app.enqueue_many(calls())
    assert told.value.__notes__ == ["1,900 jobs before it are in, 100 were refused"]
    assert await numbers(app) == list(range(1_900))


async def test_an_invalid_call_of_an_iterator_is_told_once_the_jobs_before_are_in(app: Tenure, add: Any) -> None:
    with pytest.raises(InvalidValue) as told:
        await app.enqueue_many(add.build(n if n < 2_400 else "many") for n in range(2_500))
    assert told.value.__notes__ == ["2,000 jobs before it are in"]
    assert await numbers(app) == list(range(2_000))


async def test_an_iterator_gives_no_jobs_of_a_users_transaction(app: Tenure, add: Any) -> None:
    with closing(sqlite3.connect(":memory:")) as connection, connection:
        calls = [add.build(n) for n in range(2_000)] + [add.options(connection=connection).build(1)]
        with pytest.raises(InvalidValue, match="one by one"):
            await app.enqueue_many(iter(calls))


# Jobs of one kind


@pytest.mark.parametrize(
    "options",
    [{}, {"priority": 7}, {"delay": 60}, {"labels": {"a": "b"}}, {"expires": 60}, {"max_attempts": 9}],
    ids=lambda options: next(iter(options), "none"),
)
async def test_many_jobs_of_one_kind_are_as_if_each_had_been_enqueued_alone(
    app: Tenure, add: Any, options: dict[str, Any]
) -> None:
    """But for what tells any two jobs apart."""

    def shown(job: Any) -> dict[str, Any]:
        found = msgspec.structs.asdict(job)
        for name in ("id", "payload", "enqueued_at"):
            del found[name]
        return {**found, "run_at": job.run_at - job.enqueued_at}

    ways = add.options(**options)
    alone = await ways.enqueue(0)
    handles = await app.enqueue_many([ways.build(n) for n in range(client.FLUSH_JOBS + 1)])
    expected = shown(await alone.get())
    for n in (0, 500, client.FLUSH_JOBS):
        job = await handles[n].get()
        assert job.payload["n"] == n
        assert shown(job) == expected


async def test_of_many_jobs_with_one_key_the_first_is_created(app: Tenure, add: Any) -> None:
    keyed = add.options(key="one")
    handles = await app.enqueue_many([keyed.build(5) for _ in range(client.FLUSH_JOBS + 1)])
    assert [handle.created for handle in handles] == [True] + [False] * client.FLUSH_JOBS
    assert {handle.id for handle in handles} == {handles[0].id}
    assert await numbers(app) == [5]


async def test_a_caller_that_is_cancelled_while_it_sends_itself_leaves_its_job(
    app: Tenure, add: Any, between: Between
) -> None:
    """Whatever became of the call: the same job again is safe (§5a)."""
    over = between.fail("enqueue", times=1, error=OutcomeUnknown())
    calling = asyncio.create_task(add.enqueue(7))
    await over.wait()
    await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await (await app.enqueuer()).close()
    assert await numbers(app) == [7]
