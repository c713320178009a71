"""A job from outside: how it stands, calling it off, lists and what is done to many, replay."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import pytest

from tenure import Fail, InvalidValue, JobNotFound, Tenure
from tenure.domain import calls
from tenure.domain.errors import (
    AlreadyReplayed,
    JobCancelled,
    JobFinished,
    NotDeadLettered,
    NotPending,
)
from tenure.domain.job import Failure, Progress
from tenure.engine.handle import CancelResult
from tenure.testing.clock import START, ManualClock
from tests.engine.kit import Between, claim, settle

NOW = datetime.fromtimestamp(START / 1_000, UTC)
UNKNOWN = "01900000-0000-7000-8000-000000000001"


@pytest.fixture
def work(app: Tenure) -> Any:
    @app.job
    async def work(n: int = 0) -> int:
        if n < 0:
            raise Fail("negative")
        return n

    return work


async def test_a_job_tells_its_whole_story(app: Tenure, clock: ManualClock) -> None:
    @app.job(max_attempts=2, labels={"team": "crm"})
    async def stumble(n: int) -> None: ...

    handle = await stumble.options(key="k", priority=3).enqueue(7)
    (claimed,) = await claim(app)
    clock.advance(1_000)
    running = await handle.get()
    assert (running.state, running.status, running.attempt, running.worker) == ("running", "running", 1, "hand")
    assert running.lease_until == NOW + timedelta(seconds=60)

    await settle(app, claimed.token, calls.Retry(Failure("ValueError", "boom"), 5_000))
    waiting = await handle.get()
    assert (waiting.state, waiting.status, waiting.run_at) == ("pending", "retrying", NOW + timedelta(seconds=6))
    assert waiting.last_error == Failure("ValueError", "boom")

    clock.advance(5_000)
    (claimed,) = await claim(app)
    await settle(app, claimed.token, calls.Retry(Failure("KeyError"), 0))
    failed = await handle.get()
    assert (failed.state, failed.reason, failed.attempt, failed.dead_letter) == ("failed", "exhausted", 2, "open")
    assert [(one.attempt, one.reason, one.error) for one in failed.history] == [
        (1, "error", Failure("ValueError", "boom")),
        (2, "exhausted", Failure("KeyError")),
    ]
    assert (failed.enqueued_at, failed.finished_at) == (NOW, NOW + timedelta(seconds=6))
    assert [(one.claimed_at, one.ended_at) for one in failed.history] == [
        (NOW, NOW + timedelta(seconds=1)),
        (NOW + timedelta(seconds=6), NOW + timedelta(seconds=6)),
    ]
    assert (failed.key, failed.priority, failed.labels, failed.payload) == ("k", 3, {"team": "crm"}, {"n": 7})


async def test_a_job_as_json_has_objects_with_the_names_of_its_fields(app: Tenure, clock: ManualClock) -> None:
    @app.job(max_attempts=2)
    async def stumble(n: int, user: UUID) -> None: ...

    handle = await stumble.enqueue(7, UUID(int=9))
    (claimed,) = await claim(app)
    await settle(app, claimed.token, calls.Retry(Failure("ValueError", "boom"), 0))
    (claimed,) = await claim(app)
    store = await app.opened()
    await store.renew([calls.Renewal(claimed.token, Progress(0.5, "half"))])
    job = await handle.get(explain=True)
    told = job.to_dict()
    assert json.loads(json.dumps(told)) == told
    assert list(told) == list(job.__struct_fields__)
    assert (told["payload"], told["status"]) == ({"n": 7, "user": str(UUID(int=9))}, "running")
    assert told["progress"] == {"fraction": 0.5, "message": "half"} == Progress(0.5, "half").to_dict()
    assert told["last_error"] == {"family": "ValueError", "message": "boom"} == Failure("ValueError", "boom").to_dict()
    (attempt,) = told["history"]
    assert attempt == job.history[0].to_dict()
    assert (attempt["error"], attempt["reason"]) == (told["last_error"], "error")
    assert datetime.fromisoformat(attempt["claimed_at"]) == datetime.fromisoformat(told["enqueued_at"]) == NOW


async def test_explain_says_what_holds_a_job_back(app: Tenure, work: Any) -> None:
    handle = await work.options(delay=5).enqueue()
    await app.queue("default").pause()
    await app.tenant("default").pause()
    assert (await handle.get()).gates == ()
    assert (await handle.get(explain=True)).gates == ("scheduled", "tenant_paused", "queue_paused")


async def test_an_unknown_or_foreign_job_isnt_found(app: Tenure, work: Any) -> None:
    theirs = await work.options(tenant="acme").enqueue()
    for id in (theirs.id, UNKNOWN):
        for ask in (app.get(id), app.cancel(id), app.handle(id).result(1), app.replay(id), app.discard(id)):
            with pytest.raises(JobNotFound):
                await ask
        with pytest.raises(JobNotFound):
            await app.replay(id, payload={"n": 1})
        with pytest.raises(JobNotFound):
            await app.reschedule(id, delay=1)
    own = await work.enqueue()
    assert [job and job.id for job in await app.get_many([own.id, theirs.id, UNKNOWN])] == [own.id, None, None]
    assert (await theirs.get()).tenant == "acme"


async def test_a_payload_that_cant_be_decoded_here_is_none(app: Tenure, work: Any) -> None:
    class Reverse:
        name = "reverse"

        def encode(self, value: Any) -> bytes:
            return b"!" + app.codecs.get("json").encode(value)[::-1]

        def decode(self, body: bytes, type: Any = Any) -> Any:
            return app.codecs.get("json").decode(body[:0:-1], type)

    app.codec(Reverse())
    handle = await work.options(codec="reverse").enqueue(7)
    assert (await handle.get()).payload == {"n": 7}
    stranger = Tenure(store=await app.opened())
    assert (await stranger.get(handle.id)).payload is None


# Cancel


async def test_cancel_by_state(app: Tenure, work: Any) -> None:
    running, done = [await work.enqueue(n) for n in range(2)]
    first, second = await claim(app, n=2)
    assert await running.cancel() == CancelResult(True, True, cast(Any, "cancelled"))
    assert await settle(app, first.token, calls.Succeed(b"1")) == JobCancelled()
    await settle(app, second.token, calls.Succeed(b"2"))
    already = await done.cancel()
    assert (already.cancelled, already.state, bool(already)) == (False, "succeeded", False)
    again = await running.cancel()
    assert (again.cancelled, again.state, bool(again)) == (False, "cancelled", False)
    pending = await (await work.options(delay=5).enqueue()).cancel()
    assert (pending.cancelled, pending.was_running, bool(pending)) == (True, False, True)


async def test_a_request_only_asks_a_running_job(app: Tenure, work: Any) -> None:
    handle, waiting = await work.enqueue(), await work.options(delay=5).enqueue()
    (claimed,) = await claim(app)
    asked = await handle.cancel(mode="request")
    assert (asked.cancelled, asked.was_running, asked.state, bool(asked)) == (False, True, "running", True)
    assert (await handle.get()).cancel_requested
    assert (await waiting.cancel("request")).cancelled
    await settle(app, claimed.token, calls.Succeed(b"1"))
    assert await handle.result(5) == 1
    with pytest.raises(InvalidValue, match="mode 'kill': give 'now' or 'request'"):
        await handle.cancel(cast(Any, "kill"))


async def test_cancel_by_filter_calls_off_what_matches_and_lives(app: Tenure, work: Any) -> None:
    red = [await work.options(labels={"colour": "red"}, queue="a").enqueue() for _ in range(3)]
    blue = await work.options(labels={"colour": "blue"}, queue="a").enqueue()
    other = await work.options(labels={"colour": "red"}, tenant="acme").enqueue()
    await red[0].cancel()
    assert await app.cancel(labels={"colour": "red"}) == 2
    assert await app.cancel(queue="a", state="running") == 0
    assert [(await one.get()).state for one in (*red, blue, other)] == ["cancelled"] * 3 + ["pending", "pending"]
    assert await app.cancel(mode="request", job_type="work") == 1


async def test_cancel_by_filter_walks_all_pages(app: Tenure, work: Any) -> None:
    await app.enqueue_many([work.build(n) for n in range(450)])
    assert await app.cancel(queue="default") == 450
    assert await app.jobs(state="pending") == []


@pytest.mark.parametrize("where", [{}, {"queue": None}, {"labels": {}}, {"queue": None, "labels": None}])
async def test_a_filter_that_says_nothing_cancels_nothing(app: Tenure, work: Any, where: dict[str, Any]) -> None:
    handle = await work.enqueue()
    with pytest.raises(InvalidValue, match=r"cancel\(\): give an id or a filter"):
        await app.cancel(**where)
    with pytest.raises(InvalidValue, match="not both"):
        await cast(Any, app.cancel)(handle.id, queue="default")
    assert (await handle.get()).state == "pending"


# Lists


async def test_lists_are_newest_first_and_filtered(app: Tenure, work: Any, clock: ManualClock) -> None:
    first = await work.enqueue(1)
    clock.advance(1_000)
    second = await work.options(queue="slow", labels={"a": "1", "b": "2"}).enqueue(2)
    third = await app.send("other", {})
    foreign = await work.options(tenant="acme").enqueue(3)
    await first.cancel()

    async def ids(**where: Any) -> list[str]:
        return [job.id for job in await app.jobs(**where)]

    assert await ids() == [third.id, second.id, first.id]
    assert await ids(limit=2) == [third.id, second.id]
    assert await ids(limit=0) == []
    assert await ids(state="cancelled") == [first.id]
    assert await ids(state=["cancelled", "pending"]) == [third.id, second.id, first.id]
    assert await ids(queue="slow") == [second.id]
    assert await ids(job_type="other") == [third.id]
    assert await ids(labels={"a": "1"}) == [second.id]
    assert await ids(labels={"a": "1", "b": "3"}) == []
    assert await ids(enqueued_before=NOW + timedelta(seconds=1)) == [first.id]
    assert await ids(enqueued_from=NOW + timedelta(seconds=1)) == [third.id, second.id]
    assert await ids(dead_letter="open") == []
    assert [job.id async for job in app.tenant("acme").jobs()] == [foreign.id]
    assert {job.id for job in await app.fleet.jobs()} == {first.id, second.id, third.id, foreign.id}


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"states": "failed"}, "there is no option 'states'; did you mean 'state'?"),
        ({"state": "ready"}, "state 'ready': give one of blocked, pending, running"),
        ({"queue": "no such queue"}, "queue 'no such queue'"),
        ({"enqueued_from": datetime(2027, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ({"dead_letter": "closed"}, "dead_letter 'closed': give one of open, replayed, discarded"),
        ({"labels": {"a": 1}}, "label a 1"),
    ],
)
async def test_a_wrong_filter_is_refused(app: Tenure, where: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidValue, match=says.replace("?", r"\?")):
        await app.jobs(**where)


async def test_a_list_is_read_as_far_as_it_is_asked_for(app: Tenure, work: Any, between: Between) -> None:
    await app.enqueue_many([work.build(n) for n in range(401)])
    seen = []
    async for job in app.jobs():
        seen.append(job.payload["n"])
        if len(seen) == 250:
            break
    assert seen == list(range(400, 150, -1))
    assert len(between.of("query")) == 2


# Moving


async def test_a_waiting_job_is_moved(app: Tenure, work: Any) -> None:
    handle = await work.enqueue()
    await app.reschedule(handle.id, delay=timedelta(minutes=1))
    await app.reprioritise(handle.id, 7)
    job = await handle.get()
    assert (job.run_at, job.priority, job.status) == (NOW + timedelta(minutes=1), 7, "scheduled")
    await app.reschedule(handle.id, delay=0)
    await claim(app)
    with pytest.raises(NotPending, match="the job is running, not pending"):
        await app.reschedule(handle.id, delay=1)
    await handle.cancel()
    with pytest.raises(JobFinished, match="the job already ended: cancelled"):
        await app.reprioritise(handle.id, 1)
    with pytest.raises(InvalidValue, match="priority 101"):
        await app.reprioritise(handle.id, 101)


# Replay


async def failed(app: Tenure, work: Any) -> Any:
    handle = await work.enqueue(-1)
    async with app.worker() as worker:
        await worker.idle()
    assert (await handle.get()).dead_letter == "open"
    return handle


async def test_a_failed_job_is_replayed_with_other_arguments(app: Tenure, work: Any) -> None:
    dead = await failed(app, work)
    replayed = await app.replay(dead.id, payload={"n": 5})
    assert (replayed.created, replayed.id != dead.id) == (True, True)
    async with app.worker():
        assert await replayed.result(5) == 5
    job = await replayed.get()
    assert (job.replay_of, job.payload, job.attempt) == (dead.id, {"n": 5}, 1)
    original = await dead.get()
    assert (original.state, original.dead_letter, original.replayed_as) == ("failed", "replayed", replayed.id)


async def test_replayed_twice_it_is_the_same_job(app: Tenure, work: Any) -> None:
    dead = await failed(app, work)
    first, again = await app.replay(dead.id), await app.replay(dead.id)
    assert (again.id, first.created, again.created) == (first.id, True, False)
    other = await app.replay(dead.id, again=True)
    assert (other.created, other.id != first.id) == (True, True)
    with pytest.raises(AlreadyReplayed):
        await app.discard(dead.id)


@pytest.mark.parametrize("payload", [{"n": "5"}, {"m": 5}, {"n": float("nan")}])
async def test_edited_arguments_are_checked(app: Tenure, work: Any, payload: dict[str, Any]) -> None:
    dead = await failed(app, work)
    with pytest.raises(InvalidValue):
        await app.replay(dead.id, payload=payload)
    assert len(await app.jobs()) == 1
    assert (await dead.get()).dead_letter == "open"


async def test_only_a_failed_job_is_replayed(app: Tenure, work: Any) -> None:
    handle = await work.enqueue()
    with pytest.raises(NotDeadLettered, match="the job is pending"):
        await app.replay(handle.id)
    with pytest.raises(NotDeadLettered):
        await app.discard(handle.id)


async def test_a_dead_letter_is_discarded(app: Tenure, work: Any) -> None:
    dead = await failed(app, work)
    await app.discard(dead.id)
    assert (await dead.get()).dead_letter == "discarded"
    assert [job.id for job in await app.jobs(dead_letter="discarded")] == [dead.id]


async def test_a_settle_after_the_end_says_so(app: Tenure, work: Any) -> None:
    handle = await work.enqueue(1)
    (claimed,) = await claim(app)
    assert await settle(app, claimed.token, calls.Succeed(b"1")) == calls.Settled(cast(Any, "succeeded"))
    assert await settle(app, claimed.token, calls.Fail(Failure("E"))) == JobFinished("succeeded")
    assert repr(handle) == f"<job {handle.id} of default>"
