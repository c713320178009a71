"""What the worker's log says of jobs: one line for each failure, once the store has it."""

import asyncio
import logging
import traceback
from typing import Any, cast

import pytest

from tenure import Backoff, Context, Fail, JobFailed, Retry, Snooze, Tenure
from tenure.domain.calls import Claim
from tenure.domain.store import Store
from tenure.engine.worker import presence, scheduler
from tenure.stores.memory import MemoryStore
from tenure.testing.clock import ManualClock
from tests.engine import process_app
from tests.engine.kit import Between

FIELDS = ("job", "job_type", "tenant", "queue", "attempt", "reason")


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tenure.worker")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    """The level and the fields of each line about a job."""
    return [
        (record.levelname, {name: getattr(record, name) for name in FIELDS})
        for record in caplog.records
        if hasattr(record, "job")
    ]


def trace(record: logging.LogRecord) -> str:
    """What a line shows of the exception."""
    return "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""


async def boom(how: str) -> None:
    match how:
        case "fail":
            raise Fail("never")
        case "retry":
            raise Retry("later")
        case _:
            raise KeyError("lost")


@pytest.mark.parametrize(
    ("how", "reason", "said"),
    [
        ("fail", "permanent", "Fail: never"),
        ("retry", "exhausted", "Retry: later"),
        ("error", "exhausted", "KeyError: 'lost'"),
    ],
)
async def test_a_final_failure_is_one_error_with_its_traceback(
    app: Tenure, caplog: pytest.LogCaptureFixture, how: str, reason: str, said: str
) -> None:
    work = app.job(name="work", queue="mail", max_attempts=1)(boom)
    async with app.worker() as worker:
        handle = await app.tenant("acme").enqueue(work.build(how))
        await worker.idle()
    assert lines(caplog) == [
        (
            "ERROR",
            {
                "job": handle.id,
                "job_type": "work",
                "tenant": "acme",
                "queue": "mail",
                "attempt": 1,
                "reason": reason,
            },
        )
    ]
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage() == f"job {handle.id} (work of acme) failed in attempt 1 ({reason}): {said}"
    assert "in boom" in trace(record)
    assert record.msg == "job %s (%s of %s) failed in attempt %d (%s): %s"


async def test_an_attempt_with_another_to_come_is_a_warning(app: Tenure, caplog: pytest.LogCaptureFixture) -> None:
    work = app.job(name="work", max_attempts=2, retry=Backoff.none())(boom)
    async with app.worker():
        with pytest.raises(JobFailed):
            await work.call("error")
    assert [(level, fields["attempt"], fields["reason"]) for level, fields in lines(caplog)] == [
        ("WARNING", 1, "error"),
        ("ERROR", 2, "exhausted"),
    ]
    assert all("in boom" in trace(record) for record in caplog.records)
    assert len(caplog.records) == 2


async def test_nothing_is_said_before_the_store_has_it(
    app: Tenure, between: Between, caplog: pytest.LogCaptureFixture
) -> None:
    work = app.job(name="work", max_attempts=1)(boom)
    held, exchange = between.hold("settle"), between.hold("exchange")
    async with app.worker() as worker:
        await work.enqueue("error")
        waits = [asyncio.create_task(one.came.wait()) for one in (held, exchange)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        assert not lines(caplog)
        held.let_go()
        exchange.let_go()
        await worker.idle()
    assert [level for level, _ in lines(caplog)] == ["ERROR"]


async def test_a_cancelled_job_is_no_failure(app: Tenure, caplog: pytest.LogCaptureFixture) -> None:
    started = asyncio.Event()

    @app.job(max_attempts=1)
    async def asked(ctx: Context) -> None:
        started.set()
        await ctx.cancelled.wait()
        raise ValueError("it was asked to end")

    async with app.worker(lease=0.3) as worker:
        handle = await asked.enqueue()
        await started.wait()
        await handle.cancel(mode="request")
        await worker.idle()
        assert (await handle.get()).state == "cancelled"
    assert not lines(caplog)


async def test_a_payload_and_a_result_of_the_wrong_type(
    app: Tenure, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    @app.job
    async def number(n: int) -> int:
        return n if n else cast(int, "x")

    producer = Tenure(store=store)
    async with app.worker() as worker:
        await producer.send("number", {"n": "x"})
        handle = await number.enqueue(0)
        await worker.idle()
        assert await number.call(7) == 7
    assert sorted((level, fields["reason"]) for level, fields in lines(caplog)) == [
        ("ERROR", "invalid_payload"),
        ("ERROR", "invalid_result"),
    ]
    assert all(record.exc_info for record in caplog.records)
    with pytest.raises(JobFailed, match=r"the result of number can't be kept: Expected `int`, got `str`"):
        await handle.result()


async def test_a_timeout_says_where_the_handler_hung(app: Tenure, caplog: pytest.LogCaptureFixture) -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    @app.job(timeout=0.05, max_attempts=1)
    async def work() -> None:
        await hangs()

    async with app.worker() as worker:
        handle = await work.enqueue()
        await worker.idle()
    ((level, fields),) = lines(caplog)
    assert (level, fields["job"], fields["reason"]) == ("ERROR", handle.id, "exhausted")
    (record,) = caplog.records
    assert "Timeout: the handler hadn't ended after 0.05 s" in record.getMessage()
    assert "in hangs" in trace(record)


async def test_a_type_that_nobody_runs(app: Tenure, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Given back it is a warning; given back too often it has failed."""
    clock = ManualClock()
    memory = MemoryStore(clock=clock)
    served, producer = Tenure(store=memory), Tenure(store=memory)
    served.job(boom)
    async with served.worker(["default"]) as worker:
        handle = await producer.send("nobody")
        for _ in range(121):
            await worker.idle()
            clock.advance(31_000)
        await worker.idle()
        assert (await handle.get()).state == "failed"
    levels = [level for level, _ in lines(caplog)]
    assert levels[-1] == "ERROR"
    assert set(levels[:-1]) == {"WARNING"}
    assert {fields["reason"] for _, fields in lines(caplog)} == {"unknown_type"}
    assert {fields["job_type"] for _, fields in lines(caplog)} == {"nobody"}


async def test_snoozed_too_often_is_an_error(app: Tenure, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    served = Tenure(store=MemoryStore(clock=clock))

    @served.job
    async def work() -> None:
        raise Snooze("not now", after=1)

    async with served.worker() as worker:
        await work.enqueue()
        for _ in range(101):
            await worker.idle()
            clock.advance(1_000)
        await worker.idle()
    assert [(level, fields["reason"]) for level, fields in lines(caplog)] == [("ERROR", "snooze")]


async def test_what_a_sweep_fails_is_an_error(
    app: Tenure, store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that died with the last attempt says nothing: the one that sweeps does."""
    lost = await app.tenant("acme").send("lost", queue="mail", max_attempts=1)
    again = await app.tenant("acme").send("lost", queue="mail", max_attempts=2)
    for n in range(2):
        await store.claim(Claim(claim_id=bytes([n]) * 16, worker="dead", queues=(("mail", None),), n=1))
    clock.advance(66_000)
    app.job(boom)
    async with app.worker(["default"]):
        async with asyncio.timeout(20):
            while (await app.tenant("acme").get(lost.id)).state != "failed":
                await asyncio.sleep(0.01)
        while not lines(caplog):
            await asyncio.sleep(0)
    assert lines(caplog) == [
        (
            "ERROR",
            {
                "job": lost.id,
                "job_type": "lost",
                "tenant": "acme",
                "queue": "mail",
                "attempt": 1,
                "reason": "lease_lost",
            },
        )
    ]
    assert (await app.tenant("acme").get(again.id)).state == "pending"


async def test_a_process_shows_where_the_handler_raised(caplog: pytest.LogCaptureFixture) -> None:
    with process_app.app.on_store(MemoryStore()):
        async with process_app.app.worker() as worker:
            for how in ("memory", "fail"):
                await process_app.plain.options(max_attempts=1).enqueue(how)
            await worker.idle()
    assert sorted((level, fields["reason"]) for level, fields in lines(caplog)) == [
        ("ERROR", "exhausted"),
        ("ERROR", "permanent"),
    ]
    assert all("in raising" in trace(record) for record in caplog.records)
    assert len(caplog.records) == 2


async def test_a_reader_with_another_type_names_the_job(app: Tenure) -> None:
    @app.job(name="work")
    async def gives() -> str:
        return "x"

    other = Tenure(store=await app.opened())

    @other.job(name="work")
    async def wants() -> int:
        return 1

    async with app.worker():
        handle = await wants.enqueue()
        with pytest.raises(Exception, match=rf"the result of job {handle.id} \(work\) can't be read here: Expected"):
            await handle.result(10)


async def test_start_and_end_are_debug(app: Tenure, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tenure.worker")

    @app.job
    async def work() -> None:
        pass

    async with app.worker() as worker:
        handle = await work.enqueue()
        await worker.idle()
    said = [(record.levelname, record.getMessage()) for record in caplog.records if hasattr(record, "job")]
    assert said == [
        ("DEBUG", f"job {handle.id} (work of default) starts attempt 1"),
        ("DEBUG", f"job {handle.id} (work of default) ended attempt 1 (ok): succeeded"),
    ]


async def test_a_store_that_is_away_is_said_once(
    app: Tenure, between: Between, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a worker whose loops all ask it."""
    for name in ("tenure.worker", "tenure.schedule"):
        caplog.set_level(logging.INFO, name)
    verbs = ("claim", "exchange", "settle", "renew", "sweep", "put_document", "list_documents")
    monkeypatch.setattr(scheduler, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(presence, "BEAT_SECONDS", 0.05)

    @app.job
    async def work(ctx: Context) -> None:
        over = between.fail(*verbs, times=12)
        await asyncio.gather(over.wait(), *(between.called(verb, 8) for verb in ("sweep", "put_document", "renew")))

    async with app.worker(lease=0.3) as worker:
        await (await work.enqueue()).result(20)
        await worker.idle()
    said = [record for record in caplog.records if "didn't answer" in record.getMessage()]
    assert [record.levelname for record in said] == ["WARNING"]
    assert said[0].getMessage().endswith("all calls are tried again until it does: the store is away")
    assert caplog.text.count("the store answers again, after ") == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING and record is not said[0]]
