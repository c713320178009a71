"""Values for the rules to send: jobs, claims, outcomes, configuration. Most are welcome, some are not."""

from typing import Any

import msgspec

from tenure.domain.calls import (
    Claim,
    Cursor,
    Document,
    Fail,
    JobFilter,
    Outcome,
    Release,
    Renewal,
    Retention,
    Retry,
    Settle,
    Succeed,
)
from tenure.domain.config import QUEUE, TENANT, QueueConfig, TenantConfig
from tenure.domain.job import Failure, NewJob, Parent, Progress, Token, Traceback
from tenure.domain.names import DAY, EVERYONE, HOUR, MINUTE, SECOND, Ms
from tenure.domain.rate import Rate
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import TERMINAL, Disposition, Mode, OnParentFailure, State, Unique
from tenure.testing.machine.dice import Dice
from tenure.testing.machine.world import JOB_TYPES, PAYLOADS, WORKERS, Tokens, World

TTL: Ms = 1_000
GRACE: Ms = 500
LONGER = (b"", b'"' + b"x" * 300 + b'"', b"\x00\xff", PAYLOADS[1])
"""Payloads of all kinds: stores see bytes only."""

LIVE = (State.BLOCKED, State.PENDING, State.RUNNING)

# Jobs


def new_job(world: World, dice: Dice, *, tenant: str | None = None, among: tuple[NewJob, ...] = ()) -> NewJob:
    """A job to enqueue; its parents may be `among` those sent with it."""
    tenant = tenant or dice.pick(world.profile.tenants)
    queue = dice.pick(world.profile.queues)
    keyed = world.mode(tenant, queue) is Mode.KEYED
    if world.profile.plain and dice.chance(world.profile.plain):
        return plain_job(world, dice, tenant, queue)
    return NewJob(
        tenant=tenant,
        id=_id(world, dice, tenant),
        queue=queue,
        job_type=dice.weighted(((4, JOB_TYPES[0]), (1, JOB_TYPES[1]))),
        payload=dice.weighted(((6, PAYLOADS[0]), (1, PAYLOADS[1]), (1, PAYLOADS[2]))),
        group=dice.pick(world.profile.groups) if keyed != dice.chance(2) else None,
        max_attempts=dice.pick((1, 2, 2, 3, 3)),
        **_order(world, dice),
        **uniqueness(world, dice),
        **_extras(dice),
        parents=_parents(world, dice, tenant, among) if dice.chance(20) else (),
    )


def plain_job(world: World, dice: Dice, tenant: str, queue: str) -> NewJob:
    """A job with nothing but a type and a payload, and a group where the queue wants one."""
    keyed = world.mode(tenant, queue) is Mode.KEYED
    return NewJob(
        tenant=tenant,
        id=world.new_id(),
        queue=queue,
        job_type=JOB_TYPES[0] if dice.chance(85) else JOB_TYPES[1],
        payload=dice.pick(PAYLOADS),
        group=dice.pick(world.profile.groups) if keyed else None,
    )


def alike(world: World, dice: Dice) -> list[NewJob]:
    """Jobs of one kind: they differ in id and payload, where they have keys in these too."""
    tenant, queue = dice.pick(world.profile.tenants), dice.pick(world.profile.queues)
    kind = plain_job(world, dice, tenant, queue)
    if dice.chance(30):
        kind = msgspec.structs.replace(kind, **_of_a_kind(world, dice))
    keyed = kind.expires is None and dice.chance(12)
    jobs = []
    for number in range(dice.weighted(world.profile.alike)):
        payload = PAYLOADS[0] if dice.chance(80) else dice.pick(LONGER)
        key = f"{world.new_id()[:8]} {number}" if keyed else None
        jobs.append(msgspec.structs.replace(kind, id=world.new_id(), payload=payload, key=key))
    return jobs


def _of_a_kind(world: World, dice: Dice) -> dict[str, Any]:
    """Something that all jobs of a kind share."""
    return dice.pick(
        (
            {"priority": 5},
            {"delay": dice.pick((1, TTL))},
            {"run_at": world.now + dice.pick((-TTL, 1, TTL))},
            {"expires": dice.pick((GRACE, MINUTE))},
            {"labels": {"team": "crm", "town": 'Zü"rich'} if dice.chance(50) else {"team": "ops"}},
            {"lease": MINUTE},
            {"max_attempts": 1, "result_ttl": TTL},
        )
    )


def _id(world: World, dice: Dice, tenant: str) -> str:
    """A new id; now and then one that another tenant has too, which is another job."""
    if world.jobs and dice.chance(4):
        other, id_ = dice.pick(list(world.jobs))
        if other != tenant and (tenant, id_) not in world.jobs:
            return id_
    return world.new_id()


def _order(world: World, dice: Dice) -> dict[str, Any]:
    """Priority and time; most jobs have neither."""
    chosen: dict[str, Any] = {}
    if dice.chance(25):
        chosen["priority"] = dice.pick((-100, -1, 1, 5, 100))
    if dice.chance(10):
        chosen["delay"] = dice.pick((0, 1, GRACE, TTL, MINUTE))
    elif dice.chance(12):
        chosen["run_at"] = world.now + dice.pick((-DAY, -TTL, 0, 1, TTL, HOUR))
    if dice.chance(10):
        chosen["expires"] = dice.pick((1, GRACE, TTL, MINUTE))
    return chosen


def uniqueness(world: World, dice: Dice) -> dict[str, Any]:
    if not dice.chance(22):
        return {}
    unique = dice.pick(tuple(Unique))
    window = dice.pick((1, TTL, MINUTE, DAY)) if unique is Unique.WINDOW else None
    return {"key": dice.pick(world.profile.keys), "unique": unique, "unique_for": window}


def _extras(dice: Dice) -> dict[str, Any]:
    extras: dict[str, Any] = {}
    if dice.chance(15):
        extras["labels"] = {"team": dice.pick(("crm", "ops"))}
    if dice.chance(8):
        extras["lease"] = dice.pick((1, TTL, MINUTE))
    if dice.chance(8):
        extras["grace"] = dice.pick((0, 1, GRACE))
    if dice.chance(20):
        extras["result_ttl"] = dice.pick((0, 1, TTL))
    if dice.chance(6):
        extras |= {"codec": "msgpack", "timeout": MINUTE, "retry": RetryPolicy.ladder(TTL, MINUTE)}
    return extras


def _parents(world: World, dice: Dice, tenant: str, among: tuple[NewJob, ...]) -> tuple[Parent, ...]:
    known = [job.id for job in among if job.tenant == tenant]
    if not known or dice.chance(50):
        states = LIVE if dice.chance(75) else tuple(TERMINAL)
        known += [id_ for _, id_ in world.refs(*states, tenant=tenant)[-8:]]
    if dice.chance(5):
        known.append(world.new_id() if dice.chance(50) or not world.jobs else dice.pick(list(world.jobs))[1])
    chosen = dict.fromkeys(dice.some(known, dice.between(1, 2)))
    return tuple(Parent(id_, dice.pick(tuple(OnParentFailure))) for id_ in chosen)


def batch(world: World, dice: Dice, most: int = 6) -> list[NewJob]:
    """Several jobs, sometimes one flow of one tenant, sometimes with one sent twice or one known before."""
    tenant = dice.pick(world.profile.tenants) if dice.chance(50) else None
    jobs: list[NewJob] = []
    for _ in range(dice.between(2, most)):
        jobs.append(new_job(world, dice, tenant=tenant, among=tuple(jobs)))
    if dice.chance(4):
        jobs[-1:] = _cycle(jobs[-1], world.new_id())
    if dice.chance(8):
        jobs.append(dice.pick(jobs))
    if world.sent and dice.chance(8):
        jobs.insert(0, dice.pick(world.sent))
    return jobs


def _cycle(job: NewJob, id_: str) -> list[NewJob]:
    """Two jobs that wait for each other, or one that waits for itself."""
    first = msgspec.structs.replace(job, key=None, unique=Unique.ACTIVE, unique_for=None, parents=(Parent(id_),))
    return [first, msgspec.structs.replace(first, id=id_, parents=(Parent(job.id),))]


# Claims


def claim(world: World, dice: Dice, *, bounded: bool = True) -> Claim:
    """A new claim. `bounded`: some of its queues may have a bound of their own."""
    worker = dice.pick(WORKERS)
    if bounded and world.profile.open_claims and dice.chance(world.profile.open_claims):
        return _open_claim(world, dice, worker)
    return Claim(
        claim_id=world.new_claim_id(),
        worker=worker,
        queues=tuple((queue, _at_most(dice, bounded)) for queue in _queues(world, dice)),
        n=dice.weighted(world.profile.claims),
        ttl=dice.weighted(((6, TTL), (1, 1), (1, MINUTE))),
        grace=dice.weighted(((6, GRACE), (1, 0), (1, 5 * SECOND))),
        cursor=_cursor(world, dice, worker),
        tenants=tuple(dice.some(world.profile.tenants, dice.between(1, 2))) if dice.chance(15) else None,
    )


def _open_claim(world: World, dice: Dice, worker: str) -> Claim:
    """As workers claim: what there is, going on where the last claim ended."""
    return Claim(
        claim_id=world.new_claim_id(),
        worker=worker,
        queues=tuple((queue, None) for queue in _queues(world, dice)),
        n=dice.weighted(world.profile.claims),
        ttl=TTL,
        grace=GRACE,
        cursor=world.cursors.get(worker, Cursor()),
    )


def _queues(world: World, dice: Dice) -> list[str]:
    return dice.some(world.profile.queues, dice.weighted(((1, 1), (2, 2), (4, 3))))


def _at_most(dice: Dice, bounded: bool) -> int | None:
    return dice.between(0, 3) if bounded and dice.chance(20) else None


def _cursor(world: World, dice: Dice, worker: str) -> Cursor:
    if dice.chance(65):
        return world.cursors.get(worker, Cursor())
    if dice.chance(40):
        return Cursor()
    return Cursor(dice.pick((*world.profile.tenants, "", "a", "zz")), dice.between(0, 3), dice.between(0, 5))


# Tokens and outcomes


def token(world: World, dice: Dice, tokens: Tokens) -> Token:
    """A token to act with: mostly a live one, and every kind of dead one often enough."""
    kind = dice.weighted(
        ((62, "live"), (10, "expired"), (8, "cancelled"), (6, "ended"), (5, "superseded"), (4, "lost"), (5, "wrong"))
    )
    if kind == "wrong":
        return wrong_token(world, dice)
    wanted: list[Token] = getattr(tokens, kind) or tokens.live
    if wanted:
        return dice.recent(wanted)
    return dice.recent(list(world.tokens)) if world.tokens else wrong_token(world, dice)


def wrong_token(world: World, dice: Dice) -> Token:
    """A token that no claim gave: of another tenant, of nobody, with another secret or number."""
    if not world.tokens:
        return Token(dice.pick(world.profile.tenants), world.new_id(), 1, world.new_claim_id())
    right = dice.recent(list(world.tokens))
    match dice.between(0, 4):
        case 0 | 1:
            others = [tenant for tenant in (*world.profile.tenants, "nobody") if tenant != right.tenant]
            return msgspec.structs.replace(right, tenant=dice.pick(others))
        case 2:
            return msgspec.structs.replace(right, secret=world.new_claim_id())
        case 3:
            return msgspec.structs.replace(right, job_id=world.new_id())
    return msgspec.structs.replace(right, lease_seq=right.lease_seq + dice.pick((-1, 1)))


def settle(world: World, dice: Dice, tokens: Tokens) -> Settle:
    """One lease to end; one ended before mostly as it was ended then, else in another way."""
    chosen = token(world, dice, tokens)
    before = world.ended.get(chosen)
    if before is not None and dice.chance(60):
        return Settle(chosen, before if dice.chance(70) else _same_tag(world, dice, before, chosen.tenant))
    return Settle(chosen, outcome(world, dice, chosen.tenant))


def _same_tag(world: World, dice: Dice, before: Outcome, tenant: str) -> Outcome:
    """The same outcome with other data: the first call's data holds."""
    for _ in range(8):
        other = outcome(world, dice, tenant)
        if other.tag == before.tag:
            return other
    return before


def outcome(world: World, dice: Dice, tenant: str) -> Outcome:
    match dice.weighted(((45, "succeed"), (20, "retry"), (13, "fail"), (22, "release"))):
        case "succeed":
            return succeed(world, dice, tenant)
        case "retry":
            delay = dice.pick((0, 0, 1, TTL, MINUTE, 2 * DAY))
            return Retry(_failure(dice), delay, dice.pick(("error", "timeout")), _traceback(dice))
        case "fail":
            return Fail(_failure(dice), dice.pick(("permanent", "undecodable")), _traceback(dice))
    if dice.chance(50):
        return Release(reason=dice.pick(("shutdown", "snooze")))
    reason = dice.pick(("snooze", "unknown_type", "unknown_argument", "later"))
    return Release(dice.pick((1, TTL, MINUTE)), reason, dice.pick((None, None, 0, 1, 2)))


def succeed(world: World, dice: Dice, tenant: str) -> Succeed:
    """A success, with or without a result, sometimes with new jobs."""
    result = dice.pick((b"", b"42", b'"done"')) if dice.chance(55) else None
    jobs: tuple[NewJob, ...] = ()
    if dice.chance(18):
        first = new_job(world, dice, tenant=tenant)
        jobs = (first,) if dice.chance(70) else (first, new_job(world, dice, tenant=tenant, among=(first,)))
    return Succeed(result, dice.pick(("json", "json", "msgpack")), jobs)


def _failure(dice: Dice) -> Failure:
    return Failure(dice.pick(("ValueError", "Timeout")), dice.pick(("", "it broke")))


def _traceback(dice: Dice) -> Traceback | None:
    if dice.chance(40):
        return None
    path = dice.pick(("ValueError", "shop.errors.Declined"))
    return Traceback(path, dice.pick(("", "it broke")), dice.pick(("", 'File "shop.py", line 1\n', "é" * 3_000)))


def renewal(world: World, dice: Dice, tokens: Tokens) -> Renewal:
    progress = Progress(dice.pick((0.0, 0.5, 1.0)), dice.pick(("", "half way"))) if dice.chance(40) else None
    return Renewal(token(world, dice, tokens), progress)


# Configuration


def configuration(world: World, dice: Dice) -> Document:
    """A document the store reads itself: of a queue, for everyone or one tenant, or of a tenant."""
    tenant = dice.pick(world.profile.tenants)
    if dice.chance(25):
        body = None if dice.chance(15) else msgspec.json.encode(tenant_config(dice))
        return Document(tenant=tenant, kind=TENANT, name=tenant, body=body)
    level = EVERYONE if dice.chance(45) else tenant
    queue = dice.pick(world.profile.queues)
    config = None if dice.chance(15) else msgspec.json.encode(queue_config(world, dice, level, queue))
    return Document(tenant=level, kind=QUEUE, name=queue, body=config)


def turns(world: World, dice: Dice) -> Document:
    """A document that says how often a tenant or a queue is served."""
    tenant, weight = dice.pick(world.profile.tenants), dice.pick((1, 2, 3, 4, 16))
    paused = dice.pick((True, False, False)) if dice.chance(15) else None
    if dice.chance(60):
        return Document(
            tenant=tenant,
            kind=TENANT,
            name=tenant,
            body=msgspec.json.encode(TenantConfig(weight=weight, paused=paused)),
        )
    queue = dice.pick(world.profile.queues)
    mode = Mode.KEYED if queue in world.profile.lanes else Mode.PLAIN
    body = msgspec.json.encode(QueueConfig(mode=mode, weight=weight, paused=paused))
    return Document(tenant=EVERYONE if dice.chance(60) else tenant, kind=QUEUE, name=queue, body=body)


def tenant_config(dice: Dice) -> TenantConfig:
    return TenantConfig(weight=dice.pick((None, 1, 2, 3)), paused=dice.weighted(((6, None), (1, True), (1, False))))


def queue_config(world: World, dice: Dice, level: str, queue: str) -> QueueConfig:
    """A few fields of a queue's configuration, and mostly the mode it has already."""
    mode = Mode.KEYED if queue in world.profile.lanes else Mode.PLAIN
    if dice.chance(10):
        mode = dice.pick(tuple(Mode))
    keyed = mode is Mode.KEYED
    return QueueConfig(
        mode=mode if keyed or dice.chance(30) else None,
        ordered=dice.pick((True, False)) if keyed and dice.chance(20) else None,
        group_limit=dice.pick((1, 2)) if keyed and dice.chance(60) else None,
        group_limits={dice.pick(world.profile.groups): dice.between(1, 3)} if keyed and dice.chance(25) else None,
        group_rate=_rate(dice) if keyed and dice.chance(15) else None,
        group_burst=dice.pick((1, 2)) if dice.chance(10) else None,
        limit=dice.pick((1, 2, 4)) if dice.chance(20) else None,
        rate=_rate(dice) if dice.chance(20) else None,
        burst=dice.pick((1, 2, 3)) if dice.chance(25) else None,
        weight=dice.pick((1, 2, 3)) if dice.chance(35) else None,
        max_depth=dice.pick((0, 2, 5, 9)) if dice.chance(12) else None,
        lease=dice.pick((1, TTL, 2 * TTL)) if dice.chance(15) else None,
        grace=dice.pick((0, GRACE)) if dice.chance(15) else None,
        paused=dice.pick((True, False, False)) if dice.chance(20) else None,
    )


def reset(document: Document) -> bytes | None:
    """A body that sets nothing but what a queue with jobs in it may not lose: its mode."""
    if document.kind != QUEUE or document.body is None:
        return None
    before = msgspec.json.decode(document.body, type=QueueConfig)
    return msgspec.json.encode(QueueConfig(mode=before.mode, ordered=before.ordered))


def _rate(dice: Dice) -> Rate:
    return Rate(*dice.pick(((1, 1), (1, TTL), (3, TTL), (7, TTL), (2, 7), (3, MINUTE))))


# Reading and cleaning


def job_filter(world: World, dice: Dice) -> JobFilter:
    return JobFilter(
        tenant=dice.pick(world.profile.tenants) if dice.chance(60) else None,
        queue=dice.pick(world.profile.queues) if dice.chance(25) else None,
        job_type=dice.pick(JOB_TYPES) if dice.chance(20) else None,
        states=tuple(dice.some(tuple(State), dice.between(1, 3))) if dice.chance(35) else None,
        labels={"team": dice.pick(("crm", "ops", "nobody"))} if dice.chance(20) else {},
        enqueued_from=world.now - dice.pick((0, TTL, DAY)) if dice.chance(20) else None,
        enqueued_before=world.now + dice.pick((-DAY, -TTL, 0, 1)) if dice.chance(20) else None,
        dead_letter=dice.pick(tuple(Disposition)) if dice.chance(15) else None,
    )


def retention(dice: Dice) -> Retention:
    if dice.chance(60):
        return Retention(0, 0, 0)
    return Retention(dice.pick((0, 1, DAY)), dice.pick((0, DAY)), dice.pick((0, DAY, 3 * DAY)))
