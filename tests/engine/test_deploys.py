"""Rolling deploys: workers of old and new code on one store, and jobs that only one of them can run."""

import logging
from datetime import datetime
from enum import Enum
from typing import Any, cast

import msgspec
import pytest

from tenure import Job, Settings, Tenure
from tenure.domain.calls import Document
from tenure.domain.errors import StoreUnavailable
from tenure.domain.names import MAX_DOCUMENT, SYSTEM
from tenure.domain.store import Store
from tenure.engine.job_types import HANDLED, handled_by, handled_now
from tenure.engine.worker.presence import WORKER, WorkerCard
from tenure.testing.clock import ManualClock
from tests.engine.kit import Between

MINUTE = 60_000


@pytest.fixture
def old(between: Between, settings: Settings) -> Tenure:
    """Code that knows nothing of `note`."""
    app = Tenure(store=cast(Store, between), settings=settings)

    @app.job
    async def bill(order: int) -> str:
        return f"old {order}"

    return app


@pytest.fixture
def new(between: Between, settings: Settings) -> Tenure:
    app = Tenure(store=cast(Store, between), settings=settings)

    @app.job
    async def bill(order: int, note: str = "") -> str:
        return f"new {order} {note}"

    return app


async def worked(app: Tenure) -> None:
    """A worker of an app comes, runs what it can, and goes."""
    async with app.worker(["default"]) as worker:
        await worker.idle()


async def ended(app: Tenure, arguments: dict[str, Any], *, job_type: str = "bill") -> Job:
    """What a worker makes of a job with these arguments."""
    producer = Tenure(store=await app.opened())  # whose code isn't here
    handle = await producer.send(job_type, arguments)
    await worked(app)
    return await handle.get()


def seen(job: Job) -> tuple[str, str | None, int]:
    return job.status, job.reason or (job.history[-1].reason if job.history else None), job.attempt


async def test_an_argument_of_newer_workers_is_given_back(old: Tenure, new: Tenure, clock: ManualClock) -> None:
    await worked(new)
    handle = await new.send("bill", {"order": 1, "note": "gift"})
    await worked(old)
    job = await handle.get()
    assert seen(job) == ("scheduled", "unknown_argument", 0)
    assert round(job.run_at.timestamp() * 1_000) == clock.now + 30_000
    clock.advance(30_000)
    await worked(new)
    assert await handle.result(5) == "new 1 gift"


async def test_an_argument_that_newer_workers_need_is_given_back_too(old: Tenure, between: Between) -> None:
    """The other way round: an old producer's job, and a new worker."""
    needy = Tenure(store=cast(Store, between))

    @needy.job
    async def bill(order: int, note: str) -> None: ...

    await worked(old)
    assert seen(await ended(needy, {"order": 1})) == ("scheduled", "unknown_argument", 0)


async def test_a_value_of_newer_workers_is_given_back(between: Between) -> None:
    class Kind(Enum):
        CARD = "card"

    class NewKind(Enum):
        CARD = "card"
        CASH = "cash"

    old, new = Tenure(store=cast(Store, between)), Tenure(store=cast(Store, between))

    @old.job(name="pay", codec="msgpack")
    async def pay(kind: Kind) -> None: ...

    @new.job(name="pay", codec="msgpack")
    async def new_pay(kind: NewKind) -> None: ...

    await worked(new)
    handle = await new_pay.enqueue(NewKind.CASH)
    await worked(old)
    assert seen(await handle.get()) == ("scheduled", "unknown_argument", 0)
    assert seen(await ended(old, {"kind": "gold"}, job_type="pay")) == ("failed", "invalid_payload", 1)


@pytest.mark.parametrize("arguments", [{"order": "one"}, {"note": "gift"}, {"order": 1, "text": "gift"}, {}])
async def test_what_no_worker_takes_fails_at_once(old: Tenure, new: Tenure, arguments: dict[str, Any]) -> None:
    await worked(new)
    assert seen(await ended(old, arguments)) == ("failed", "invalid_payload", 1)


async def test_what_the_newer_worker_is_called_otherwise_counts_for_nothing(old: Tenure, between: Between) -> None:
    other = Tenure(store=cast(Store, between))

    @other.job(name="charge")
    async def charge(order: int, note: str = "") -> None: ...

    await worked(other)
    assert seen(await ended(old, {"order": 1, "note": "gift"})) == ("failed", "invalid_payload", 1)


async def test_a_worker_counts_for_ten_minutes(old: Tenure, new: Tenure, clock: ManualClock) -> None:
    await worked(new)
    clock.advance(10 * MINUTE - 1)
    assert seen(await ended(old, {"order": 1, "note": "gift"})) == ("scheduled", "unknown_argument", 0)
    clock.advance(1)
    assert seen(await ended(old, {"order": 2, "note": "gift"})) == ("failed", "invalid_payload", 1)


async def test_the_schema_of_its_own_code_says_nothing_new(between: Between) -> None:
    """msgspec's schema of a datetime is that of any text: by it alone a poison would wait for an hour."""
    app, other = Tenure(store=cast(Store, between)), Tenure(store=cast(Store, between))

    async def remind(at: datetime) -> None: ...

    async def another() -> None: ...

    app.job(name="remind")(remind)
    other.job(name="remind")(remind)
    other.job(name="another")(another)
    await worked(other)
    assert len(await handled_now(cast(Store, between))) == 1
    assert seen(await ended(app, {"at": "soon"}, job_type="remind")) == ("failed", "invalid_payload", 1)


async def test_the_store_is_asked_once_for_the_jobs_of_a_claim(old: Tenure, new: Tenure, between: Between) -> None:
    await worked(new)
    await new.enqueue_many([new.definitions["bill"].build(order, note="gift") for order in range(5)])
    asked = 0

    async def counted(verb: Any, tenant: str, kind: str, **options: Any) -> Any:
        nonlocal asked
        asked += kind == HANDLED
        return await verb(tenant, kind, **options)

    between.meddle["list_documents"] = counted
    await worked(old)
    assert asked == 1
    assert {seen(job) for job in await old.jobs()} == {("scheduled", "unknown_argument", 0)}


async def test_a_worker_sees_what_came_since_it_last_asked(old: Tenure, new: Tenure) -> None:
    producer = Tenure(store=await old.opened())
    async with old.worker() as worker:
        poison = await producer.send("bill", {"order": 1, "note": "gift"})
        await worker.idle()
        await worked(new)
        handle = await producer.send("bill", {"order": 2, "note": "gift"})
        await worker.idle()
    assert seen(await poison.get()) == ("failed", "invalid_payload", 1)
    assert seen(await handle.get()) == ("scheduled", "unknown_argument", 0)


async def test_while_the_store_cant_be_asked_the_job_isnt_lost(
    old: Tenure, new: Tenure, between: Between, clock: ManualClock
) -> None:
    await worked(new)
    handle = await new.send("bill", {"order": 1, "note": "gift"})

    async def away(verb: Any, tenant: str, kind: str, **options: Any) -> Any:
        if kind == HANDLED:
            raise StoreUnavailable("the store is away")
        return await verb(tenant, kind, **options)

    between.meddle["list_documents"] = away
    await worked(old)
    assert seen(await handle.get()) == ("scheduled", "unknown_argument", 0)
    del between.meddle["list_documents"]
    clock.advance(10 * MINUTE)
    await worked(old)
    assert seen(await handle.get()) == ("failed", "invalid_payload", 1)


async def test_what_is_given_back_is_logged(old: Tenure, new: Tenure, caplog: pytest.LogCaptureFixture) -> None:
    await worked(new)
    with caplog.at_level(logging.WARNING, "tenure.worker"):
        await ended(old, {"order": 1, "note": "gift"})
    (line,) = caplog.messages
    assert "is given back before attempt 1 (unknown_argument)" in line
    assert "this worker's handler refuses its arguments, another's may take them" in line


# What workers publish


async def test_old_and_new_stand_side_by_side(old: Tenure, new: Tenure, between: Between) -> None:
    async with old.worker() as one, new.worker() as other:
        await one.idle()
        await other.idle()
        handled = await handled_now(cast(Store, between))
        properties = [next(iter(one.job_types["bill"]["$defs"].values()))["properties"] for one in handled.values()]  # type: ignore[index]
        assert sorted(map(sorted, properties)) == [["note", "order"], ["order"]]
        cards: list[Document] = []
        while len(cards) < 2:
            cards = await between.list_documents(SYSTEM, WORKER)
        named = {msgspec.json.decode(card.body or b"", type=WorkerCard).handled for card in cards}
    assert named == {(name,) for name in handled}


async def test_what_cant_be_read_counts_for_nothing(old: Tenure, between: Between) -> None:
    for name, body in (("a", b"\xff"), ("b", b"[]"), ("c", b'{"job_types": {"bill": {"anyOf": 3}}}')):
        await between.put_document(Document(tenant=SYSTEM, kind=HANDLED, name=name, body=body))
    assert seen(await ended(old, {"order": 1, "note": "gift"})) == ("failed", "invalid_payload", 1)


def test_many_types_need_several_documents() -> None:
    app = Tenure("memory://")

    async def work(text: str) -> None: ...

    for number in range(2_000):
        app.job(name=f"work-{number}")(work)
    documents = handled_by(list(app.definitions.values()))
    assert len(documents) > 1
    assert all(len(one.body or b"") <= MAX_DOCUMENT for one in documents)
    found = [msgspec.json.decode(one.body or b"")["job_types"] for one in documents]
    assert sorted(name for one in found for name in one) == sorted(app.definitions)


def test_the_same_code_has_the_same_documents(old: Tenure, new: Tenure) -> None:
    def named(app: Tenure) -> list[str]:
        return [one.name for one in handled_by(list(app.definitions.values()))]

    again = Tenure("memory://")

    @again.job
    async def bill(order: int) -> str:
        return "another body"

    assert named(old) == named(again) != named(new)


def test_a_type_without_a_schema_is_known_all_the_same() -> None:
    class Own: ...

    app = Tenure("memory://")

    @app.job
    async def odd(what: Own) -> None: ...

    (document,) = handled_by(list(app.definitions.values()))
    assert msgspec.json.decode(document.body or b"") == {"job_types": {"odd": None}}
