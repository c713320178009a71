"""The jobs of a campaign, each made from its number alone: a producer that was killed sends the same ones again."""

import random
from typing import Any

import msgspec

from tenure.domain.calls import Document
from tenure.domain.config import QUEUE, TENANT, QueueConfig, TenantConfig
from tenure.domain.job import NewJob, Parent
from tenure.domain.names import EVERYONE
from tenure.domain.rate import Rate
from tenure.domain.states import Mode, Unique

TENANTS = ("acme", "bolt", "cory", "dune", "echo")
MAIL, VIDEO, KEYED, METERED = "mail", "video", "keyed", "metered"
QUEUES = (MAIL, VIDEO, KEYED, METERED)
POISON = "poison"
"""A job type whose every attempt fails."""
KEYS = 40
"""Different keys in use at a time, per producer."""


def documents() -> list[Document]:
    """Limits, rates and weights that must hold all through the campaign."""
    queues = {
        VIDEO: QueueConfig(limit=30, weight=2),
        KEYED: QueueConfig(mode=Mode.KEYED, group_limit=3),
        METERED: QueueConfig(rate=Rate(50, 1_000), burst=10),
    }
    found = [
        Document(tenant=EVERYONE, kind=QUEUE, name=name, body=msgspec.json.encode(config))
        for name, config in queues.items()
    ]
    for weight, tenant in enumerate(TENANTS[:3], start=1):
        body = msgspec.json.encode(TenantConfig(weight=weight))
        found.append(Document(tenant=tenant, kind=TENANT, name=tenant, body=body))
    return found


def job_id(producer: int, number: int) -> str:
    return f"01900000-0000-7000-8{producer:03x}-{number:012x}"


def job(seed: int, producer: int, number: int) -> NewJob:
    """Job `number` of a producer: most are plain, the rest use one feature each."""
    dice = random.Random(f"{seed}/{producer}/{number}")
    fields = _feature(dice, seed, producer, number)
    made: dict[str, Any] = {
        "tenant": dice.choice(TENANTS),
        "queue": MAIL,
        "job_type": POISON if dice.random() < 0.01 else "work",
        "payload": msgspec.json.encode({"producer": producer, "number": number}),
        "max_attempts": 1 if dice.random() < 0.02 else 12,
        **fields,
    }
    if made["job_type"] == POISON:
        made["max_attempts"] = 3
    return NewJob(id=job_id(producer, number), **made)


def _feature(dice: random.Random, seed: int, producer: int, number: int) -> dict[str, Any]:
    match dice.choices(("plain", "priority", "key", "group", "limit", "rate", "delay", "child"), WEIGHTS)[0]:
        case "priority":
            return {"priority": dice.randint(-5, 5), "labels": {"colour": dice.choice(("red", "blue"))}}
        case "key":
            return _keyed(producer, number // 400 * KEYS + dice.randrange(KEYS))
        case "group":
            return {"queue": KEYED, "group": f"g{dice.randrange(12)}"}
        case "limit":
            return {"queue": VIDEO}
        case "rate":
            return {"queue": METERED}
        case "delay":
            return {"delay": dice.randint(50, 800)}
        case "child" if number:
            return _child(job(seed, producer, number - 1))
    return {}


WEIGHTS = (40, 15, 12, 15, 8, 3, 4, 3)


def _keyed(producer: int, number: int) -> dict[str, Any]:
    """A key that other jobs of this producer use too, always with the same body and lifetime."""
    unique = list(Unique)[number % 3]
    return {
        "tenant": TENANTS[number % len(TENANTS)],
        "job_type": "work",
        "payload": b"{}",
        "key": f"{producer}-{number}",
        "unique": unique,
        "unique_for": 3_000 if unique is Unique.WINDOW else None,
    }


def _child(parent: NewJob) -> dict[str, Any]:
    """A job that waits for the one before it, if that was surely created."""
    if parent.key is not None:
        return {}
    return {"tenant": parent.tenant, "parents": (Parent(parent.id),)}
