"""Schedules: when they fire, what they fire, and that a tick fires once whoever is how slow."""

import asyncio
import logging
import random
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from tenure import Backoff, InvalidValue, Tenure
from tenure.domain.calls import Document
from tenure.domain.errors import StoreFrozen
from tenure.domain.names import DAY, HOUR, MINUTE, SECOND, Ms
from tenure.domain.states import State, Unique
from tenure.domain.store import Store
from tenure.engine.cron import Cron
from tenure.engine.definition import Definition
from tenure.engine.handle import Job
from tenure.engine.schedules import MOST_MISSED, SCHEDULE, Every, tick_id
from tenure.engine.surface import Surface
from tenure.engine.worker import scheduler as module
from tenure.engine.worker.scheduler import FRESH_SECONDS, LOOK_SECONDS, Scheduler
from tenure.testing.clock import ManualClock
from tests.engine.kit import Between, Meddle


def ms(text: str) -> Ms:
    """A time in UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000)


def times(ticks: list[Ms]) -> list[str]:
    return [f"{datetime.fromtimestamp(tick / 1_000, UTC):%m-%d %H:%M}" for tick in ticks]


def ticks_of(jobs: list[Job]) -> list[Ms]:
    """The ticks of jobs, from their keys, in order."""
    return sorted(int((job.key or "").rpartition(":")[2]) for job in jobs)


async def fired(home: Surface) -> list[Ms]:
    return ticks_of(await home.jobs())


@pytest.fixture
def report(app: Tenure) -> Definition[[int], None]:
    @app.job
    async def report(day: int) -> None: ...

    return report


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store)


# Cron and time zones


def test_a_time_that_the_spring_skips_comes_right_after_the_gap() -> None:
    ticks = list(islice(Cron("30 2 * * *", "Europe/Rome").after(ms("2027-03-27 00:00")), 3))
    assert times(ticks) == ["03-27 01:30", "03-28 01:00", "03-29 00:30"], "03:00 in Rome on the 28th"


def test_a_time_that_the_autumn_doubles_comes_once() -> None:
    ticks = list(islice(Cron("30 2 * * *", "Europe/Rome").after(ms("2027-10-30 00:00")), 3))
    assert times(ticks) == ["10-30 00:30", "10-31 00:30", "11-01 01:30"], "the first 02:30 of the 31st"


def test_what_comes_every_hour_follows_the_time_that_passes() -> None:
    cron = Cron("30 * * * *", "Europe/Rome")
    assert times(list(islice(cron.after(ms("2027-03-28 00:00")), 3))) == ["03-28 00:30", "03-28 01:30", "03-28 02:30"]
    assert times(list(islice(cron.after(ms("2027-10-31 00:00")), 3))) == ["10-31 00:30", "10-31 01:30", "10-31 02:30"]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0,30 2 * * *", "*/20 * * * *", "15 1-3 * * *", "0 3 * * *"])
@pytest.mark.parametrize("tz", ["Europe/Rome", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize("day", ["2027-03-27", "2027-10-30", "2027-04-03", "2027-10-02"])
def test_ticks_dont_depend_on_when_somebody_looks(expression: str, tz: str, day: str) -> None:
    """A scheduler starts from the last tick, another from some time in between: both must see the same ones."""
    cron, start = Cron(expression, tz), ms(f"{day} 00:00")
    end = start + 3 * DAY
    ticks = list(takewhile(lambda tick: tick <= end, cron.after(start)))
    assert len(ticks) == len(set(ticks)) >= 3
    for look in range(start, end - DAY, 13 * MINUTE):
        later = [tick for tick in ticks if tick > look]
        assert cron.following(look) == later[0], times([look, later[0]])
        earlier = [tick for tick in ticks if tick <= look]
        assert cron.newest(start, look, 2) == earlier[-2:], times([look])


def test_the_newest_of_many_ticks() -> None:
    cron, now = Cron("*/5 * * * *", "UTC"), ms("2027-02-01 00:00")
    found = cron.newest(ms("2026-01-01 00:00"), now, 1_000)
    assert (len(found), found[0], found[-1]) == (1_000, now - 999 * 5 * MINUTE, now)
    assert cron.newest(now, now, 5) == cron.newest(now, now - HOUR, 5) == []


def test_intervals_count_from_their_anchor() -> None:
    every = Every(100, 30)
    assert [every.following(instant) for instant in (0, 100, 129, 130, 131)] == [130, 130, 130, 160, 160]
    assert every.newest(100, 200, 9) == [130, 160, 190]
    assert every.newest(130, 190, 9) == [160, 190]
    assert every.newest(0, 1_000, 2) == [970, 1_000]
    assert every.newest(100, 129, 9) == []


# Declaring


async def test_a_schedule_is_listed(app: Tenure, report: Definition[[int], None], clock: ManualClock) -> None:
    made = await app.schedule("nightly", "0 3 * * *", report.options(queue="slow").build(1), tz="Europe/Rome")
    await app.schedule("heartbeat", timedelta(minutes=1), report.build(2), catch_up="none")
    heartbeat, nightly = await app.schedules()
    assert nightly == made
    assert (nightly.name, nightly.tenant, nightly.when, nightly.tz) == (
        "nightly",
        "default",
        "0 3 * * *",
        "Europe/Rome",
    )
    assert (nightly.job_type, nightly.queue, nightly.catch_up, nightly.paused) == ("report", "slow", "latest", False)
    assert (nightly.next_at, nightly.last_at) == (datetime(2027, 1, 16, 2, tzinfo=UTC), None)
    assert (heartbeat.when, heartbeat.catch_up) == (timedelta(minutes=1), "none")
    assert heartbeat.next_at == datetime(2027, 1, 15, 8, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("when", "options", "says"),
    [
        ("0 25 * * *", {}, "Bad hour; give minute hour day month weekday"),
        ("@daily", {}, "give minute hour day month weekday, such as '0 3 * * *'"),
        ("0 0 30 2 *", {}, "Bad day-of-month"),
        ("0 0 31 11 MON#1", {"tz": "Mars"}, "give a name such as 'Europe/Rome'"),
        ("0 3 * * *", {"tz": "Europe/Rom"}, "give a name such as 'Europe/Rome'"),
        (30, {"tz": "../zone"}, "give a name such as 'Europe/Rome'"),
        (30, {"tz": None}, "give a name such as 'Europe/Rome'"),
        ("0 3 * * *", {"tz": []}, "tz []"),
        ("* * */20 * 1L", {}, "no such time ever comes"),
        (0.999, {}, "give an interval of 1 second or more"),
        (0, {}, "give an interval of 1 second or more"),
        (-5, {}, "give 0 to"),
        (None, {}, "give a number of seconds or a timedelta"),
        (60, {"catch_up": "some"}, "give one of latest, all, none"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    app: Tenure, report: Definition[[int], None], when: Any, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidValue) as error:
        await app.schedule("nightly", when, report.build(1), **options)
    assert says in str(error.value)
    assert await app.schedules() == []


async def test_what_a_schedule_cant_keep_is_refused(app: Tenure, report: Definition[[int], None]) -> None:
    @app.job
    async def archive(text: str) -> None: ...

    with pytest.raises(InvalidValue, match="the schedule says when"):
        await app.schedule("a", 60, report.options(run_at=datetime(2030, 1, 1, tzinfo=UTC)).build(1))
    with pytest.raises(InvalidValue, match="each tick's job has an id of its own"):
        await app.schedule("a", 60, report.options(id=app.new_id()).build(1))
    with pytest.raises(InvalidValue, match=r"declare its schedules with app\.tenant"):
        await app.schedule("a", 60, report.options(tenant="acme").build(1))
    with pytest.raises(InvalidValue, match="pass a reference"):
        await app.schedule("a", 60, archive.build("x" * 250_000))
    with pytest.raises(InvalidValue, match="schedule 'no good'"):
        await app.schedule("no good", 60, report.build(1))
    assert await app.schedules() == []


async def test_declaring_it_again_changes_nothing(
    app: Tenure, report: Definition[[int], None], scheduler: Scheduler, store: Store, clock: ManualClock
) -> None:
    await app.schedule("tick", 60, report.build(1))
    clock.advance(90 * SECOND)
    await scheduler.step()
    (before,) = await store.list_documents("default", SCHEDULE)
    await app.schedule("tick", 60, report.build(1))
    assert await store.list_documents("default", SCHEDULE) == [before]
    await scheduler.step()
    assert len(await app.jobs()) == 1


async def test_declaring_it_with_other_arguments_goes_on_where_it_was(
    app: Tenure, report: Definition[[int], None], scheduler: Scheduler, clock: ManualClock
) -> None:
    start = clock.now
    await app.schedule("tick", 60, report.build(1))
    clock.advance(90 * SECOND)
    await scheduler.step()
    clock.advance(60 * SECOND)
    changed = await app.schedule("tick", 60, report.build(2))
    assert changed.next_at == datetime.fromtimestamp((start + 120 * SECOND) / 1_000, UTC), "still the one that is due"
    await scheduler.step()
    assert await fired(app) == [start + 60 * SECOND, start + 120 * SECOND]
    assert [job.payload for job in await app.jobs()] == [{"day": 2}, {"day": 1}]


async def test_declaring_it_with_other_times_starts_anew(
    app: Tenure, report: Definition[[int], None], scheduler: Scheduler, clock: ManualClock
) -> None:
    await app.schedule("tick", "0 9 * * *", report.build(1), catch_up="all")
    clock.advance(2 * DAY)
    await app.schedule("tick", "0 9,10 * * *", report.build(1), catch_up="all")
    await scheduler.step()
    assert await fired(app) == []
    clock.advance(2 * HOUR)
    await scheduler.step()
    assert times(await fired(app)) == ["01-17 09:00", "01-17 10:00"]


async def test_unscheduling(
    app: Tenure, report: Definition[[int], None], scheduler: Scheduler, clock: ManualClock
) -> None:
    await app.schedule("tick", 60, report.build(1))
    await scheduler.step()
    assert await app.unschedule("tick") is True
    assert await app.unschedule("tick") is False
    assert await app.schedules() == []
    clock.advance(DAY)
    await scheduler.step()
    assert await fired(app) == []
    await app.schedule("tick", 60, report.build(1))
    clock.advance(60 * SECOND)
    await scheduler.step()
    assert await fired(app) == [clock.now]


async def test_a_paused_schedule_fires_nothing_until_resumed(
    app: Tenure, report: Definition[[int], None], scheduler: Scheduler, clock: ManualClock
) -> None:
    await app.schedule("tick", 60, report.build(1), catch_up="all")
    await scheduler.step()
    paused = await app.pause_schedule("tick")
    assert (paused.paused, paused.next_at) == (True, None)
    assert (await app.schedule("tick", 60, report.build(1), catch_up="all")).paused, "a deployment resumes nothing"
    clock.advance(10 * MINUTE)
    await scheduler.step()
    assert await fired(app) == []
    resumed = await app.resume_schedule("tick")
    assert (resumed.paused, resumed.next_at) == (False, datetime(2027, 1, 15, 8, 11, tzinfo=UTC))
    await scheduler.step()
    assert await fired(app) == []
    clock.advance(MINUTE)
    await app.resume_schedule("tick")
    await scheduler.step()
    assert await fired(app) == [clock.now], "to resume what isn't paused skips nothing"
    with pytest.raises(InvalidValue, match="tenant default has none of this name"):
        await app.pause_schedule("tock")


async def test_tenants_have_their_own(
    app: Tenure, report: Definition[[int], None], store: Store, clock: ManualClock
) -> None:
    acme, bolt = app.tenant("acme"), app.tenant("bolt")
    await acme.schedule("tick", 60, report.build(1))
    await bolt.schedule("tick", 60, report.build(2))
    assert [one.tenant for one in await acme.schedules()] == ["acme"]
    assert await app.schedules() == []
    clock.advance(MINUTE)
    await Scheduler(store, ["bolt"]).step()
    assert (await fired(acme), await fired(bolt)) == ([], [clock.now])
    await Scheduler(store).step()
    assert (await fired(acme), await fired(bolt)) == ([clock.now], [clock.now])
    assert await acme.unschedule("tick")
    assert len(await bolt.schedules()) == 1


async def test_a_schedule_fires_for_the_tenant_that_has_it(
    app: Tenure, report: Definition[[int], None], store: Store, scheduler: Scheduler, clock: ManualClock
) -> None:
    """Whatever its document says: it may have been copied from another tenant."""
    await app.tenant("acme").schedule("tick", 60, report.build(1))
    await app.tenant("bolt").schedule("other", 3_600, report.build(1))
    (document,) = await store.list_documents("acme", SCHEDULE)
    await store.put_document(replace(document, tenant="bolt"))
    await app.tenant("acme").unschedule("tick")
    clock.advance(MINUTE)
    await scheduler.step()
    assert await fired(app.tenant("acme")) == []
    assert await fired(app.tenant("bolt")) == [clock.now]


# Firing


async def test_a_tick_is_a_job_with_all_its_options(
    app: Tenure, store: Store, scheduler: Scheduler, clock: ManualClock
) -> None:
    @app.job(queue="mail", max_attempts=7, retry=Backoff.exponential(1, 2), key=lambda to: to, labels={"team": "crm"})
    async def send(to: str) -> None: ...

    call = send.options(priority=9, timeout=30, lease=20, expires=600, delay=5, codec="msgpack").build("a@b.example")
    await app.schedule("mail", 60, call)
    clock.advance(MINUTE)
    await scheduler.step()
    (job,) = await app.jobs()
    spec = (await app.view(job.id)).job.spec
    assert (spec.job_type, spec.queue, spec.codec, job.payload) == ("send", "mail", "msgpack", {"to": "a@b.example"})
    assert (spec.max_attempts, spec.retry, job.priority) == (7, Backoff.exponential(1, 2), 9)
    assert (spec.timeout, spec.lease, spec.labels) == (30_000, 20_000, {"team": "crm"})
    assert (spec.expires_at, job.run_at.timestamp() * 1_000) == (clock.now + 600_000, clock.now + 5_000)
    assert (spec.key, spec.unique) == (f"schedule:mail:{clock.now}", Unique.RETAINED)
    assert spec.id == tick_id("default", "mail", clock.now)


async def test_it_fires_at_its_time_and_not_before(
    app: Tenure, report: Definition[[int], None], scheduler: Scheduler, clock: ManualClock
) -> None:
    await app.schedule("nightly", "0 9 * * *", report.build(1))
    await scheduler.step()
    clock.advance(HOUR - 1)
    assert await scheduler.step() == pytest.approx(0.001, abs=0.0011)
    assert await fired(app) == []
    clock.advance(1)
    assert await scheduler.step() == pytest.approx(LOOK_SECONDS, abs=1)
    assert times(await fired(app)) == ["01-15 09:00"]
    (schedule,) = await app.schedules()
    assert schedule.last_at == datetime(2027, 1, 15, 9, tzinfo=UTC)
    assert schedule.next_at == datetime(2027, 1, 16, 9, tzinfo=UTC)


async def test_a_look_says_when_the_next_tick_comes(
    app: Tenure, report: Definition[[int], None], scheduler: Scheduler
) -> None:
    assert await scheduler.step() == LOOK_SECONDS
    await app.schedule("slow", 3_600, report.build(1))
    assert await scheduler.step() == pytest.approx(LOOK_SECONDS, abs=1)
    await app.schedule("fast", 3, report.build(1))
    assert 2 < await scheduler.step() <= 3


async def test_the_days_when_clocks_change(
    app: Tenure, report: Definition[[int], None], scheduler: Scheduler, clock: ManualClock
) -> None:
    for start in ("2027-03-27 00:00", "2027-10-30 00:00"):
        clock.now = ms(start)
        await app.unschedule("nightly")
        await app.schedule("nightly", "30 2 * * *", report.build(1), tz="Europe/Rome")
        for _ in range(3 * 24 * 4):
            clock.advance(15 * MINUTE)
            await scheduler.step()
    assert times(await fired(app)) == [
        *("03-27 01:30", "03-28 01:00", "03-29 00:30"),
        *("10-30 00:30", "10-31 00:30", "11-01 01:30"),
    ]


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("latest", ["01-18 09:00"]),
        ("all", ["01-15 09:00", "01-16 09:00", "01-17 09:00", "01-18 09:00"]),
        ("none", []),
    ],
)
async def test_after_a_downtime(
    app: Tenure,
    report: Definition[[int], None],
    scheduler: Scheduler,
    store: Store,
    clock: ManualClock,
    catch_up: Any,
    expected: list[str],
) -> None:
    await app.schedule("nightly", "0 9 * * *", report.build(1), catch_up=catch_up)
    clock.advance(3 * DAY + 4 * HOUR)
    for _ in range(3):
        await scheduler.step()
        await Scheduler(store).step()
    assert times(await fired(app)) == expected
    (schedule,) = await app.schedules()
    assert schedule.next_at == datetime(2027, 1, 19, 9, tzinfo=UTC), "none of it is missed any more"
    clock.now = ms("2027-01-19 09:00") + 59 * SECOND
    await scheduler.step()
    assert times(await fired(app)) == [*expected, "01-19 09:00"], "a little late isn't missed"


async def test_all_has_a_bound(
    app: Tenure,
    report: Definition[[int], None],
    scheduler: Scheduler,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await app.schedule("tick", 1, report.build(1), catch_up="all")
    clock.advance(2 * HOUR)
    await scheduler.step()
    ticks = await fired(app)
    assert ticks == [clock.now - n * SECOND for n in reversed(range(MOST_MISSED))]
    assert "missed more than 1000 ticks" in caplog.text
    await scheduler.step()
    assert len(await fired(app)) == MOST_MISSED


async def test_a_full_queue_only_delays(
    app: Tenure,
    report: Definition[[int], None],
    scheduler: Scheduler,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    start = clock.now
    await app.queue("default").configure(max_depth=2)
    await app.schedule("tick", 60, report.build(1), catch_up="all")
    await app.tenant("acme").schedule("tick", 60, report.build(1))
    clock.advance(3 * MINUTE)
    for _ in range(3):
        assert await scheduler.step() > 1, "no hot loop"
        clock.advance(6 * SECOND)
    assert await fired(app) == [start + MINUTE, start + 2 * MINUTE]
    assert len(await app.tenant("acme").jobs()) == 1, "it stops no other"
    assert [record.message for record in caplog.records if "QueueFull" in record.message] == [
        "schedule tick of default: it can't fire now: QueueFull: the queue already holds its 2 waiting jobs"
    ]
    await app.cancel(queue="default")
    await scheduler.step()
    assert await fired(app) == [start + MINUTE, start + 2 * MINUTE, start + 3 * MINUTE]


async def test_a_broken_schedule_stops_no_other(
    app: Tenure,
    report: Definition[[int], None],
    scheduler: Scheduler,
    store: Store,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await app.schedule("good", 60, report.build(1))
    (good,) = await store.list_documents("default", SCHEDULE)
    body = msgspec.json.decode(good.body or b"")
    broken = {
        "a-not-json": b"{",
        "b-empty": b"{}",
        "c-list": b"[1]",
        "d-cron": msgspec.json.encode({**body, "every_ms": None, "cron": "61 * * * *"}),
        "e-zone": msgspec.json.encode({**body, "tz": "Mars/Olympus"}),
        "f-both": msgspec.json.encode({**body, "cron": "* * * * *"}),
        "z-job": msgspec.json.encode({**body, "job": {**body["job"], "priority": 1_000}}),
    }
    for name, content in broken.items():
        await store.put_document(Document(tenant="default", kind=SCHEDULE, name=name, body=content))
    await app.schedule("zz-good", 60, report.build(2))
    for _ in range(3):
        clock.advance(MINUTE)
        await scheduler.step()
    assert len(await fired(app)) == 6
    for name in broken:
        assert caplog.text.count(f"schedule {name} of default") == 1, name
    assert [one.name for one in await app.schedules()] == ["good", "zz-good"]
    await app.schedule("a-not-json", 60, report.build(3))
    assert await app.unschedule("b-empty")
    clock.advance(MINUTE)
    await scheduler.step()
    assert len(await fired(app)) == 9


async def test_what_breaks_while_firing_stops_no_other(
    app: Tenure, between: Between, report: Definition[[int], None], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(cast(Store, between))
    await app.schedule("a", 60, report.build(1))
    await app.schedule("b", 60, report.build(2))
    clock.advance(MINUTE)

    async def picky(verb: Meddle, jobs: Any, **kwargs: Any) -> Any:
        if jobs[0].payload == b'{"day":1}':
            raise ZeroDivisionError("a bug")
        return await verb(jobs, **kwargs)

    between.meddle["enqueue"] = picky
    assert await scheduler.step() > 1
    assert [job.payload for job in await app.jobs()] == [{"day": 2}]
    assert "schedule a of default: it can't fire now: ZeroDivisionError: a bug" in caplog.text


async def test_a_frozen_store_fires_nothing(
    app: Tenure, report: Definition[[int], None], scheduler: Scheduler, store: Store, clock: ManualClock
) -> None:
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    await store.freeze()
    assert await scheduler.step() == LOOK_SECONDS
    with pytest.raises(StoreFrozen):
        await app.schedule("tock", 60, report.build(1))
    await store.thaw()
    await scheduler.step()
    assert await fired(app) == [clock.now]


async def test_an_idle_look_costs_two_calls(
    app: Tenure, between: Between, report: Definition[[int], None], clock: ManualClock
) -> None:
    scheduler = Scheduler(cast(Store, between))
    for tenant in ("acme", "bolt", "crest"):
        await app.tenant(tenant).schedule("tick", 3_600, report.build(1))
    await scheduler.step()
    between.calls.clear()
    await scheduler.step()
    assert [verb for verb, _ in between.calls] == ["list_documents", "sweep"]


# Once


async def test_two_schedulers_that_read_the_same_fire_once(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock
) -> None:
    """Slow is about to enqueue what fast has long fired and marked."""
    between = Between(store)
    slow, fast = Scheduler(cast(Store, between)), Scheduler(store)
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    enqueue = between.hold("enqueue")
    step = asyncio.create_task(slow.step())
    await enqueue.came.wait()
    await fast.step()
    enqueue.let_go()
    await step
    assert await fired(app) == [clock.now]
    await slow.step()
    await fast.step()
    assert await fired(app) == [clock.now]


async def test_a_scheduler_that_dies_before_its_mark_fires_once(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock
) -> None:
    between = Between(store)
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    mark = between.hold("put_document")
    step = asyncio.create_task(Scheduler(cast(Store, between)).step())
    await mark.came.wait()
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert await fired(app) == [clock.now]
    await Scheduler(store).step()
    assert await fired(app) == [clock.now]
    (schedule,) = await app.schedules()
    assert schedule.next_at == datetime.fromtimestamp((clock.now + MINUTE) / 1_000, UTC)


async def test_a_mark_that_comes_late_takes_nothing_back(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock
) -> None:
    between = Between(store)
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    mark = between.hold("put_document")
    step = asyncio.create_task(Scheduler(cast(Store, between)).step())
    await mark.came.wait()
    clock.advance(MINUTE)
    await Scheduler(store).step()
    expected = await app.schedules()
    mark.let_go()
    await step
    assert await app.schedules() == expected
    assert await fired(app) == [clock.now - MINUTE, clock.now]


async def test_a_tick_whose_record_is_purged_doesnt_fire_again(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock
) -> None:
    """A scheduler that looked before everything happened, and comes back after it was forgotten."""
    slow, fast = Scheduler(store), Scheduler(store)
    await app.schedule("once", "0 9 15 1 *", report.build(1))
    await slow.step()
    clock.advance(HOUR)
    await fast.step()
    await _forgotten(app, store, clock)
    await slow.step()
    await Scheduler(store).step()
    assert await fired(app) == []


async def test_a_schedule_that_was_read_too_long_ago_isnt_fired(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock
) -> None:
    """The same, when the answer itself is that late: the machine slept in the middle of a look."""
    between, seconds = Between(store), [0.0]
    slow = Scheduler(cast(Store, between), clock=lambda: seconds[0])
    await app.schedule("once", "0 9 15 1 *", report.build(1))
    await slow.step()
    clock.advance(HOUR)

    async def asleep(verb: Meddle, tenant: str, kind: str, **kwargs: Any) -> Any:
        answer = await verb(tenant, kind, **kwargs)
        if kind == SCHEDULE:
            between.meddle.clear()
            await Scheduler(store).step()
            await _forgotten(app, store, clock)
            seconds[0] += FRESH_SECONDS + 1
        return answer

    between.meddle["list_documents"] = asleep
    await slow.step()
    assert between.meddle == {}
    await slow.step()
    assert await fired(app) == []


async def _forgotten(app: Tenure, store: Store, clock: ManualClock) -> None:
    """The one job there is ends, and its record goes."""
    (job,) = await app.jobs()
    assert await app.cancel(job.id)
    clock.advance(30 * DAY)
    while await store.purge():
        pass
    assert await app.jobs() == []


async def test_a_schedule_that_moves_to_another_queue_fires_a_tick_once(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock
) -> None:
    """Keys are per queue and job type: only the id is left to tell that it is the same tick."""
    between = Between(store)
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    enqueue = between.hold("enqueue")
    step = asyncio.create_task(Scheduler(cast(Store, between)).step())
    await enqueue.came.wait()
    await app.schedule("tick", 60, report.options(queue="slow").build(2))
    await Scheduler(store).step()
    enqueue.let_go()
    await step
    (job,) = await app.jobs()
    assert (job.queue, job.payload) == ("slow", {"day": 2})
    (schedule,) = await app.schedules()
    assert schedule.queue == "slow"
    await Scheduler(store).step()
    assert len(await app.jobs()) == 1


async def test_a_removed_schedule_isnt_written_back(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock
) -> None:
    """A new schedule of the same name must not have a version that a slow scheduler remembers of the old one."""
    between = Between(store)
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    mark = between.hold("put_document")
    step = asyncio.create_task(Scheduler(cast(Store, between)).step())
    await mark.came.wait()
    await app.unschedule("tick")
    made = await app.schedule("tick", "0 12 * * *", report.build(2))
    mark.let_go()
    await step
    assert await app.schedules() == [made]


async def test_a_tick_that_was_fired_under_an_old_declaration_is_done(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock
) -> None:
    """Its scheduler died before the mark; whoever comes next finds another body under its id, and goes on."""
    between = Between(store)
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    mark = between.hold("put_document")
    step = asyncio.create_task(Scheduler(cast(Store, between)).step())
    await mark.came.wait()
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    await app.schedule("tick", 60, report.options(queue="slow").build(2))
    await Scheduler(store).step()
    assert [job.payload for job in await app.jobs()] == [{"day": 1}]
    (schedule,) = await app.schedules()
    assert schedule.last_at == datetime.fromtimestamp(clock.now / 1_000, UTC)


async def test_a_tick_whose_key_is_taken_is_done(
    app: Tenure, report: Definition[[int], None], scheduler: Scheduler, clock: ManualClock
) -> None:
    """As by its own replay with other arguments, once the original is purged."""
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    await report.options(key=f"schedule:tick:{clock.now}").enqueue(2)
    await scheduler.step()
    assert [job.payload for job in await app.jobs()] == [{"day": 2}]
    (schedule,) = await app.schedules()
    assert schedule.last_at == datetime.fromtimestamp(clock.now / 1_000, UTC)


async def test_a_schedule_that_is_paused_during_a_look_fires_nothing(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock
) -> None:
    between = Between(store)
    scheduler = Scheduler(cast(Store, between))
    await app.schedule("tick", 60, report.build(1))
    await scheduler.step()
    clock.advance(MINUTE)
    sweep = between.hold("sweep")
    step = asyncio.create_task(scheduler.step())
    await sweep.came.wait()
    await app.pause_schedule("tick")
    sweep.let_go()
    await step
    assert await fired(app) == []


async def test_a_pause_doesnt_undo_a_mark(
    app: Tenure, store: Store, between: Between, report: Definition[[int], None], clock: ManualClock
) -> None:
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    write = between.hold("put_document")
    pause = asyncio.create_task(app.pause_schedule("tick"))
    await write.came.wait()
    await Scheduler(store).step()
    write.let_go()
    paused = await pause
    assert (paused.paused, paused.last_at) == (True, datetime.fromtimestamp(clock.now / 1_000, UTC))
    assert await app.schedules() == [paused]


async def test_a_pause_isnt_undone_by_a_mark(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock
) -> None:
    between = Between(store)
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    mark = between.hold("put_document")
    step = asyncio.create_task(Scheduler(cast(Store, between)).step())
    await mark.came.wait()
    await app.pause_schedule("tick")
    mark.let_go()
    await step
    (schedule,) = await app.schedules()
    assert schedule.paused


@pytest.mark.parametrize("seed", range(12))
async def test_many_schedulers_at_their_own_speeds(
    app: Tenure, store: Store, report: Definition[[int], None], clock: ManualClock, seed: int
) -> None:
    """Each call of each is answered after a random number of turns; time passes and declarations happen in between."""
    dice, start = random.Random(seed), clock.now

    async def slowly(verb: Meddle, *args: Any, **kwargs: Any) -> Any:
        for _ in range(dice.randrange(8)):
            await asyncio.sleep(0)
        answer = await verb(*args, **kwargs)
        for _ in range(dice.randrange(8)):
            await asyncio.sleep(0)
        return answer

    async def works() -> None:
        between = Between(store)
        between.meddle = dict.fromkeys(("list_documents", "sweep", "enqueue", "put_document"), slowly)
        scheduler = Scheduler(cast(Store, between))
        for _ in range(15):
            await scheduler.step()

    async def happens() -> None:
        for n in range(30):
            clock.advance(dice.randrange(40) * SECOND)
            await app.schedule("tick", 60, report.options(queue=f"q{n // 5}").build(n), catch_up="all")
            await asyncio.sleep(0)

    await app.schedule("tick", 60, report.build(0), catch_up="all")
    await asyncio.gather(happens(), *(works() for _ in range(4)))
    await Scheduler(store).step()
    assert await fired(app) == list(range(start + MINUTE, clock.now + 1, MINUTE))


# In a worker


async def test_a_worker_fires_and_runs(app: Tenure, clock: ManualClock) -> None:
    ran: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @app.job
    async def report(day: int) -> None:
        ran.set_result(day)

    await app.schedule("tick", 60, report.build(7))
    clock.advance(MINUTE)
    async with app.worker() as worker:
        assert await ran == 7
        await worker.idle()
    (job,) = await app.jobs()
    assert job.state is State.SUCCEEDED


async def test_the_loop_survives_a_store_that_is_away(
    app: Tenure,
    between: Between,
    report: Definition[[int], None],
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.001, 0.002))
    await app.schedule("tick", 60, report.build(1))
    clock.advance(MINUTE)
    marked = asyncio.Event()

    async def telling(verb: Meddle, *args: Any, **kwargs: Any) -> Any:
        answer = await verb(*args, **kwargs)
        marked.set()
        return answer

    for verb in ("list_documents", "sweep", "enqueue"):
        between.fail(verb, times=2)
    between.meddle["put_document"] = telling
    caplog.set_level(logging.DEBUG, "tenure.schedule")
    loop = asyncio.create_task(Scheduler(cast(Store, between)).run())
    await marked.wait()
    loop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loop
    assert await fired(app) == [clock.now]
    assert caplog.text.count("for the store: the store is away") == 6
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == ["WARNING"]


def test_from_code_without_a_loop(app: Tenure, clock: ManualClock) -> None:
    @app.job
    async def report(day: int) -> None: ...

    made = app.sync.schedule("tick", 60, report.build(1), tz="Europe/Rome", catch_up="all")
    assert app.sync.schedules() == [made]
    assert app.sync.pause_schedule("tick").paused
    assert not app.sync.resume_schedule("tick").paused
    assert app.sync.tenant("acme").schedules() == []
    assert app.sync.unschedule("tick")


async def test_a_new_schedule_is_seen_at_once(
    app: Tenure, report: Definition[[int], None], between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 3_600)
    running = asyncio.create_task(Scheduler(cast(Store, between)).run())
    await between.called("wait", 1)
    await app.schedule("tick", 60, report.build(1))
    await between.called("sweep", 2)  # one to declare it, one of the scheduler that looks at its ticks
    running.cancel()
    await asyncio.wait([running])
