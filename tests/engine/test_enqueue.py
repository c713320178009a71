"""Enqueueing: what is refused before anything is stored, and what a job is stored as."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast
from uuid import UUID

import msgspec
import pytest

from tenure import (
    EnqueueFailed,
    Handle,
    IdempotencyMismatch,
    InvalidValue,
    QueueFull,
    Retry,
    Tenure,
    content_key,
)
from tenure.domain.errors import GroupNeedsKeyed, NotReady
from tenure.testing.clock import START, ManualClock

NOW = datetime.fromtimestamp(START / 1_000, UTC)


@pytest.fixture
def send(app: Tenure) -> Any:
    @app.job(queue="mail")
    async def send(to: str, times: int = 1) -> str:
        return to * times

    return send


# What is refused


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, "missing a required argument: 'to'"),
        (("a", 1, 2), {}, "too many positional arguments"),
        (("a",), {"to": "b"}, "multiple values for argument 'to'"),
        (("a",), {"tims": 2}, "unexpected keyword argument 'tims'"),
        ((5,), {}, r"Expected `str`, got `int` - at `\$.to`"),
        (("a", "2"), {}, r"Expected `int.*`, got `str` - at `\$.times`"),
        (("a", True), {}, "Expected `int"),
        (("a", None), {}, "Expected `int"),
        (("a", 1.5), {}, "Expected `int"),
        ((b"a",), {"times": float("nan")}, "isn't a JSON number"),
        ((object(),), {}, "Encoding objects of type object is unsupported"),
        (("\ud800",), {}, "surrogates not allowed"),
        (("x" * 262_144,), {}, "payload has .* bytes: at most 262144"),
    ],
)
async def test_a_wrong_call_stores_nothing(
    app: Tenure, send: Any, args: tuple[Any, ...], kwargs: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidValue, match=says):
        await send.enqueue(*args, **kwargs)
    assert await app.jobs() == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"dealy": 5}, "there is no option 'dealy'; did you mean 'delay'?"),
        ({"result_codec": "msgpack"}, "there is no option 'result_codec'"),
        ({"executor": "thread"}, "there is no option 'executor'"),
        ({"delay": -1}, "delay -1: give 0 to"),
        ({"delay": "soon"}, "delay 'soon': give a number of seconds or a timedelta"),
        ({"delay": float("nan")}, "delay nan"),
        ({"delay": True}, "delay True"),
        ({"delay": 10**12}, "delay 1000000000000: give 0 to"),
        ({"run_at": datetime(2027, 1, 1)}, r"it has no time zone; give datetime\(..., tzinfo=...\)"),  # noqa: DTZ001
        ({"run_at": 1_800_000_000}, "run_at 1800000000: give a datetime"),
        ({"run_at": datetime(1960, 1, 1, tzinfo=UTC)}, "run_at"),
        ({"run_at": NOW, "delay": 5}, "run_at and delay exclude each other"),
        ({"expires": 0}, "expires"),
        ({"priority": 101}, "priority 101: give an integer from -100 to 100"),
        ({"priority": "5"}, "priority '5': give an integer"),
        ({"priority": 1.5}, "priority 1.5: give an integer"),
        ({"priority": True}, "priority True: give an integer"),
        ({"priority": None}, "priority None: give an integer"),
        ({"priority": lambda to, times: "high"}, "priority 'high': give an integer"),
        ({"timeout": 0}, "timeout 0"),
        ({"timeout": lambda to, times: -1}, "timeout -1"),
        ({"lease": 0}, "lease 0"),
        ({"max_attempts": 0}, "max_attempts 0: give an integer from 1"),
        ({"max_retries": -1}, "max_retries -1: give an integer from 0"),
        ({"max_retries": "3"}, "max_retries '3'"),
        ({"max_attempts": 3, "max_retries": 2}, "say the same: give one"),
        ({"retry": 5}, r"retry 5: give a policy such as Backoff.exponential"),
        ({"retry": Retry}, "retry .*: give a policy"),
        ({"labels": {"team": 5}}, "label team 5"),
        ({"labels": {"": "x"}}, "label '': give 1 to 64"),
        ({"labels": ["team"]}, "labels .*: give names with their values"),
        ({"labels": {str(n): "x" for n in range(17)}}, "labels: give at most 16"),
        ({"key": ""}, "key '': give 1 to 256 bytes"),
        ({"key": "a\nb"}, "without control characters"),
        ({"key": "x" * 257}, "key has 257 bytes"),
        ({"key": lambda to, times: 5}, "key 5"),
        ({"unique": "window"}, "unique='window' needs a key"),
        ({"key": "k", "unique": "window"}, "unique_for goes with unique='window'"),
        ({"key": "k", "unique_for": 5}, "unique_for goes with unique='window'"),
        ({"key": "k", "unique": "forever"}, "unique 'forever': give one of active, window, retained"),
        ({"group": ""}, "group ''"),
        ({"tenant": "_system"}, "names that start with _ belong to the store"),
        ({"tenant": "a b"}, "tenant 'a b'"),
        ({"queue": "mail box"}, "queue 'mail box'"),
        ({"codec": "pickle"}, "codec 'pickle' isn't known here"),
    ],
)
async def test_a_wrong_option_stores_nothing(app: Tenure, send: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidValue, match=says):
        await send.options(**options).enqueue("a")
    assert await app.jobs() == []


async def test_one_wrong_job_of_many_stores_none(app: Tenure, send: Any) -> None:
    calls = [send.build("a"), send.build(5), send.build("b")]
    with pytest.raises(InvalidValue, match="Expected `str`"):
        await app.enqueue_many(calls)
    assert await app.jobs() == []


async def test_without_a_store_the_error_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENURE_URL", raising=False)
    homeless = Tenure()

    @homeless.job
    async def greet() -> None: ...

    with pytest.raises(NotReady, match=r"give Tenure\('sqlite:///jobs.db'\) a URL, or set TENURE_URL"):
        await greet.enqueue()


# What is stored


async def test_arguments_are_stored_by_name(send: Any) -> None:
    handle = await send.enqueue("a", times=3)
    job = await handle.get()
    assert (handle.created, handle.tenant, job.payload) == (True, "default", {"to": "a", "times": 3})
    assert UUID(handle.id).version == 7


async def test_ids_grow(app: Tenure, send: Any) -> None:
    handles = [await send.enqueue("a") for _ in range(5)] + await app.enqueue_many([send.build("a")] * 500)
    ids = [handle.id for handle in handles]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


async def test_when_it_runs(send: Any) -> None:
    offset = timezone(timedelta(hours=2))
    soon = await (await send.options(delay=1.5).enqueue("a")).get()
    span = await (await send.options(delay=timedelta(minutes=1)).enqueue("a")).get()
    later = await (await send.options(run_at=(NOW + timedelta(hours=1)).astimezone(offset)).enqueue("a")).get()
    past = await (await send.options(run_at=NOW - timedelta(days=1)).enqueue("a")).get()
    assert (soon.run_at - NOW).total_seconds() == 1.5
    assert (span.run_at - NOW).total_seconds() == 60
    assert (later.run_at - NOW).total_seconds() == 3600
    assert past.run_at == NOW
    assert [job.status for job in (soon, span, later, past)] == ["scheduled", "scheduled", "scheduled", "ready"]


async def test_a_duration_is_rounded_up(send: Any) -> None:
    job = await (await send.options(delay=0.0001).enqueue("a")).get()
    assert (job.run_at - NOW) == timedelta(milliseconds=1)
    exact = await (await send.options(delay=0.29).enqueue("a")).get()
    assert (exact.run_at - NOW) == timedelta(milliseconds=290)


async def test_it_expires(app: Tenure, send: Any, clock: ManualClock) -> None:
    handle = await send.options(expires=10).enqueue("a")
    clock.advance(9_999)
    assert (await handle.get()).status == "ready"
    clock.advance(1)
    assert (await handle.get()).status == "expired"
    await app.fleet.sweep()
    job = await handle.get()
    assert (job.state, job.reason) == ("cancelled", "expired")


async def test_labels_and_limits(send: Any) -> None:
    options = {"labels": {"team": "crm"}, "max_retries": 4, "priority": -7, "queue": "other"}
    job = await (await send.options(**options).enqueue("a")).get()
    assert (job.labels, job.max_attempts, job.priority, job.queue) == ({"team": "crm"}, 5, -7, "other")


async def test_an_option_of_a_call_goes_over_the_declared_one(app: Tenure) -> None:
    @app.job(max_attempts=5, priority=1, key="k", unique="window", unique_for=60)
    async def work() -> None: ...

    plain = await (await work.enqueue()).get()
    other = work.options(max_retries=0, priority=2).options(priority=3, key="l", unique="active")
    changed = await (await other.enqueue()).get()
    assert (plain.max_attempts, plain.priority, plain.key) == (5, 1, "k")
    assert (changed.max_attempts, changed.priority, changed.key) == (1, 3, "l")


async def test_the_later_of_delay_and_run_at_wins(send: Any) -> None:
    job = await (await send.options(run_at=NOW + timedelta(days=1)).options(delay=5).enqueue("a")).get()
    assert job.run_at == NOW + timedelta(seconds=5)


async def test_options_may_be_functions_of_the_arguments(app: Tenure) -> None:
    await app.queue("work").configure(mode="keyed")

    @app.job(
        queue="work",
        key=lambda user, size: f"user:{user}",
        group=lambda user, size: f"g{user}",
        priority=lambda user, size: min(size, 100),
        timeout=lambda user, size: 10 * size,
    )
    async def work(user: int, size: int = 4) -> None: ...

    handle = await work.enqueue(7)
    job, view = await handle.get(), await app.view(handle.id)
    assert (job.key, job.group, job.priority, view.job.spec.timeout) == ("user:7", "g7", 4, 40_000)


async def test_a_key_function_may_say_no_key(app: Tenure) -> None:
    @app.job(key=lambda n: None if n < 0 else str(n))
    async def work(n: int) -> None: ...

    first, second = await work.enqueue(-1), await work.enqueue(-1)
    assert (first.created, second.created) == (True, True)


async def test_another_codec(app: Tenure, send: Any) -> None:
    handle = await send.options(codec="msgpack").enqueue("a")
    view = await app.view(handle.id)
    assert (view.job.spec.codec, msgspec.msgpack.decode(view.payload)) == ("msgpack", {"to": "a"})
    assert (await handle.get()).payload == {"to": "a"}
    async with app.worker():
        assert await handle.result(5) == "a"


# Keys


async def test_a_duplicate_is_the_job_that_holds_the_key(app: Tenure, send: Any) -> None:
    first = await send.options(key="k").enqueue("a")
    again = await send.options(key="k").enqueue("a")
    assert (first.created, again.created, again.id) == (True, False, first.id)
    async with app.worker():
        assert await again.result(5) == "a"
    freed = await send.options(key="k").enqueue("a")
    assert (freed.created, freed.id != first.id) == (True, True)


async def test_another_body_under_the_key_is_refused(app: Tenure, send: Any) -> None:
    first = await send.options(key="k").enqueue("a")
    with pytest.raises(IdempotencyMismatch) as refused:
        await send.options(key="k").enqueue("b")
    assert refused.value.id == first.id
    assert len(await app.jobs()) == 1


async def test_a_key_is_of_its_tenant_queue_and_type(app: Tenure, send: Any) -> None:
    @app.job(name="other", queue="mail")
    async def other(to: str) -> None: ...

    await send.options(key="k").enqueue("a")
    assert (await send.options(key="k", tenant="acme").enqueue("a")).created
    assert (await send.options(key="k", queue="slow").enqueue("a")).created
    assert (await other.options(key="k").enqueue("a")).created


async def test_a_window_outlives_the_success(app: Tenure, send: Any, clock: ManualClock) -> None:
    windowed = send.options(key="k", unique="window", unique_for=60)
    async with app.worker():
        assert await windowed.call("a") == "a"
    clock.advance(59_999)
    duplicate = await windowed.enqueue("a")
    assert not duplicate.created
    assert await duplicate.result(5) == "a"
    clock.advance(1)
    assert (await windowed.enqueue("a")).created


async def test_a_retained_key_outlives_the_result(app: Tenure, send: Any, clock: ManualClock) -> None:
    retained = send.options(key="k", unique="retained")
    async with app.worker():
        await retained.call("a")
    clock.advance(5 * 24 * 3_600_000)
    assert not (await retained.enqueue("a")).created


async def test_a_content_key_keeps_the_same_call_from_queueing_twice(app: Tenure) -> None:
    @app.job(key=content_key)
    async def work(a: int, b: dict[int, int], c: str = "x") -> None: ...

    first = await work.enqueue(1, {2: 3})
    again = await work.enqueue(b={2: 3}, a=1)
    assert (again.created, again.id) == (False, first.id)
    assert (await work.enqueue(2, {2: 3})).created
    assert (await work.enqueue(1, {2: 3}, "y")).created
    assert (await work.enqueue(1, {2: 3}, "x")).created, "what is sent is the content: a default isn't"
    assert (await first.get()).key == content_key(a=1, b={2: 3})


# Many


async def test_many_keep_their_order(app: Tenure, send: Any) -> None:
    handles = await app.enqueue_many([send.build(str(n)) for n in range(1_200)])
    assert len(handles) == 1_200
    listed = [job.payload["to"] async for job in app.jobs()]
    assert listed == [str(n) for n in reversed(range(1_200))]


async def test_none_of_many(app: Tenure) -> None:
    assert await app.enqueue_many([]) == []


async def test_a_refused_job_of_many_is_told_after_all_were_tried(app: Tenure, send: Any) -> None:
    await app.queue("mail").configure(max_depth=3)
    calls = [send.build("a"), send.options(group="g").build("b"), send.build("c"), send.build("d"), send.build("e")]
    with pytest.raises(EnqueueFailed, match=r"2 of 5 .* refused: .*mode='keyed'; the queue already holds") as told:
        await app.enqueue_many(calls)
    first, second, third, fourth, fifth = told.value.results
    assert [isinstance(result, Handle) for result in (first, third, fourth)] == [True] * 3
    assert (second, fifth) == (GroupNeedsKeyed("mail"), QueueFull(3))
    assert {job.id for job in await app.jobs()} == {first.id, third.id, fourth.id}


async def test_a_refused_job_is_an_exception(app: Tenure, send: Any) -> None:
    await app.queue("mail").configure(max_depth=0)
    with pytest.raises(QueueFull, match="already holds its 0 waiting jobs"):
        await send.enqueue("a")


# By name


async def test_a_job_is_sent_by_its_name(app: Tenure, send: Any) -> None:
    known = await app.send("send", {"to": "a"})
    unknown = await app.send("report", {"day": 1}, queue="slow", tenant="acme")
    assert (await known.get()).queue == "mail"
    job = await app.tenant("acme").get(unknown.id)
    assert (unknown.tenant, job.job_type, job.queue, job.payload) == ("acme", "report", "slow", {"day": 1})


async def test_a_known_job_is_checked_though_sent_by_name(app: Tenure, send: Any) -> None:
    with pytest.raises(InvalidValue, match="Expected `str`"):
        await app.send("send", {"to": 1})
    with pytest.raises(InvalidValue, match=r"there is no option 'queu'; did you mean 'queue'\?"):
        await app.send("send", {"to": "a"}, **cast(Any, {"queu": "x"}))
    with pytest.raises(InvalidValue, match="payload 'to': give the arguments by name"):
        await app.send("report", cast(Any, "to"))
    assert await app.jobs() == []
