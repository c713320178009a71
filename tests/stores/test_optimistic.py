"""Operations without locks that commit only if what they read still holds are as if run one after the other.

The oracle runs the same operations in the order of their commits: every reply, row, event and index must be the same.
"""

from collections import Counter
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tenure.domain.calls import (
    AnyCommand,
    Cancel,
    Claim,
    Claimed,
    Cursor,
    Discard,
    Document,
    Fail,
    Outcome,
    Release,
    Renewal,
    Replay,
    Reprioritise,
    RequestCancel,
    Reschedule,
    Retention,
    Retry,
    Settle,
    Succeed,
)
from tenure.domain.config import QUEUE, TENANT, QueueConfig, TenantConfig
from tenure.domain.errors import InvalidValue
from tenure.domain.job import Failure, NewJob, Parent, Token, Traceback
from tenure.domain.model import Unit, claim, command, enqueue, purge, renew, settle, sweep
from tenure.domain.model.documents import put
from tenure.domain.model.reads import ReadKind, recording
from tenure.domain.names import DAY, EVERYONE, SECOND, Ms
from tenure.domain.rate import Rate
from tenure.domain.states import Mode, OnParentFailure, Unique
from tenure.stores.memory_tables import MemoryTables
from tenure.testing.clock import START
from tests.stores.optimistic import Broke, Optimistic, Running, Serial

TENANTS = ("acme", "zeta")
ROUNDS = 120
TTL: Ms = 1_000
BAD = Failure("ValueError", "no")
WHERE = Traceback("builtins.ValueError", "no", "Traceback (most recent call last): …")


class World:
    """What has been seen, and what may be asked next."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.now: Ms = START
        self.ids: list[tuple[str, str]] = []
        self.tokens: list[Token] = []
        self.cursor = Cursor()

    def id(self) -> str:
        return str(UUID(int=self.dice.getrandbits(128)))

    def operation(self) -> Running:
        """One of the things that clients do."""
        make = self.dice.choices(
            (self.enqueue, self.claim, self.settle, self.command, self.renew, self.sweep, self.purge, self.configure),
            (6, 6, 6, 4, 1, 2, 1, 1),
        )[0]
        return make()

    def enqueue(self) -> Running:
        jobs = [self.job() for _ in range(self.dice.randint(1, 3))]
        self.ids += [(job.tenant, job.id) for job in jobs]
        atomic = self.dice.random() < 0.2
        return Running("enqueue", lambda unit: enqueue(unit, jobs, atomic))

    def job(self) -> NewJob:
        dice, tenant = self.dice, self.dice.choice(TENANTS)
        queue = dice.choice(("mail", "mail", "lanes"))
        fields: dict[str, Any] = {}
        if dice.random() < 0.3:
            fields |= {"key": dice.choice("kl"), "unique": dice.choice((Unique.ACTIVE, Unique.RETAINED))}
        if dice.random() < 0.2:
            fields["delay"] = dice.choice((TTL, 3 * TTL))
        if dice.random() < 0.2:
            fields["expires"] = TTL
        known = [id for of, id in self.ids[-8:] if of == tenant]
        if known and dice.random() < 0.3:
            fields["parents"] = (Parent(dice.choice(known), dice.choice(list(OnParentFailure))),)
        if queue == "lanes":
            fields["group"] = dice.choice("gh")
        return NewJob(tenant=tenant, id=self.id(), queue=queue, job_type="send", payload=b"1", max_attempts=2, **fields)

    def claim(self) -> Running:
        asked = Claim(
            claim_id=self.dice.randbytes(16),
            worker="w",
            queues=self.dice.choice(((("mail", None),), (("lanes", None),), (("lanes", None), ("mail", 2)))),
            n=self.dice.randint(1, 3),
            ttl=TTL,
            grace=0,
            cursor=self.cursor,
        )
        return Running("claim", lambda unit: claim(unit, asked))

    def token(self) -> Token:
        return self.dice.choice(self.tokens[-6:])

    def settle(self) -> Running:
        if not self.tokens:
            return self.enqueue()
        asked = [self.settled(self.token()) for _ in range(self.dice.randint(1, 2))]
        return Running("settle", lambda unit: settle(unit, asked))

    def settled(self, token: Token) -> Settle:
        carried = msgspec.structs.replace(self.job(), tenant=token.tenant, parents=())
        self.ids.append((carried.tenant, carried.id))
        outcomes: tuple[Outcome, ...] = (
            *(Succeed(b"1"), Succeed(), Succeed(jobs=(carried,))),
            *(Retry(BAD, TTL, traceback=WHERE), Fail(BAD, traceback=WHERE), Release()),
        )
        return Settle(token, self.dice.choice(outcomes))

    def renew(self) -> Running:
        if not self.tokens:
            return self.enqueue()
        asked = [Renewal(self.token())]
        return Running("renew", lambda unit: renew(unit, asked))

    def command(self) -> Running:
        if not self.ids:
            return self.enqueue()
        tenant, id = self.dice.choice(self.ids[-12:])
        one: dict[str, Any] = {"tenant": tenant, "id": id}
        commands: tuple[AnyCommand, ...] = (
            Cancel(**one),
            Cancel(**one),
            RequestCancel(**one),
            Reschedule(**one, delay=TTL),
            Reprioritise(**one, priority=5),
            Replay(**one, new_id=self.id()),
            Discard(**one),
        )
        asked = [self.dice.choice(commands)]
        return Running("command", lambda unit: command(unit, asked))

    def sweep(self) -> Running:
        limit = self.dice.choice((1, 100))
        return Running("sweep", lambda unit: sweep(unit, 0, limit, None))

    def purge(self) -> Running:
        return Running("purge", lambda unit: purge(unit, Retention(0, 0, 0)))

    def configure(self) -> Running:
        dice = self.dice
        tenant = dice.choice((*TENANTS, EVERYONE))
        rate = dice.choice((None, None, Rate(1, TTL)))
        mail = QueueConfig(max_depth=dice.choice((None, 2, 4)), limit=dice.choice((None, 1, 2)), rate=rate)
        lanes = QueueConfig(mode=Mode.KEYED, group_limit=1, paused=dice.choice((None, None, True)))
        name, config = dice.choice((("mail", mail), ("lanes", lanes)))
        if tenant != EVERYONE and dice.random() < 0.2:
            weight = msgspec.json.encode(TenantConfig(weight=dice.choice((1, 3))))
            return self.put(Document(tenant=tenant, kind=TENANT, name=tenant, body=weight))
        return self.put(Document(tenant=tenant, kind=QUEUE, name=name, body=msgspec.json.encode(config)))

    @staticmethod
    def put(document: Document) -> Running:
        return Running("put", lambda unit: put(unit, document, None, None))

    def first(self) -> list[Running]:
        """What makes counts, groups and limits matter from the beginning."""
        mail = msgspec.json.encode(QueueConfig(max_depth=4, limit=2))
        lanes = msgspec.json.encode(QueueConfig(mode=Mode.KEYED, group_limit=1))
        return [
            self.put(Document(tenant=EVERYONE, kind=QUEUE, name="mail", body=mail)),
            self.put(Document(tenant=EVERYONE, kind=QUEUE, name="lanes", body=lanes)),
        ]

    def saw(self, reply: Any) -> None:
        if isinstance(reply, Claimed) and reply.jobs:
            self.tokens += [one.token for one in reply.jobs]
            self.cursor = reply.cursor

    def pass_time(self) -> None:
        self.now += self.dice.choices((0, 100, TTL + 1, 10 * SECOND, DAY), (6, 3, 3, 1, 0.3))[0]


def story(seed: int, store: Optimistic, tally: Counter[str]) -> None:
    """Rounds of operations that overlap, each compared with the oracle."""
    world, oracle = World(seed), Serial()
    for number in range(ROUNDS):
        asked = [world.operation() for _ in range(world.dice.randint(2, 4))] if number else world.first()
        for one in store.run(asked, world.now, world.dice):
            tally[one.name] += 1
            assert one.reply == oracle.run(one, world.now), f"seed {seed}, round {number}: {one.name}"
            world.saw(one.reply)
        oracle.check(store.tables)
        store.replica.check(store.tables)
        world.pass_time()


@pytest.mark.parametrize("seed", range(1, 13))
def test_operations_without_locks_are_as_if_one_after_the_other(seed: int) -> None:
    story(seed, Optimistic(), Counter())


def test_each_kind_of_read_alone_has_overtaken() -> None:
    """Else the stories above say nothing of that kind."""
    overtaken: Counter[frozenset[ReadKind]] = Counter()
    tally: Counter[str] = Counter()
    for seed in range(1, 13):
        store = Optimistic()
        story(seed, store, tally)
        overtaken += store.overtaken
    assert min(overtaken[frozenset({kind})] for kind in ReadKind) >= 3
    assert min(tally.values()) >= 100


def test_what_an_operation_raises_means_nothing_until_its_reads_hold() -> None:
    """A job that the claim has seen in its line is cancelled and purged before its payload is read."""
    store, dice, now = Optimistic(), Random(1), START
    new = NewJob(tenant="acme", id=str(UUID(int=1)), queue="mail", job_type="send", payload=b"1")
    asked = Claim(claim_id=b"c" * 16, worker="w", queues=(("mail", None),), n=1)
    store.run([Running("enqueue", lambda unit: enqueue(unit, [new]))], now, dice)
    claiming = Running("claim", lambda unit: claim(unit, asked))
    claiming.begin(store, now)
    while claiming.unit is None or "line" not in {read.name for read in claiming.unit.changes().reads}:
        claiming.go_on()
    store.run([Running("cancel", lambda unit: command(unit, [Cancel(tenant="acme", id=new.id)]))], now, dice)
    store.run([Running("purge", lambda unit: purge(unit, Retention(0, 0, 0)))], now + 2 * DAY, dice)
    assert not store.tables._rows["job"]
    store.run([claiming], now, dice)
    assert (claiming.tries, store.broke) == (2, 1)
    assert isinstance(claiming.reply, Claimed)
    assert not claiming.reply.jobs


def test_what_an_operation_raises_for_good_is_its_answer() -> None:
    """Its reads held, and it changed nothing."""

    def part(unit: Unit) -> None:
        enqueue(unit, [NewJob(tenant="acme", id=str(UUID(int=1)), queue="mail", job_type="send", payload=b"1")])
        raise InvalidValue("no")

    store = Optimistic()
    (one,) = store.run([Running("enqueue", part)], START, Random(1))
    assert one.reply == Broke("InvalidValue('no')")
    assert not store.tables._rows["job"]


def test_reads_are_noted_for_those_who_ask() -> None:
    """A store with locks pays nothing for them."""
    tables = MemoryTables()
    assert not Unit(tables, START).changes().reads
    unit = Unit(recording(tables), START)
    assert enqueue(unit, [NewJob(tenant="acme", id=str(UUID(int=1)), queue="mail", job_type="send", payload=b"1")])
    changes = unit.changes()
    assert {(read.kind, read.name) for read in changes.reads} >= {(ReadKind.GET, "meta"), (ReadKind.GET, "jobs")}
    assert {put.family for put in changes.puts} == {"job", "body"}
    assert [entry[0] for entry in changes.taken] == ["ready"]
    assert not changes.left
    assert len(changes.chunks) == 1
    assert all(read.holds(tables) for read in changes.reads)
    tables.keep(unit)
    assert [read.name for read in changes.reads if not read.holds(tables)] == ["jobs"]
