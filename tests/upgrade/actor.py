"""One process of an upgrade: `python -m tests.upgrade.actor ROLE NAME PLAN`, with one version's package on its path.

It reads orders, one word a line, and writes what it has done as JSON, one object a line.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import tenure
from tenure.domain.calls import (
    Cancel,
    Claim,
    Claimed,
    ClaimedJob,
    Cursor,
    Discard,
    Enqueued,
    EventPage,
    JobFilter,
    Renewal,
    Replay,
    Settle,
)
from tenure.domain.errors import Refused, SchemaTooNew
from tenure.domain.job import NewJob, Progress
from tenure.domain.states import State
from tenure.domain.store import queue_topic
from tests.kills.plan import insist
from tests.upgrade import jobs
from tests.upgrade.plan import PRODUCED, REPLAYED, Plan, client, opened
from tests.upgrade.reading import everything, shown

T = TypeVar("T")

FILLED_AT_ONCE = 500
SWEEP_MS = 1_000
IDLE_SECONDS = 0.2
RENEW_SECONDS = 5.0
LISTED_EVERY = 10
"""Of so many calls of a producer, one lists jobs."""


def say(**words: Any) -> None:
    sys.stdout.write(msgspec.json.encode(words).decode() + "\n")
    sys.stdout.flush()


class Actor:
    """A client of the store that knows how long each of its calls took."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan = plan
        self.name = name
        self.store = client(plan, name)
        self.orders: set[str] = set()
        self._took: list[tuple[str, float, float]] = []

    async def timed(self, verb: str, call: Callable[[], Awaitable[T]]) -> T:
        """The answer, however often it must be asked for; all of it is how long the caller was blocked."""
        start = time.monotonic()
        try:
            return await insist(call)
        finally:
            self._took.append((verb, start, time.monotonic() - start))

    def listen(self) -> None:
        """Orders come by standard input; its end is the order to stop."""
        os.set_blocking(sys.stdin.fileno(), False)
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._hear)

    def _hear(self) -> None:
        said = os.read(sys.stdin.fileno(), 1_000)
        self.orders.update(said.decode().split() or ["stop"])
        if not said:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())

    async def end(self) -> None:
        await self.store.close()
        path = Path(self.plan.folder) / f"times-{self.name}.json"
        path.write_bytes(msgspec.json.encode(self._took))


# What an old program did before


async def fill(actor: Actor) -> None:
    """Makes the store, with jobs in every state that they can be in."""
    plan, store = actor.plan, actor.store
    schema = await store.migrate()
    for document in jobs.documents():
        done(await store.put_document(document))
    ended = jobs.ended_before(plan)
    for start in range(0, ended, FILLED_AT_ONCE):
        await _enqueue(actor, [jobs.job(number, plan) for number in range(start, min(start + FILLED_AT_ONCE, ended))])
        await _work_off(actor)
    waiting = [number for number in range(ended, plan.jobs) if number >= ended + plan.held]
    await _enqueue_flows(actor, [number for number in waiting if jobs.in_flow(number)])
    others = [number for number in range(ended, plan.jobs) if number < ended + plan.held or not jobs.in_flow(number)]
    for start in range(0, len(others), FILLED_AT_ONCE):
        numbers = others[start : start + FILLED_AT_ONCE]
        await _enqueue(actor, [jobs.job(number, plan) for number in numbers])
        await _call_off(actor, [number for number in numbers if number >= ended + plan.held])
    await _dispose(actor)
    await _read_feed(actor)
    say(filled={"schema": schema, "fields": list(NewJob.__struct_fields__)})


async def _enqueue_flows(actor: Actor, numbers: list[int]) -> None:
    """Children and their parents, before the backlog. A sweep of c8539ee looks once for each new child's parents, and
    walks their whole lane: behind a backlog of 80,000 jobs a lane it takes five seconds, whether or not others migrate.
    """
    for start in range(0, len(numbers), FILLED_AT_ONCE):
        await _enqueue(actor, [jobs.job(number, actor.plan) for number in numbers[start : start + FILLED_AT_ONCE]])
        await actor.store.sweep(0)


async def _read_feed(actor: Actor) -> None:
    """To its end: on some stores that is what numbers its events."""
    cursor = None
    while True:
        page = await actor.store.events(after=cursor, limit=2_000)
        assert isinstance(page, EventPage), page
        cursor = page.cursor
        if not page.events:
            return


def done(reply: T | Refused) -> T:
    assert not isinstance(reply, Refused), reply
    return reply


async def _enqueue(actor: Actor, batch: list[NewJob]) -> None:
    for reply in await actor.store.enqueue(batch):
        assert isinstance(reply, Enqueued), reply
        assert reply.created, reply


async def _work_off(actor: Actor) -> None:
    while (claimed := await _claim(actor, (jobs.PAST,), Cursor(), FILLED_AT_ONCE)).jobs:
        halfway = [Renewal(one.token, Progress(0.5, "half")) for one in claimed.jobs if _number(one) % 100 == 0]
        if halfway:
            await actor.store.renew(halfway)
        await actor.store.settle([Settle(one.token, jobs.before(_number(one))) for one in claimed.jobs])


async def _call_off(actor: Actor, numbers: list[int]) -> None:
    called_off = [number for number in numbers if number % jobs.CYCLE == jobs.CANCELLED]
    commands = [Cancel(tenant=jobs.tenant_of(number), id=jobs.job_id(number)) for number in called_off]
    if commands:
        await actor.store.command(commands)


async def _dispose(actor: Actor) -> None:
    """Some dead letters are replayed or discarded."""
    for number in range(7, jobs.ended_before(actor.plan), 200):
        tenant, id_ = jobs.tenant_of(number), jobs.job_id(number)
        again = Replay(tenant=tenant, id=id_, new_id=jobs.job_id(REPLAYED + number))
        for reply in await actor.store.command([again if number % 400 == 7 else Discard(tenant=tenant, id=id_)]):
            done(reply)


def _number(claimed: ClaimedJob) -> int:
    return jobs.number_of(claimed.token.job_id)


async def _claim(actor: Actor, queues: tuple[str, ...], cursor: Cursor, count: int) -> Claimed:
    request = Claim(
        claim_id=os.urandom(16),
        worker=actor.name,
        queues=tuple((queue, None) for queue in queues),
        n=count,
        ttl=actor.plan.ttl,
        grace=actor.plan.grace,
        cursor=cursor,
    )
    return done(await actor.timed("claim", lambda: actor.store.claim(request)))


# What programs do meanwhile


async def work(actor: Actor) -> None:
    """Claims and settles; an old one holds some leases until it has the order to settle them."""
    old = actor.name.startswith("old")
    if not old:
        say(schema=await actor.store.migrate())
    worker = Worker(actor, jobs.WORKED if old else (*jobs.WORKED, jobs.HELD))
    if old:
        await worker.hold()
    while "stop" not in actor.orders:
        await worker.turn()


class Worker:
    """Claims, settles, sweeps; beside it renews what it holds."""

    def __init__(self, actor: Actor, queues: tuple[str, ...]) -> None:
        self._actor = actor
        self._queues = queues
        self._cursor = Cursor()
        self._held: tuple[ClaimedJob, ...] = ()
        self._swept = 0.0
        self._renewed = time.monotonic()

    async def hold(self) -> None:
        plan = self._actor.plan
        self._held = (await _claim(self._actor, (jobs.HELD,), Cursor(), plan.held // plan.old_workers)).jobs
        say(holds=len(self._held))

    async def turn(self) -> None:
        await self._sweep()
        if "settle" in self._actor.orders:
            self._actor.orders.remove("settle")
            await self._let_go()
        await self._renew()
        claimed = await _claim(self._actor, self._queues, self._cursor, self._actor.plan.batch)
        self._cursor = claimed.cursor
        if claimed.jobs:
            await _settle(self._actor, claimed.jobs)
            say(turn=len(claimed.jobs))
        else:
            await self._actor.store.wait([queue_topic(queue) for queue in self._queues], IDLE_SECONDS)

    async def _sweep(self) -> None:
        if time.monotonic() > self._swept + SWEEP_MS / 1_000:
            self._swept = time.monotonic()
            await self._actor.timed("sweep", lambda: self._actor.store.sweep(SWEEP_MS))

    async def _let_go(self) -> None:
        """Settles what it held, and asks for more of the same."""
        held, self._held = self._held, ()
        self._queues = (*jobs.WORKED, jobs.HELD)
        await _settle(self._actor, held)
        say(settled=len(held))

    async def _renew(self) -> None:
        if self._held and time.monotonic() > self._renewed + RENEW_SECONDS:
            self._renewed = time.monotonic()
            renewals = [Renewal(one.token) for one in self._held]
            await self._actor.timed("renew", lambda: self._actor.store.renew(renewals))


async def _settle(actor: Actor, claimed: tuple[ClaimedJob, ...]) -> None:
    settlements = [Settle(one.token, jobs.outcome(one)) for one in claimed]
    if settlements:
        await actor.timed("settle", lambda: actor.store.settle(settlements))


async def produce(actor: Actor) -> None:
    """One job after the other, at its pace; lists some now and then."""
    old = actor.name.startswith("old")
    fields = {} if old else jobs.SAMPLES
    if not old:
        say(schema=await actor.store.migrate())
    start = number = PRODUCED[actor.name]
    while "stop" not in actor.orders:
        batch = [jobs.produced(number, fields)]
        (reply,) = await actor.timed("enqueue", lambda: actor.store.enqueue(batch))  # noqa: B023 awaited here
        done(reply)
        number += 1
        if number % LISTED_EVERY == 0:
            where = JobFilter(tenant=jobs.tenant_of(number), states=(State.PENDING,))
            await actor.timed("list", lambda: actor.store.query(where, limit=20))  # noqa: B023 awaited here
        say(produced=number - start)
        await asyncio.sleep(actor.plan.pace_seconds)


async def come_late(actor: Actor) -> None:
    """A program that is started afterwards: it opens the store as an app does, and does one of everything."""
    await actor.store.migrate()
    (reply,) = await actor.store.enqueue([jobs.produced(PRODUCED[actor.name], {})])
    done(reply)
    await _settle(actor, (await _claim(actor, jobs.WORKED, Cursor(), 1)).jobs)
    say(went_on=True)


async def read(actor: Actor) -> None:
    """Everything in the store, into a file."""
    store = opened(actor.plan)
    with (Path(actor.plan.folder) / f"{actor.name}.jsonl").open("wb") as file:
        async for kind, value in everything(store):
            file.write(msgspec.json.encode((kind, shown(value))) + b"\n")
    await store.close()
    say(read=True)


ROLES = {"fill": fill, "work": work, "produce": produce, "late": come_late, "read": read}


async def act(role: str, name: str, plan: Plan) -> None:
    actor = Actor(plan, name)
    actor.listen()
    try:
        await ROLES[role](actor)
    except SchemaTooNew as refused:
        say(refused=str(refused))
    await actor.end()


def main() -> None:
    role, name, plan = sys.argv[1:]
    assert tenure.__file__ is not None
    source = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0])
    assert source in Path(tenure.__file__).parents, f"{tenure.__file__} isn't of {source}"
    asyncio.run(act(role, name, msgspec.json.decode(plan, type=Plan)))


if __name__ == "__main__":
    main()
