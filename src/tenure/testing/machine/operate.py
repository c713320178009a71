"""Rules of the operator: sweep, purge, configuration, reading, and time itself."""

import msgspec

from tenure.domain.calls import Document, JobFilter, Reading
from tenure.domain.config import QUEUE, TENANT
from tenure.domain.names import DAY, EVERYONE, HOUR, MINUTE, SECOND, Ms
from tenure.domain.states import State
from tenure.domain.store import FEED_TOPIC, queue_topic
from tenure.testing.machine import values
from tenure.testing.machine.dice import Dice
from tenure.testing.machine.lockstep import Bookmark, Divergence, difference, without_seq
from tenure.testing.machine.rules import rule, standing_still
from tenure.testing.machine.values import GRACE, TTL
from tenure.testing.machine.world import World

# Sweep and purge


@rule(weight=6)
async def sweep(world: World, dice: Dice) -> None:
    interval = dice.pick((0, 0, 0, TTL, 10 * SECOND))
    limit = dice.pick((1, 2, 500, 500))
    await world.call("sweep", interval, limit)


@rule()
async def sweep_hold(world: World, dice: Dice) -> None:
    await world.call("sweep", dice.pick((0, TTL)), 500, dice.pick((0, 1, TTL)))


@rule(weight=2)
async def purge(world: World, dice: Dice) -> None:
    """Mostly on another day, for nothing is due on its own."""
    if dice.chance(60):
        world.pair.clock.now = world.now + DAY
    await world.call("purge", values.retention(dice))
    await world.look_at_all()


# Configuration


@rule(weight=3)
async def configure(world: World, dice: Dice) -> None:
    await world.put_document(values.configuration(world, dice))


@rule(weight=0)
async def configure_turns(world: World, dice: Dice) -> None:
    """How often a tenant or a queue has its turn; now and then one pauses."""
    await world.put_document(values.turns(world, dice))


@rule()
async def configure_expecting(world: World, dice: Dice) -> None:
    """Compare and set, with the right version and with a wrong one."""
    document = values.configuration(world, dice)
    before = world.documents.get((document.tenant, document.kind, document.name))
    version = before.version if before is not None else 0
    await world.put_document(document, expect=version if dice.chance(60) else version + dice.pick((-1, 1, 2)))


@rule(weight=2)
async def unconfigure(world: World, dice: Dice) -> None:
    """Sets everything free again, or writes down once more what holds."""
    kinds = [document for document in world.documents.values() if document.kind in (QUEUE, TENANT)]
    if kinds:
        document = dice.pick(kinds)
        body = document.body if dice.chance(20) else values.reset(document)
        await world.put_document(msgspec.structs.replace(document, body=body, version=0))


@rule()
async def keep_document(world: World, dice: Dice) -> None:
    """A document the store doesn't read, with a version and perhaps an end."""
    level = dice.pick((*world.profile.tenants, EVERYONE))
    body = dice.pick((None, b"{}", b'{"cron": "0 3 * * *"}'))
    document = Document(tenant=level, kind="schedule", name=dice.pick(("nightly", "night.2")), body=body)
    before = world.documents.get((level, document.kind, document.name))
    expect = dice.pick((None, None, 0, before.version if before else 1))
    await world.put_document(document, expect=expect, ttl=dice.pick((None, None, 1, TTL)))


@rule()
async def configure_badly(world: World, dice: Dice) -> None:
    """Configuration that can't be read changes nothing."""
    body = dice.pick((b"", b"[]", b'{"weight": 0}', b'{"speed": 9}', b'{"mode": "fast"}', b'{"limit": "two"}'))
    tenant = world.profile.tenants[0]
    kind, name = dice.pick(((QUEUE, world.profile.queues[0]), (TENANT, tenant)))
    await world.put_document(Document(tenant=tenant, kind=kind, name=name, body=body))


@rule()
async def list_documents(world: World, dice: Dice) -> None:
    kind = dice.pick((QUEUE, TENANT, "schedule"))
    level = dice.pick((*world.profile.tenants, EVERYONE))
    await world.call("list_documents", level, kind, prefix=dice.pick(("", "", "night", "n")))


# Reading


@rule()
async def get(world: World, dice: Dice) -> None:
    refs = [world.any_ref(dice, *State) for _ in range(dice.between(1, 5))]
    await world.call("get", refs, Reading(explain=dice.chance(60), tracebacks=dice.chance(40)))


@rule()
async def query(world: World, dice: Dice) -> None:
    await query_all(world, values.job_filter(world, dice), dice.pick((1, 2, 3, 100)))


async def query_all(world: World, where: JobFilter, limit: int) -> None:
    """Follows all pages on both sides."""
    stores = (world.pair.model, world.pair.client)
    cursors: list[str | None] = [None, None]
    while True:
        pages = [
            await store.query(where, after=cursor, limit=limit) for store, cursor in zip(stores, cursors, strict=True)
        ]
        if without_seq(pages[0]) != without_seq(pages[1]):
            raise Divergence("query", f"{where!r}: {difference(*pages)}")
        world.tally.answer(world.rule, "query", pages[1])
        cursors = [page.cursor for page in pages]
        if cursors[1] is None:
            return


@rule(weight=2)
async def read_feed(world: World, dice: Dice) -> None:
    """From an old cursor or the beginning, store-wide or as one tenant, in small pages."""
    tenant = dice.pick((None, None, *world.profile.tenants))
    marks = world.pair.bookmarks[tenant]
    mark = dice.recent(marks) if marks and dice.chance(85) else None
    await world.pair.follow()
    expired = await world.pair.read_again(tenant, mark, dice.pick((1, 3, 10)) if mark else 1_000)
    world.tally.answer(world.rule, "events", expired)
    if tenant is None:
        world.pair.bookmark()
    elif mark and (within := await world.pair.stop_within(tenant, mark, dice.between(1, 3))):
        await world.pair.read_again(tenant, within, dice.pick((1, 3)))
    del marks[:-10]


@rule()
async def outlive_the_feed(world: World, dice: Dice) -> None:
    """Events go after 14 days; whoever stayed away longer is told so, and nothing is lost silently."""
    marks = [(tenant, mark) for tenant in (None, *world.profile.tenants) for mark in world.pair.bookmarks[tenant][:2]]
    marks += await _within_pages(world, dice)
    world.pair.clock.now = world.now + dice.pick((13, 14, 15)) * DAY
    await world.call("sweep", 0, dice.pick((1, 3, 500)))
    await world.pair.follow()
    for tenant, mark in marks:
        world.tally.answer(world.rule, "events", await world.pair.read_again(tenant, mark, dice.pick((1, 3))))


async def _within_pages(world: World, dice: Dice) -> list[tuple[str | None, Bookmark]]:
    """A reader of each tenant that stops between two events, mostly of one chunk."""
    found: list[tuple[str | None, Bookmark]] = []
    for tenant in world.profile.tenants:
        for start in world.pair.bookmarks[tenant][-1:]:
            mark = await world.pair.stop_within(tenant, start, dice.between(1, 4))
            found += [(tenant, mark)] if mark else []
    return found


@rule()
async def wait(world: World, dice: Dice) -> None:
    """Hints may be spurious or missing: only that the call returns is asked for."""
    await world.pair.client.wait([FEED_TOPIC, queue_topic(dice.pick(world.profile.queues))], 0)


# Time


@rule(weight=2)
async def pass_time(world: World, dice: Dice) -> None:
    step = dice.pick((0, 1, 1, GRACE, TTL - 1, TTL, TTL + GRACE, TTL + GRACE + 1, 10 * SECOND, MINUTE, HOUR))
    await _go(world, dice, world.pair.clock.now + step)


@rule(weight=3)
async def pass_to_an_edge(world: World, dice: Dice) -> None:
    """To just before, at or just after something's time."""
    edges = _edges(world, dice)
    if edges:
        await _go(world, dice, max(world.now, dice.pick(edges) + dice.pick((-1, 0, 0, 1))))


@rule()
async def pass_a_day(world: World, dice: Dice) -> None:
    await _go(world, dice, world.now + dice.pick((DAY, DAY, DAY, DAY - world.now % DAY, 3 * DAY, 15 * DAY)))


@rule(when=standing_still)
async def go_back(world: World, dice: Dice) -> None:
    """The host's clock goes back: for the store time stands still until it has caught up."""
    if not standing_still(world):
        return  # it was chosen before the store was opened
    await _go(world, dice, world.pair.clock.now - dice.pick((1, GRACE, TTL, MINUTE)))


def _edges(world: World, dice: Dice) -> list[Ms]:
    """The times at which something changes for one of the jobs."""
    edges: list[Ms] = []
    for ref in dice.some(list(world.jobs), 8):
        view = world.jobs[ref]
        lease = view.job.lease
        times = (
            lease and lease.until,
            lease and lease.deadline,
            view.job.run_at,
            view.job.expires_at,
            view.result and view.result.expires_at,
        )
        edges += [time for time in times if time and time + 1 >= world.now]
    return edges


async def _go(world: World, dice: Dice, to: Ms) -> None:
    """Sets the clock and looks at some jobs: what is derived from time must be the same on both sides."""
    world.pair.clock.now = to
    refs = dice.some(list(world.jobs), 6)
    if refs:
        world.tally.answer(world.rule, "get", await world.pair.call("get", refs, Reading(explain=True)))


# Other processes


@rule()
async def crash(world: World, dice: Dice) -> None:
    """The process dies; what was acknowledged is there when another opens the store."""
    await world.pair.crash()
    await world.pair.verify()
    await world.look_at_all()


@rule()
async def second_client(world: World, dice: Dice) -> None:
    """Another process comes, or goes."""
    if world.pair.other is None:
        await world.pair.open_other()
    elif dice.chance(30):
        await world.pair.close_other()
