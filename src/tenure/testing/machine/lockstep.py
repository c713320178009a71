"""Two stores told the same things: the one under test, recorded and checked, and the oracle (`oracle`).

Whatever one answers the other must answer too. The feed is followed after every step, each tenant's view of it compared
exactly; old cursors are kept and read again, for nothing may ever appear before them.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from traceback import walk_tb
from typing import Any

import msgspec

from tenure.domain.calls import Claimed, ClaimedJob, DumpItem, EventPage, Exchanged, JobPage, JobView
from tenure.domain.errors import CursorExpired, Refused, TenureError
from tenure.domain.event import Event
from tenure.domain.job import Job, Ref
from tenure.domain.model.transfer import KINDS
from tenure.domain.store import Capabilities, ClockFloor, Store
from tenure.stores.ways import Way
from tenure.testing.checker import Checker, Violation
from tenure.testing.clock import ManualClock
from tenure.testing.factory import StoreFactory
from tenure.testing.history import RecordingStore
from tenure.testing.machine.oracle import Oracle
from tenure.testing.machine.story import Call, tell

Asked = tuple[Any, ...]
"""(verb, *arguments)"""

KEPT_CALLS = 400
PAGE = 1_000
SMALL_PAGES = 40
"""So many of a dump and of a load are as small as the dice say; what is left of a large world comes by thousands."""


class Divergence(AssertionError):
    """The store under test and the model answered differently, or one of them broke."""

    def __init__(self, verb: str, detail: str) -> None:
        super().__init__(f"{verb}: {detail}")
        self.verb = verb
        self.detail = detail


class Bookmark(msgspec.Struct, frozen=True):
    """A place in the feed, as each store names it, and how many events of the view stood before it."""

    model: str
    store: str
    index: int
    within: bool = False
    """Between two events of a page: a store may have put them into other chunks than the model."""


class InTurn(msgspec.Struct, frozen=True):
    """A copy of the model after some calls, their answers, and what the feed told of each."""

    model: Oracle
    answers: list[Any]
    events: list[list[Event]]
    head: str | None
    """The feed's end in that copy."""

    def tells(self, told: list[Event]) -> bool:
        """Whether a feed may tell of the calls so when they overlap: each tenant's events of a call are together and in
        order, each job's by version, and which call comes first is open.
        """
        calls = [by_tenant(events) for events in self.events]
        orders = (calls, calls[::-1])
        alike = all(
            any([event for call in order for event in call[tenant]] == events for order in orders)
            for tenant, events in by_tenant(told).items()
        )
        return alike and by_job(told) == by_job(event for events in self.events for event in events)


class Lockstep:
    """The pair of stores on one clock, the checker, and what was heard from the feed."""

    def __init__(
        self, factory: StoreFactory, heard: Callable[[Way], None] | None = None, *, sequential: bool = True
    ) -> None:
        self.factory = factory
        self._heard = heard
        """Is given every way that the store under test takes."""
        self.clock = ManualClock()
        self.checker = Checker(sequential=sequential)
        self.trace: deque[Call] = deque(maxlen=KEPT_CALLS)
        self.feed: list[Event] = []
        """Everything the store under test told, in its order."""
        self.views: dict[str, list[Event]] = defaultdict(list)
        self.bookmarks: dict[str | None, list[Bookmark]] = defaultdict(list)
        """Per tenant; None is the store-wide feed."""
        self._heads: tuple[str | None, str | None] = (None, None)
        self.floor = ClockFloor.STORE
        """What never goes back in the store under test when the clock does."""
        self.capabilities: Capabilities | None = None
        """Of the store under test, once it is open."""
        self._processes = 0
        self.other: Store | None = None
        """A second client, as from another process."""

    async def open(self) -> None:
        self.model = Oracle(clock=self.clock)
        await self.model.migrate()
        self._go_on(await self.factory.create(self.clock))
        self.capabilities = self.raw.capabilities
        self.floor = self.capabilities.clock_floor

    def _go_on(self, store: Store) -> None:
        """Makes this the store under test, seen by a new process."""
        self.raw = store
        self._listen(store)
        self.store = self.client = self.recorded(store)

    def _listen(self, store: Store) -> None:
        ways = getattr(store, "ways", None)  # a store of others may have none
        if ways is not None:
            ways.heard = self._heard

    def recorded(self, store: Store) -> Store:
        """The store as a new process sees it, everything it says fed to the checker."""
        self._processes += 1
        return RecordingStore(store, self.checker.feed, f"p{self._processes}", self.clock)

    # Calls

    async def call(self, verb: str, *args: Any, **options: Any) -> Any:
        """Asks both; answers what both answered (a `TenureError` when both raised it)."""
        return await self._both(self.client, verb, args, options)

    async def beside(self, verb: str, door: Any, *args: Any) -> Any:
        """Asks both, the store under test by another door of its own."""
        return await self._both(self.recorded(door), verb, args, {})

    async def _both(self, store: Store, verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        wanted = await _attempt(verb, "model", getattr(self.model, verb), args, options)
        self.trace.append((self.clock.now, verb, args, options, wanted))
        got = await _attempt(verb, "store", getattr(store, verb), args, options)
        if not same(wanted, got):
            raise Divergence(verb, difference(wanted, got))
        return got

    async def at_once(self, first: Asked, second: Asked) -> list[Any]:
        """Two calls of two clients that overlap: answered, and told of, as one after the other is, in either order."""
        got = await asyncio.gather(
            *(_attempt(verb, "store", getattr(who, verb), args, {}) for who, (verb, *args) in self._two(first, second))
        )
        told, head = await self._read(self.store, None, self._heads[1])
        arrived = await _arrival(self.store, told)
        outcomes = [await self._in_turn(one) for one in ((first, second), (second, first))]
        outcomes[1].answers.reverse()
        alike = [
            one
            for one in outcomes
            if same(one.answers, got) and one.tells(told) and await _arrival(one.model, told) == arrived
        ]
        if not alike:
            unlike = [difference([one.answers, *one.events], [got, told]) for one in outcomes]
            raise Divergence(f"{first[0]} beside {second[0]}", "as one after the other: {}; or: {}".format(*unlike))
        chosen = alike[0]
        chosen.model.tell_in_order(told)
        self.model, self._heads = chosen.model, (chosen.head, head)
        self._heard_of(told)
        for (verb, *args), answer in zip((first, second), chosen.answers, strict=True):
            self.trace.append((self.clock.now, verb, tuple(args), {}, answer))
        return got

    async def _in_turn(self, calls: Sequence[Asked]) -> "InTurn":
        """What the model makes of some calls one after the other, in a copy of its own."""
        model, head = self.model.copy(), self._heads[0]
        answers, told = [], []
        for call in calls:
            answers += await _one_by_one(model, [call])
            events, head = await self._read(model, None, head)
            told.append(events)
        return InTurn(model, answers, told, head)

    def _two(self, first: Asked, second: Asked) -> list[tuple[Store, Asked]]:
        return [(self.store, first), (self.other or self.store, second)]

    async def in_order(self, calls: Sequence[Asked]) -> list[Any]:
        """Calls that one client sends without waiting for answers, to a store that takes them up as they come."""
        asked = [_attempt(verb, "store", getattr(self.client, verb), args, {}) for verb, *args in calls]
        got = await asyncio.gather(*asked)
        wanted = await _one_by_one(self.model, calls)
        for (verb, *args), one, other in zip(calls, wanted, got, strict=True):
            self.trace.append((self.clock.now, verb, tuple(args), {}, one))
            if not same(one, other):
                raise Divergence(verb, "one of several sent together: " + difference(one, other))
        return got

    def story(self, most: int = KEPT_CALLS) -> str:
        """The last calls, with the model's answers: a script of what led here."""
        return tell(list(self.trace)[-most:])

    # The feed

    async def follow(self) -> list[Event]:
        """The new events, compared tenant by tenant."""
        wanted, model_head = await self._read(self.model, None, self._heads[0])
        got, store_head = await self._read(self.store, None, self._heads[1])
        self._heads = (model_head, store_head)
        if not wanted and not got:
            return got
        ours, theirs = by_tenant(wanted), by_tenant(got)
        for tenant in ours | theirs:
            if ours.get(tenant) != theirs.get(tenant):
                raise Divergence("events", f"of {tenant}: " + difference(ours.get(tenant, []), theirs.get(tenant, [])))
        self._heard_of(got)
        return got

    def _heard_of(self, events: list[Event]) -> None:
        self.feed += events
        for event in events:
            self.views[event.tenant].append(event)

    def bookmark(self) -> None:
        """Remembers this place in the feed, to come back to."""
        model, store = self._heads
        if model is not None and store is not None:
            self.bookmarks[None].append(Bookmark(model, store, len(self.feed)))

    async def stop_within(self, tenant: str, mark: Bookmark, place: int) -> Bookmark | None:
        """Where a reader stands that goes on from an old cursor and stops after so many events, if there are more."""
        asked = ((self.model, mark.model), (self.store, mark.store))
        pages = [await store.events(tenant=tenant, after=cursor, limit=PAGE) for store, cursor in asked]
        cursors = [page.cursors for page in pages if isinstance(page, EventPage) and place < len(page.events)]
        if len(cursors) < len(pages):
            return None
        return Bookmark(cursors[0][place - 1], cursors[1][place - 1], mark.index + place, within=True)

    async def read_again(self, tenant: str | None, mark: Bookmark | None, limit: int) -> CursorExpired | None:
        """Reads from an old cursor (None: the beginning): what was told before must be told again, the same.

        Answers the refusal if both stores refuse the cursor.
        """
        known = self.feed if tenant is None else self.views[tenant]
        try:
            got, store_head = await self._read(self.store, tenant, mark.store if mark else None, limit)
        except CursorExpired:
            got, store_head = None, ""
        try:
            wanted, model_head = await self._read(self.model, tenant, mark.model if mark else None, limit)
        except CursorExpired:
            wanted, model_head = None, ""
        if (got is None) != (wanted is None) and not (mark and mark.within):
            raise Divergence("events", f"of {tenant}: " + difference(wanted, got))
        if got is None or wanted is None:
            return CursorExpired()
        told = known[mark.index :] if mark else known[len(known) - len(wanted) :]
        if got != told:
            raise Divergence("events", f"of {tenant} read again: " + difference(told, got))
        self.bookmarks[tenant].append(Bookmark(model_head, store_head, len(known)))
        return None

    async def _read(
        self, store: Store, tenant: str | None, cursor: str | None, limit: int = PAGE
    ) -> tuple[list[Event], str]:
        """All events after a cursor, and the cursor after them. Raises `CursorExpired`."""
        who = "store" if store is self.store else "model"
        events: list[Event] = []
        while True:
            options = {"tenant": tenant, "after": cursor, "limit": limit}
            page = await _attempt("events", who, store.events, (), options)
            if isinstance(page, TenureError):
                raise page
            assert isinstance(page, EventPage)
            cursor = page.cursor
            events += page.events
            if not page.events or len(page.events) * 2 < limit == PAGE:
                return events, cursor

    # Crash, second client, transfer

    async def crash(self) -> None:
        await self.close_other()
        self._go_on(await self.factory.crash(self.raw, self.clock))

    async def open_other(self) -> None:
        """Lets a second client in."""
        self._other_raw = await self.factory.second(self.raw, self.clock)
        self._listen(self._other_raw)
        self.other = self.recorded(self._other_raw)

    async def close_other(self) -> None:
        if self.other is not None and self._other_raw is not self.raw:
            await self._other_raw.close()
        self.other = None
        self.client = self.store

    async def compare_dumps(self, limit: int) -> tuple[list[DumpItem], list[DumpItem]]:
        """What both frozen stores keep, the same."""
        wanted, got = await dump(self.model, limit), await dump(self.store, limit)
        ours, theirs = dump_order(wanted, self.floor), dump_order(got, self.floor)
        if ours != theirs:
            raise Divergence("dump", difference(ours, theirs))
        return wanted, got

    async def transfer(self, items: list[DumpItem], batch: int) -> None:
        """Goes on with a fresh store loaded from a dump, which must then dump the same.

        Loaded in batches, then all at once again: a load may be repeated. Only the second is told to the checker.
        """
        fresh = await self.factory.create(self.clock)
        self._listen(fresh)
        target = self.recorded(fresh)
        await target.freeze()
        small = min(len(items), SMALL_PAGES * batch)
        for start in range(0, small, batch):
            await load(fresh, items[start : start + batch])
        if small < len(items):
            await load(fresh, items[small:])
        await load(target, items)
        copied = await dump(target, PAGE)
        ours, theirs = dump_order(items, self.floor), dump_order(copied, self.floor)
        if ours != theirs:
            raise Divergence("load", difference(ours, theirs))
        await self.close_other()
        await self.factory.destroy(self.raw)
        self.raw, self.store, self.client = fresh, target, target
        await self._find_place()

    async def _find_place(self) -> None:
        """After a transfer cursors may read differently; what they lead to may not."""
        self.bookmarks.clear()
        got, store_head = await self._read(self.store, None, None)
        if got != self.feed[len(self.feed) - len(got) :]:
            raise Divergence("load", "the feed: " + difference(self.feed, got))
        wanted, model_head = await self._read(self.model, None, None)
        if len(wanted) != len(got):
            raise Divergence("load", "the feed: " + difference(wanted, got))
        self._heads = (model_head, store_head)

    async def verify(self) -> None:
        """Indexes rebuilt from records equal the stored ones, where a store can tell."""
        verify = getattr(self.raw, "verify", None)
        problems = await verify() if verify is not None else []
        if problems:
            raise Divergence("verify", "; ".join(problems))

    async def close(self) -> None:
        await self.close_other()
        await self.factory.destroy(self.raw)
        await self.model.close()


async def _attempt(
    verb: str, who: str, ask: Callable[..., Awaitable[object]], args: Sequence[Any], options: dict[str, Any]
) -> object:
    try:
        return await ask(*args, **options)
    except (TenureError, Violation) as error:
        if isinstance(error, Violation):
            raise
        return error
    except Exception as error:
        raise Divergence(verb, f"the {_culprit(error, who)} broke: {error!r}") from error


async def _one_by_one(model: Store, calls: Iterable[Asked]) -> list[Any]:
    return [await _attempt(verb, "model", getattr(model, verb), args, {}) for verb, *args in calls]


async def _arrival(store: Store, events: Iterable[Event]) -> list[Ref]:
    """Jobs that were enqueued, as they are numbered."""
    refs = sorted((event.tenant, event.job_id) for event in events if event.kind == "enqueued" and event.job_id)
    views = await store.get(refs) if refs else []
    jobs = [view.job for view in views if isinstance(view, JobView)]
    return [job.ref for job in sorted(jobs, key=lambda job: job.spec.seq)]


def _culprit(error: Exception, who: str) -> str:
    """Who broke: the checker runs inside the recorded store's calls."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    return "checker" if any(name.startswith("tenure.testing.checker") for name in modules) else who


async def dump(store: Store, limit: int) -> list[DumpItem]:
    """Everything a frozen store keeps."""
    items: list[DumpItem] = []
    cursor: str | None = None
    for asked in count():
        page = await store.dump(after=cursor, limit=limit if asked < SMALL_PAGES else PAGE)
        if isinstance(page, Refused):
            raise Divergence("dump", f"of a frozen store: {page!r}")
        items += page.items
        cursor = page.cursor
        if cursor is None:
            break
    return items


async def load(store: Store, items: list[DumpItem]) -> None:
    """Fills an empty frozen store."""
    loaded = await store.load(items)
    if isinstance(loaded, Refused):
        raise Divergence("load", f"{len(items)} items into an empty frozen store: {loaded!r}")


def dump_order(items: list[DumpItem], floor: ClockFloor = ClockFloor.STORE) -> list[tuple[str, Any]]:
    """A dump by content. Its order is the store's own, and so are whether it is being loaded, the gaps in its numbers,
    and the mark of a store whose clock has no floor but its jobs' times.
    """
    values = [(item.kind, msgspec.msgpack.decode(item.body, type=KINDS[item.kind])) for item in items]
    arrived = _ranks(value.spec.seq for kind, value in values if kind == "job")
    listed = _ranks(value[0] for kind, value in values if kind == "cascade")
    mark = {} if floor is ClockFloor.STORE else {"mark": 0}
    ordered: list[tuple[str, Any]] = []
    for kind, value in values:
        match kind:
            case "meta":
                value = msgspec.structs.replace(value, loading=False, seq=0, cascade_head=0, **mark)
            case "job":
                spec = msgspec.structs.replace(value.spec, seq=arrived[value.spec.seq])
                value = msgspec.structs.replace(value, spec=spec)
            case "edge":
                child = arrived.get(value.child_seq, 0)  # 0: a dump without it, which the comparison will show
                value = msgspec.structs.replace(value, child_seq=child)
            case "cascade":
                value = (listed[value[0]], value[1])
        ordered.append((kind, value))
    return sorted(ordered, key=lambda one: (one[0], msgspec.msgpack.encode(one[1])))


def _ranks(numbers: Iterable[int]) -> dict[int, int]:
    return {number: rank for rank, number in enumerate(sorted(numbers), 1)}


def by_tenant(events: Iterable[Event]) -> dict[str, list[Event]]:
    views: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        views[event.tenant].append(event)
    return views


def by_job(events: Iterable[Event]) -> dict[tuple[str, str | None], list[Event]]:
    """Each job's events; those without a job, of each tenant together."""
    jobs: dict[tuple[str, str | None], list[Event]] = defaultdict(list)
    for event in events:
        jobs[event.tenant, event.job_id].append(event)
    return jobs


# Comparing


def same(wanted: object, got: object) -> bool:
    """Equal answers. Raised errors are compared by type, and the order of arrival may have gaps."""
    if isinstance(wanted, Refused):
        return wanted == got
    if isinstance(wanted, TenureError):
        return type(wanted) is type(got)
    return wanted == got or without_seq(wanted) == without_seq(got)


def without_seq(answer: Any) -> Any:
    """The answer without what a store may number in its own way: `seq` and page cursors."""
    match answer:
        case list():
            return [without_seq(item) for item in answer]
        case JobView() | ClaimedJob():
            return msgspec.structs.replace(answer, job=_unnumbered(answer.job))
        case Claimed():
            return msgspec.structs.replace(answer, jobs=tuple(without_seq(item) for item in answer.jobs))
        case Exchanged():
            return msgspec.structs.replace(answer, claimed=without_seq(answer.claimed))
        case JobPage():
            return JobPage(tuple(without_seq(item) for item in answer.jobs), answer.cursor and "more")
    return answer


def _unnumbered(job: Job) -> Job:
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, seq=0))


def difference(wanted: Any, got: Any) -> str:
    """Where two answers part, as deep as can be told, on one line."""
    path, wanted, got = _part("", without_seq(wanted), without_seq(got))
    return f"{path or 'answer'}: model {_short(wanted)} store {_short(got)}"


def _part(path: str, wanted: Any, got: Any) -> tuple[str, Any, Any]:
    if isinstance(wanted, list | tuple) and isinstance(got, list | tuple):
        for index, (one, other) in enumerate(zip(wanted, got, strict=False)):
            if one != other:
                return _part(f"{path}[{index}]", one, other)
        if len(wanted) != len(got):
            at = min(len(wanted), len(got))
            return f"{path}[{at}:] of {len(wanted)} and {len(got)}", wanted[at:], got[at:]
    if isinstance(wanted, msgspec.Struct) and type(wanted) is type(got):
        for field in wanted.__struct_fields__:
            one, other = getattr(wanted, field), getattr(got, field)
            if one != other:
                return _part(f"{path}.{field}", one, other)
    return path, wanted, got


def _short(value: object) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= 300 else text[:297] + "..."
