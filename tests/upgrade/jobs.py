"""The jobs that are upgraded, each made from its number alone, and how each of them goes on."""

from typing import Any

import msgspec

from tenure.domain.calls import ClaimedJob, Document, Fail, Outcome, Release, Retry, Succeed
from tenure.domain.config import QUEUE, TENANT, QueueConfig, TenantConfig
from tenure.domain.job import Failure, NewJob, Parent
from tenure.domain.names import DAY, EVERYONE, HOUR
from tenure.domain.states import Mode, OnParentFailure, Unique
from tests.upgrade.plan import Plan

TENANTS = ("acme", "bolt", "cory", "dune", "echo")
PAST, HELD, MAIL, KEYED, PAUSED, LIMITED = "past", "held", "mail", "keyed", "paused", "limited"
WORKED = (MAIL, KEYED, PAUSED, LIMITED, PAST)
"""The queues that workers ask for; `held` has one worker only."""
ENDED = 0.4
"""The share of jobs that an old worker has had in hand before the upgrade."""
CYCLE = 20
CANCELLED = 19
"""Of each cycle, the job that is called off while it waits."""

SAMPLES: dict[str, Any] = {}
"""For each field that `NewJob` got since the oldest base: a value that isn't its default. The new producer sends it,
and an old worker that retries or ends the job must leave it."""


def documents() -> list[Document]:
    """Queues, tenants and schedules as they were configured."""
    queues = {
        KEYED: QueueConfig(mode=Mode.KEYED, ordered=True),
        PAUSED: QueueConfig(paused=True),
        LIMITED: QueueConfig(limit=50, weight=2),
    }
    found = [_document(EVERYONE, QUEUE, name, config) for name, config in queues.items()]
    found += [_document(name, TENANT, name, TenantConfig(weight=n)) for n, name in enumerate(TENANTS[:3], start=1)]
    schedule = {"cron": "0 3 * * *", "job_type": "report", "queue": MAIL}
    return [*found, *(_document(tenant, "schedule", "nightly", schedule) for tenant in TENANTS)]


def resumed() -> Document:
    return _document(EVERYONE, QUEUE, PAUSED, QueueConfig(paused=False))


def _document(tenant: str, kind: str, name: str, body: Any) -> Document:
    return Document(tenant=tenant, kind=kind, name=name, body=msgspec.json.encode(body))


def job_id(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012x}"


def number_of(id_: str) -> int:
    return int(id_[-12:], 16)


def job(number: int, plan: Plan) -> NewJob:
    """Job `number` of the store that is upgraded."""
    ended = ended_before(plan)
    if number < ended:
        return _made(number, **_past(number))
    if number < ended + plan.held:
        return _made(number, queue=HELD, max_attempts=5, labels={"held": "yes"})
    return _made(number, **_waiting(number))


def in_flow(number: int) -> bool:
    """Whether a waiting job is one that waits for others, or one that they wait for."""
    return number % CYCLE in (10, 14, 16)


def ended_before(plan: Plan) -> int:
    return int(plan.jobs * ENDED) // CYCLE * CYCLE


def produced(number: int, fields: dict[str, Any]) -> NewJob:
    """A job that comes while others migrate."""
    return _made(number, labels={"late": "yes"}, max_attempts=5, **fields)


def _made(number: int, **fields: Any) -> NewJob:
    plain = {"queue": MAIL, "payload": msgspec.json.encode({"number": number, "text": "x" * (number % 100)})}
    return NewJob(tenant=tenant_of(number), id=job_id(number), job_type="work", **{**plain, **fields})


def tenant_of(number: int) -> str:
    return TENANTS[number // CYCLE % len(TENANTS)]


def _past(number: int) -> dict[str, Any]:
    key = {"key": f"past-{number}", **_unique(number // 3)} if number % 3 == 0 else {}
    labels = {"colour": "red", "shape": "round"} if number % 4 == 0 else {}
    return {"queue": PAST, "max_attempts": 1 if number % 100 == 8 else 5, "result_ttl": DAY, "labels": labels, **key}


def _unique(number: int) -> dict[str, Any]:
    unique = list(Unique)[number % 3]
    return {"unique": unique, "unique_for": HOUR if unique is Unique.WINDOW else None}


def _waiting(number: int) -> dict[str, Any]:
    match number % CYCLE:
        case 7:
            return {"priority": number % 11 - 5, "labels": {"colour": "blue"}}
        case 8 | 9 | 10:
            return {"key": f"k{number}", **_unique(number)}
        case 11 | 12:
            return {"queue": KEYED, "group": f"g{number // CYCLE % 40}"}
        case 13:
            return {"delay": HOUR}
        case 14:
            return {"expires": DAY}
        case 15:
            return {"expires": 1}
        case 16:
            parents = (Parent(job_id(number - 6)), Parent(job_id(number - 2), OnParentFailure.IGNORE))
            return {"parents": parents}
        case 17:
            return {"queue": PAUSED}
        case 18:
            return {"queue": LIMITED, "codec": "msgpack", "payload": msgspec.msgpack.encode(number)}
    return {}


def before(number: int) -> Outcome:
    """How an attempt ended long ago."""
    match number % 10:
        case 6:
            return Succeed()
        case 7:
            return Fail(Failure("ValueError", "no such order"))
        case 8:
            return Retry(Failure("OSError", "away"), delay=HOUR)
        case 9:
            return Release(delay=HOUR, reason="snooze")
    return Succeed(msgspec.json.encode({"sent": number}))


def outcome(claimed: ClaimedJob) -> Outcome:
    """How an attempt ends now."""
    number, first = number_of(claimed.token.job_id), claimed.token.lease_seq == 1
    if first and number % 7 == 0:
        return Retry(Failure("OSError", "away for a moment"), delay=20)
    if first and number % 11 == 0:
        return Release(delay=0, reason="shutdown")
    if number % 13 == 0:
        return Fail(Failure("ValueError", "no such order"))
    return Succeed(msgspec.json.encode({"sent": number}) if number % 2 else None)
