"""The bench every conformance test works at: one store, one clock moved by hand, and short words for the verbs.

A test reads as a story: `world.add()` puts a job in and answers its id, `world.take()` leases one, `world.tick(ms)`
lets time pass. Words that answer a plain value assert that the store didn't refuse; those that answer `… | Refused`
are for tests of refusals. Jobs belong to tenant `acme` and queue `mail` unless said otherwise.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

import msgspec
import pytest

from tenure.domain.calls import (
    AnyCommand,
    Cancel,
    Claim,
    Claimed,
    ClaimedJob,
    CommandReply,
    Discard,
    Document,
    DumpItem,
    Enqueued,
    Epoch,
    Exchanged,
    Fail,
    JobFilter,
    JobView,
    Outcome,
    Purged,
    Reading,
    Release,
    Renewal,
    Renewed,
    Replay,
    Reprioritise,
    RequestCancel,
    Reschedule,
    Retention,
    Retry,
    Settle,
    Settled,
    Stored,
    Succeed,
    Swept,
)
from tenure.domain.config import QUEUE, TENANT, QueueConfig, TenantConfig
from tenure.domain.errors import Refused
from tenure.domain.event import Event
from tenure.domain.job import Failure, Job, NewJob, Progress, Token, Traceback
from tenure.domain.names import EVERYONE, MINUTE, SECOND, Ms
from tenure.domain.states import Gate, State, Status
from tenure.domain.store import Store
from tenure.testing.clock import ManualClock
from tenure.testing.factory import StoreFactory

T = TypeVar("T")

ACME, BOLT = "acme", "bolt"
MAIL, VIDEO = "mail", "video"
BOOM = Failure("ValueError", "boom")
TRACE = Traceback("ValueError", "boom", "Traceback (most recent call last):\nValueError: boom\n")
LEASE: Ms = MINUTE
GRACE: Ms = 5 * SECOND
DEADLINE: Ms = LEASE + GRACE
"""How long after a claim with the defaults its holder may still act."""


def ok(reply: T | Refused) -> T:
    """The reply, which must not be a refusal."""
    assert not isinstance(reply, Refused), f"refused: {reply!r}"
    return reply


def only(items: Sequence[T]) -> T:
    """The one item there is."""
    assert len(items) == 1, items
    return items[0]


def job_uuid(number: int) -> str:
    """A valid id that tests can count and sort."""
    return f"01900000-0000-7000-8000-{number:012x}"


def ids(claimed: Claimed) -> list[str]:
    """The jobs of a claim, in the order taken."""
    return [job.token.job_id for job in claimed.jobs]


def tenants(claimed: Claimed) -> str:
    """The tenants of a claim, in the order taken, as one word."""
    return " ".join(job.token.tenant for job in claimed.jobs)


class World:
    """One empty store under test, its clock, and a loop to run its verbs on."""

    def __init__(self, factory: StoreFactory, runner: asyncio.Runner, clock: ManualClock) -> None:
        self.factory = factory
        self.clock = clock
        self._runner = runner
        self._numbers = count(1)
        self._claims = count(1)
        self._more: list[World] = []
        self._elsewhere: Store | None = None
        self.store: Store = self.run(factory.create(clock))

    def run(self, verb: Coroutine[Any, Any, T]) -> T:
        """What an async verb answers."""
        return self._runner.run(verb)

    def close(self) -> None:
        for other in self._more:
            other.close()
        if self._elsewhere not in (None, self.store):
            self.run(self.factory.destroy(self._elsewhere))
        self.run(self.factory.destroy(self.store))

    def twin(self) -> "World":
        """A second, empty store of the same kind under the same clock; its ids and claim ids count anew."""
        self._more.append(World(self.factory, self._runner, self.clock))
        return self._more[-1]

    def another(self) -> "World":
        """A twin that never gives out an id or claim id that this one gave out."""
        other = self.twin()
        other._numbers, other._claims = self._numbers, self._claims
        return other

    def elsewhere(self) -> Store:
        """Another client of the same store, as of another process. It waits; memory has none, and gives the store."""
        if self._elsewhere is None:
            self._elsewhere = self.run(self.factory.second(self.store, self.clock))
        return self._elsewhere

    def crash(self) -> None:
        """Ends the store's process and opens what survived."""
        self.store = self.run(self.factory.crash(self.store, self.clock))

    # Time

    @property
    def now(self) -> Ms:
        return self.clock.now

    def tick(self, by: Ms) -> None:
        """Lets time pass; a negative number sets the clock back."""
        self.clock.advance(by)

    # Producing

    def id(self) -> str:
        """A new id, larger than all before."""
        return job_uuid(next(self._numbers))

    def job(self, queue: str = MAIL, *, tenant: str = ACME, id: str | None = None, **fields: Any) -> NewJob:
        """A job to enqueue, under a new id."""
        fields = {"job_type": "send", "payload": b"{}", **fields}
        return NewJob(tenant=tenant, id=id or self.id(), queue=queue, **fields)

    def enqueue(self, *jobs: NewJob, atomic: bool = False) -> list[Enqueued | Refused]:
        return self.run(self.store.enqueue(jobs, atomic=atomic))

    def put(self, job: NewJob) -> Enqueued | Refused:
        return only(self.enqueue(job))

    def add(self, queue: str = MAIL, **fields: Any) -> str:
        """Enqueues a new job; its id."""
        reply = ok(self.put(self.job(queue, **fields)))
        assert reply.created, reply
        return reply.id

    def add_many(self, number: int, queue: str = MAIL, **fields: Any) -> list[str]:
        """Enqueues as many jobs, in batches of at most 500; their ids in order of arrival."""
        jobs = [self.job(queue, **fields) for _ in range(number)]
        for start in range(0, number, 500):
            for reply in self.enqueue(*jobs[start : start + 500]):
                assert ok(reply).created
        return [job.id for job in jobs]

    # Consuming

    def claim_id(self) -> bytes:
        return next(self._claims).to_bytes(16, "big")

    def request(self, n: int = 1, *queues: str | tuple[str, int | None], **fields: Any) -> Claim:
        """A claim for n jobs of these queues (mail), under a new claim id."""
        asked = tuple((queue, None) if isinstance(queue, str) else queue for queue in queues or (MAIL,))
        fields = {"claim_id": self.claim_id(), "worker": "w1", "ttl": LEASE, "grace": GRACE, **fields}
        return Claim(n=n, queues=asked, **fields)

    def ask(self, request: Claim) -> Claimed:
        return ok(self.run(self.store.claim(request)))

    def claim(self, n: int = 1, *queues: str | tuple[str, int | None], **fields: Any) -> Claimed:
        return self.ask(self.request(n, *queues, **fields))

    def claim_ids(self, n: int = 1, *queues: str | tuple[str, int | None], **fields: Any) -> list[str]:
        """The ids that a claim gave, in the order taken."""
        return ids(self.claim(n, *queues, **fields))

    def take(self, *queues: str | tuple[str, int | None], **fields: Any) -> ClaimedJob:
        """The one job that a claim for one gives."""
        return only(self.claim(1, *queues, **fields).jobs)

    def nothing(self, *queues: str | tuple[str, int | None], **fields: Any) -> bool:
        """Whether a claim gives no job."""
        return not self.claim(1, *queues, **fields).jobs

    def start(self, queue: str = MAIL, **fields: Any) -> Token:
        """Enqueues a new job and leases it, which must be the next in its queue."""
        id = self.add(queue, **fields)
        taken = self.take(queue, tenants=(fields.get("tenant", ACME),))
        assert taken.token.job_id == id
        return taken.token

    def renew(self, token: Token, progress: Progress | None = None) -> Renewed | Refused:
        return only(self.run(self.store.renew([Renewal(token, progress)])))

    def settle(self, token: Token, outcome: Outcome) -> Settled | Refused:
        return only(self.run(self.store.settle([Settle(token, outcome)])))

    def settle_all(self, *settles: tuple[Token, Outcome]) -> list[Settled | Refused]:
        return self.run(self.store.settle([Settle(token, outcome) for token, outcome in settles]))

    def succeed(self, token: Token, result: bytes | None = None, *jobs: NewJob) -> Settled | Refused:
        return self.settle(token, Succeed(result, jobs=jobs))

    def retry(self, token: Token, delay: Ms = 0) -> Settled | Refused:
        return self.settle(token, Retry(BOOM, delay))

    def fail(self, token: Token) -> Settled | Refused:
        return self.settle(token, Fail(BOOM))

    def release(
        self, token: Token, delay: Ms = 0, reason: str = "shutdown", at_most: int | None = None
    ) -> Settled | Refused:
        return self.settle(token, Release(delay, reason, at_most))

    def exchange(self, settles: Sequence[tuple[Token, Outcome]], request: Claim) -> Exchanged:
        return self.run(self.store.exchange([Settle(token, outcome) for token, outcome in settles], request))

    def succeeded(self, queue: str = MAIL, *, result: bytes | None = None, **fields: Any) -> str:
        """A job that ended well; its id."""
        token = self.start(queue, **fields)
        ok(self.succeed(token, result))
        return token.job_id

    def failed(self, queue: str = MAIL, **fields: Any) -> str:
        """A job that ended badly; its id."""
        token = self.start(queue, **fields)
        ok(self.fail(token))
        return token.job_id

    def cancelled(self, queue: str = MAIL, **fields: Any) -> str:
        """A job called off before it ran; its id."""
        id = self.add(queue, **fields)
        ok(self.cancel(id, fields.get("tenant", ACME)))
        return id

    # Commands

    def command(self, command: AnyCommand) -> CommandReply | Refused:
        return only(self.run(self.store.command([command])))

    def cancel(self, id: str, tenant: str = ACME) -> CommandReply | Refused:
        return self.command(Cancel(tenant=tenant, id=id))

    def request_cancel(self, id: str, tenant: str = ACME) -> CommandReply | Refused:
        return self.command(RequestCancel(tenant=tenant, id=id))

    def reschedule(self, id: str, tenant: str = ACME, **when: Ms) -> CommandReply | Refused:
        return self.command(Reschedule(tenant=tenant, id=id, **when))

    def reprioritise(self, id: str, priority: int, tenant: str = ACME) -> CommandReply | Refused:
        return self.command(Reprioritise(tenant=tenant, id=id, priority=priority))

    def replay(self, id: str, new_id: str, tenant: str = ACME, **fields: Any) -> CommandReply | Refused:
        return self.command(Replay(tenant=tenant, id=id, new_id=new_id, **fields))

    def replayed(self, id: str, **fields: Any) -> str:
        """Replays a failed job under a new id, which it answers."""
        new_id = self.id()
        ok(self.replay(id, new_id, **fields))
        return new_id

    def discard(self, id: str, tenant: str = ACME) -> CommandReply | Refused:
        return self.command(Discard(tenant=tenant, id=id))

    # Upkeep

    def sweep(self, interval: Ms = 0, *, limit: int = 500, hold: Ms | None = None) -> Swept:
        return ok(self.run(self.store.sweep(interval, limit, hold)))

    def purge(self, retention: Retention | None = None) -> Purged | None:
        return ok(self.run(self.store.purge(retention or Retention())))

    def purge_all(self) -> list[Purged]:
        """Purges until nothing is due."""
        gone = []
        while (purged := self.purge()) is not None:
            gone.append(purged)
        return gone

    # Reading

    def look(self, id: str, tenant: str = ACME, reading: Reading = Reading()) -> JobView | Refused:  # noqa: B008 frozen
        return only(self.run(self.store.get([(tenant, id)], reading)))

    def get(self, id: str, tenant: str = ACME) -> JobView:
        return ok(self.look(id, tenant))

    def record(self, id: str, tenant: str = ACME) -> Job:
        return self.get(id, tenant).job

    def state(self, id: str, tenant: str = ACME) -> State:
        return self.record(id, tenant).state

    def states(self, ids: Sequence[str], tenant: str = ACME) -> list[State]:
        refs = [(tenant, id) for id in ids]
        pages = [self.run(self.store.get(refs[start : start + 500])) for start in range(0, len(refs), 500)]
        return [ok(view).job.state for page in pages for view in page]

    def status(self, id: str, tenant: str = ACME) -> Status:
        return self.get(id, tenant).status

    def gates(self, id: str, tenant: str = ACME) -> tuple[Gate, ...]:
        return ok(self.look(id, tenant, Reading(explain=True))).gates

    def tracebacks(self, id: str, tenant: str = ACME) -> dict[int, Traceback]:
        """Those that are kept of a job, by lease, in the order given."""
        return dict(ok(self.look(id, tenant, Reading(tracebacks=True))).tracebacks)

    def query(self, *, limit: int = 100, **where: Any) -> list[str]:
        """The ids that a filter finds, all pages of them."""
        found: list[str] = []
        after: str | None = None
        while True:
            page = self.run(self.store.query(JobFilter(**where), after=after, limit=limit))
            found += [view.job.spec.id for view in page.jobs]
            after = page.cursor
            if after is None:
                return found
            assert page.jobs, "a page that isn't the last has jobs"

    def events(self, tenant: str | None = None, *, limit: int = 1_000) -> list[Event]:
        """The whole feed, or one tenant's view of it."""
        return self.follow(None, tenant, limit=limit)[0]

    def follow(self, after: str | None, tenant: str | None = None, *, limit: int = 1_000) -> tuple[list[Event], str]:
        """Every event after a cursor, and the cursor to go on from."""
        found: list[Event] = []
        while True:
            page = ok(self.run(self.store.events(tenant=tenant, after=after, limit=limit)))
            found += page.events
            after = page.cursor
            if not page.events:
                return found, after

    def tip(self, tenant: str | None = None) -> str:
        """The cursor at the end of the feed."""
        return self.follow(None, tenant)[1]

    def story(self, id: str, tenant: str = ACME) -> list[Event]:
        """What happened to one job, in feed order."""
        return [event for event in self.events(tenant) if event.job_id == id]

    def kinds(self, id: str, tenant: str = ACME) -> str:
        """The kinds of one job's events, as one sentence."""
        return " ".join(event.kind.value for event in self.story(id, tenant))

    def last(self, id: str, tenant: str = ACME) -> Event:
        """A job's newest event."""
        return self.story(id, tenant)[-1]

    # Documents

    def write(self, document: Document, *, expect: int | None = None, ttl: Ms | None = None) -> Stored | Refused:
        return self.run(self.store.put_document(document, expect=expect, ttl=ttl))

    def documents(self, kind: str, tenant: str = ACME, prefix: str = "") -> list[Document]:
        return self.run(self.store.list_documents(tenant, kind, prefix=prefix))

    def try_configure(self, queue: str = MAIL, tenant: str = EVERYONE, **fields: Any) -> Stored | Refused:
        """Writes a queue's configuration, in place of what was set at that level."""
        body = msgspec.json.encode(QueueConfig(**fields))
        return self.write(Document(tenant=tenant, kind=QUEUE, name=queue, body=body))

    def configure(self, queue: str = MAIL, tenant: str = EVERYONE, **fields: Any) -> None:
        ok(self.try_configure(queue, tenant, **fields))

    def configure_tenant(self, tenant: str = ACME, **fields: Any) -> None:
        """Writes a tenant's configuration."""
        body = msgspec.json.encode(TenantConfig(**fields))
        ok(self.write(Document(tenant=tenant, kind=TENANT, name=tenant, body=body)))

    # Transfer

    def freeze(self) -> Epoch:
        return self.run(self.store.freeze())

    def thaw(self) -> Epoch:
        return ok(self.run(self.store.thaw()))

    def dump(self, *, limit: int = 1_000) -> list[DumpItem]:
        """Everything a frozen store keeps."""
        found: list[DumpItem] = []
        after: str | None = None
        while True:
            page = ok(self.run(self.store.dump(after=after, limit=limit)))
            found += page.items
            after = page.cursor
            if after is None:
                return found

    def load(self, items: Sequence[DumpItem]) -> int:
        return ok(self.run(self.store.load(items)))


@pytest.fixture
def world(factory: StoreFactory) -> Iterator[World]:
    """A bench around an empty store made by the test file's `factory` fixture."""
    with asyncio.Runner() as runner:
        bench = World(factory, runner, ManualClock())
        yield bench
        bench.close()
