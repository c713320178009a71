"""Schedules that code declares: whose code holds, and what becomes of one that no code declares any more."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from tenure import Context, InvalidValue, Jobs, Tenure
from tenure.domain.calls import Document, Stored
from tenure.domain.names import DAY, HOUR, MINUTE, SECOND, SYSTEM
from tenure.domain.store import Store
from tenure.engine.declared import Declarations
from tenure.engine.periodic import DECLARATION, LIVE, LOOK, MOST_SEEN, Declaration, Periodic
from tenure.engine.schedules import SCHEDULE, SCHEDULED, Schedule
from tenure.engine.worker.scheduler import Scheduler
from tenure.testing.clock import ManualClock
from tenure.testing.sandbox import sandbox
from tests.engine.kit import Between, Meddle


def code(store: Store | Between, **options: Any) -> Tenure:
    """A worker's code that declares `nightly` so; without options it doesn't know it."""
    app = Tenure(store=cast(Store, store))
    if options:

        @app.job(**options)
        async def nightly(day: int = 0) -> None: ...

    return app


async def look(*apps: Tenure) -> None:
    """One look of a worker of each code, one after the other."""
    for app in apps:
        await Declarations(app).look()


async def pass_time(clock: ManualClock, by: int, *apps: Tenure) -> None:
    """Lets time pass in which workers of these codes look."""
    workers = [Declarations(app) for app in apps]
    for _ in range(by // LOOK):
        clock.advance(LOOK)
        for worker in workers:
            await worker.look()


async def only(app: Tenure) -> Schedule:
    (schedule,) = await app.schedules()
    return schedule


async def fired(app: Tenure, store: Store) -> int:
    """How many jobs schedules have made by now."""
    await Scheduler(store).step()
    return len(await app.jobs())


# Declaring


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cron": "0 3 * * *", "every": 60}, "job nightly: cron and every both say when it comes; give one"),
        ({"tz": "Europe/Rome"}, "tz is the time zone of a cron expression; give cron too, or leave it out"),
        ({"every": 60, "tz": "Europe/Rome"}, "give cron too"),
        ({"cron": "0 25 * * *"}, "job nightly: cron '0 25 * * *': Bad hour; give minute hour day month weekday"),
        ({"cron": ""}, "job nightly: cron ''"),
        ({"cron": 5}, "job nightly: cron 5"),
        ({"cron": "0 3 * * *", "tz": "Mars"}, "job nightly: tz 'Mars': not known here; give a name such as"),
        ({"cron": "0 3 * * *", "tz": 1}, "job nightly: tz 1"),
        ({"every": 0.5}, "job nightly: every 0.5: give an interval of 1 second or more"),
        ({"every": "60"}, "job nightly: every '60': give a number of seconds or a timedelta"),
        ({"crom": "0 3 * * *"}, "did you mean 'cron'?"),
    ],
)
def test_what_makes_no_sense_is_refused_at_the_decorator(options: dict[str, Any], says: str) -> None:
    for declare in (Tenure("memory://").job, Jobs().job):
        with pytest.raises(InvalidValue) as error:

            @declare(**options)
            async def nightly() -> None: ...

        assert says in str(error.value)


def test_a_job_that_comes_by_itself_needs_defaults() -> None:
    jobs = Jobs()
    with pytest.raises(InvalidValue, match="job report: nobody gives 'day' when it comes by itself"):

        @jobs.job(every=60)
        async def report(ctx: Context, day: int, size: int = 1) -> None: ...

    with pytest.raises(InvalidValue, match="a stub has none"):

        @jobs.stub(every=60)
        async def elsewhere() -> None: ...

    @jobs.job(every=timedelta(minutes=5))
    async def fine(ctx: "Context", later: "Later | None" = None) -> None: ...

    class Later: ...

    assert fine.periodic == Periodic(None, 300_000, "UTC")


def test_when_it_comes_is_no_option_of_its_jobs() -> None:
    app = Tenure("memory://")

    @app.job(cron="0 3 * * *", tz="Europe/Rome", queue="slow")
    async def nightly() -> None: ...

    assert nightly.periodic == Periodic("0 3 * * *", None, "Europe/Rome")
    assert nightly.declared == {"queue": "slow"}
    with pytest.raises(InvalidValue, match=r"nightly\.options\(\): there is no option 'cron'"):
        nightly.options(cron="0 4 * * *")  # type: ignore[call-arg]


async def test_a_worker_declares_what_its_code_does(app: Tenure, store: Store, clock: ManualClock) -> None:
    jobs = Jobs()

    @jobs.job(cron="0 9 * * *", tz="Europe/Rome", queue="slow", max_attempts=7)
    async def nightly(day: int = 3) -> None: ...

    app.include(jobs)
    async with app.worker():
        schedule = await only(app)
    assert (schedule.name, schedule.job_type, schedule.queue) == ("nightly", "nightly", "slow")
    assert (schedule.when, schedule.tz, schedule.catch_up) == ("0 9 * * *", "Europe/Rome", "latest")
    assert (schedule.declared, schedule.undeclared, schedule.paused) == (True, False, False)
    clock.advance(DAY)
    assert await fired(app, store) == 1
    (job,) = await app.jobs()
    assert (job.payload, job.max_attempts, job.key) == ({}, 7, f"schedule:nightly:{job.key[-13:] if job.key else ''}")


async def test_a_worker_of_other_tenants_declares_nothing(app: Tenure, store: Store) -> None:
    @app.job(every=60)
    async def often() -> None: ...

    async with app.worker(tenants=["acme"]):
        assert await app.schedules() == []
    async with app.worker(tenants=["acme", "default"]):
        assert (await only(app)).name == "often"


async def test_the_same_again_changes_nothing(store: Store, clock: ManualClock) -> None:
    app = code(store, every=60)
    worker = Declarations(app)
    await worker.look()
    before = [await store.list_documents(*where) for where in (("default", SCHEDULE), (SYSTEM, SCHEDULED))]
    for _ in range(3):
        clock.advance(LOOK)
        await worker.look()
    assert [await store.list_documents(*where) for where in (("default", SCHEDULE), (SYSTEM, SCHEDULED))] == before


async def test_workers_that_look_together_write_once(store: Store, between: Between, clock: ManualClock) -> None:
    app, other = code(store, every=60), code(between, every=60)
    await look(app, other)
    (before,) = await store.list_documents("default", DECLARATION)
    clock.advance(LOOK)
    await look(app)
    (after,) = await store.list_documents("default", DECLARATION)
    await look(other)
    assert await store.list_documents("default", DECLARATION) == [after]
    assert after.version == before.version + 1


async def test_it_fires_and_goes_on_where_it_was(store: Store, clock: ManualClock) -> None:
    app = code(store, every=60)
    await look(app)
    clock.advance(90 * SECOND)
    assert await fired(app, store) == 1
    await look(code(store, every=60, queue="other"))
    schedule = await only(app)
    assert (schedule.queue, schedule.last_at) == ("other", datetime.fromtimestamp(clock.now / 1_000 - 30, UTC))
    clock.advance(30 * SECOND)
    assert await fired(app, store) == 2


# Two codes at once


async def test_the_newer_code_holds_and_isnt_undone(store: Store, clock: ManualClock) -> None:
    old, new = code(store, every=60), code(store, cron="0 3 * * *")
    await look(old)
    await pass_time(clock, 2 * LOOK, old)
    assert (await only(old)).when == timedelta(seconds=60)
    await look(new)
    (before,) = await store.list_documents("default", SCHEDULE)
    await pass_time(clock, 2 * HOUR, old, new)
    assert await store.list_documents("default", SCHEDULE) == [before]
    assert (await only(old)).when == "0 3 * * *"


async def test_after_a_roll_back_the_older_code_holds_again(store: Store, clock: ManualClock) -> None:
    old, new = code(store, every=60), code(store, cron="0 3 * * *")
    await look(old)
    await pass_time(clock, 2 * LOOK, old, new)
    await pass_time(clock, LIVE - LOOK, old)
    assert (await only(old)).when == "0 3 * * *"
    await pass_time(clock, LOOK, old)
    assert (await only(old)).when == timedelta(seconds=60)


async def test_a_worker_that_was_away_brings_no_older_code_back(store: Store, clock: ManualClock) -> None:
    old, new = code(store, every=60), code(store, cron="0 3 * * *")
    await look(old)
    await pass_time(clock, 3 * LIVE, new)
    await pass_time(clock, LOOK, old, new)
    assert (await only(old)).when == "0 3 * * *"


async def test_codes_seen_at_the_same_instant_agree(store: Store, clock: ManualClock) -> None:
    one, other = code(store, every=60), code(store, every=90)
    await look(one, other, one, other)
    first = (await only(one)).when
    await pass_time(clock, 10 * LOOK, one, other)
    assert (await only(one)).when == first


async def test_no_look_undoes_another_that_came_between(store: Store, between: Between, clock: ManualClock) -> None:
    one, other = code(between, every=60), code(store, every=90)

    async def meanwhile(verb: Meddle, document: Document, **options: Any) -> Any:
        if document.kind == DECLARATION and between.meddle:
            between.meddle.clear()
            await look(other)
        return await verb(document, **options)

    between.meddle["put_document"] = meanwhile
    await look(one)
    (document,) = await store.list_documents("default", DECLARATION)
    assert (document.body or b"").count(b'"first"') == 2


def test_a_declaration_keeps_few_codes() -> None:
    declaration = Declaration()
    for number in range(MOST_SEEN + 5):
        declaration = declaration.looked(1_000_000 + number, f"code {number}")
    assert len(declaration.seen) == MOST_SEEN
    assert declaration.holds(1_000_000 + MOST_SEEN) == f"code {MOST_SEEN + 4}"


async def test_a_declaration_that_cant_be_read_counts_for_nothing(store: Store, clock: ManualClock) -> None:
    app = code(store, every=60)
    for body in (b"\xff", b"[]", b'{"seen": 3}'):
        reply = await store.put_document(Document(tenant="default", kind=DECLARATION, name="nightly", body=body))
        assert isinstance(reply, Stored)
        clock.advance(LOOK)
        await look(app)
        assert (await only(app)).declared


async def test_a_schedule_that_cant_be_read_is_written_anew(store: Store, clock: ManualClock) -> None:
    app = code(store, every=60)
    worker = Declarations(app)
    await worker.look()
    await store.put_document(Document(tenant="default", kind=SCHEDULE, name="nightly", body=b"{}"))
    assert await app.schedules() == []
    clock.advance(LOOK)
    await worker.look()
    assert (await only(app)).declared


async def test_a_frozen_store_is_left_alone(store: Store) -> None:
    app = code(store, every=60)
    await store.freeze()
    await look(app)
    await store.thaw()
    await look(app)
    assert (await only(app)).declared


# No code


async def test_what_no_worker_declares_is_paused_after_a_day(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app, other = code(store, every=HOUR / 1_000), code(store)
    await look(app)
    await pass_time(clock, DAY - LOOK, other)
    assert not (await only(app)).paused
    with caplog.at_level(logging.WARNING, "tenure.schedule"):
        await pass_time(clock, 3 * LOOK, other)
    schedule = await only(app)
    assert (schedule.paused, schedule.undeclared, schedule.next_at) == (True, True, None)
    assert caplog.messages == [
        "schedule nightly of default is paused: no worker has declared it for 24 hours; it goes on when one does, "
        "and can be removed: tenure schedules remove nightly"
    ]
    assert await fired(app, store) == 0
    with pytest.raises(InvalidValue, match="no worker declares it any more; it goes on when one does"):
        await app.resume_schedule("nightly")


async def test_time_without_workers_doesnt_count(store: Store, clock: ManualClock) -> None:
    app, other = code(store, every=60), code(store)
    await look(app)
    for _ in range(3):
        clock.advance(7 * DAY)
        await look(other)
    assert not (await only(app)).paused


async def test_declared_again_it_goes_on(store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    app, other = code(store, every=HOUR / 1_000), code(store)
    await look(app)
    await pass_time(clock, DAY, other)
    clock.advance(30 * MINUTE)
    with caplog.at_level(logging.INFO, "tenure.schedule"):
        await look(app)
    assert caplog.messages[-1] == "schedule nightly of default goes on: a worker declares it again"
    schedule = await only(app)
    assert (schedule.paused, schedule.undeclared) == (False, False)
    assert await fired(app, store) == 0, "what came while nobody declared it is gone"
    clock.advance(HOUR)
    assert await fired(app, store) == 1
    await pass_time(clock, DAY - 2 * LOOK, other)
    assert not (await only(app)).paused, "the day begins again"


async def test_a_persons_pause_holds_whatever_the_code(store: Store, clock: ManualClock) -> None:
    app, other = code(store, every=60), code(store)
    await look(app)
    await app.pause_schedule("nightly")
    await look(code(store, every=90))
    assert (await only(app)).paused
    await pass_time(clock, DAY, other)
    await look(app)
    schedule = await only(app)
    assert (schedule.paused, schedule.undeclared) == (True, False)
    await app.resume_schedule("nightly")
    assert not (await only(app)).paused


async def test_what_was_made_at_run_time_never_stops(store: Store, clock: ManualClock) -> None:
    app, other = code(store), code(store, every=60)
    await app.schedule("own", DAY / 1_000, other.definitions["nightly"].build())
    await pass_time(clock, 2 * DAY, app)
    schedule = await only(app)
    assert (schedule.paused, schedule.declared) == (False, False)


# Names and removal


async def test_a_name_belongs_to_code_or_to_run_time(
    store: Store, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app = code(store, every=60)
    call = app.definitions["nightly"].build()
    made = await app.schedule("nightly", 3_600, call)
    worker = Declarations(app)
    with caplog.at_level(logging.WARNING, "tenure.schedule"):
        await worker.look()
        clock.advance(LOOK)
        await worker.look()
    assert await only(app) == made
    (line,) = caplog.messages
    assert line.startswith(
        "schedule nightly of default isn't declared: app.schedule made a schedule of the name of job"
    )
    assert await app.unschedule("nightly")
    clock.advance(LOOK)
    await worker.look()
    assert (await only(app)).declared
    with pytest.raises(InvalidValue, match="job nightly declares one of this name in code"):
        await app.schedule("nightly", 3_600, call)
    assert (await only(app)).when == timedelta(seconds=60)


async def test_what_workers_declare_cant_be_removed(store: Store, clock: ManualClock) -> None:
    app, other = code(store, every=60), code(store)
    await look(app)
    clock.advance(LIVE - 1)
    with pytest.raises(InvalidValue, match="workers declare it; take cron= or every= off job nightly"):
        await app.unschedule("nightly")
    clock.advance(1)
    assert await app.unschedule("nightly")
    assert await app.schedules() == []
    await pass_time(clock, DAY + LOOK, other)
    assert await store.list_documents("default", DECLARATION) == []
    await look(app)
    assert (await only(app)).declared


def test_a_sandbox_declares_as_a_worker_does() -> None:
    app, ran = Tenure("memory://"), []

    @app.job(every=60)
    async def often() -> None:
        ran.append(1)

    with sandbox(app) as box:
        assert box.drain() == 0
        box.advance(60)
        assert box.drain() == 1
    assert ran == [1]
