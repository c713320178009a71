"""Which jobs a filter asks for, as conditions that every store understands."""

from collections.abc import Iterator, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any

import msgspec

from tenure.domain.calls import JobFilter
from tenure.domain.job import DeadLetter, Job


class Comparison(Enum):
    """How a field of a record is compared with a condition's value."""

    IS = "is"
    AMONG = "among"
    """With several values, any of which will do."""
    FROM = "from"
    BEFORE = "before"
    LABEL = "label"
    """The value of the label of that name."""
    LETTER = "letter"
    """The disposition of the job's dead letter."""


class Condition(msgspec.Struct, frozen=True):
    """One of the conditions of a filter, all of which must hold."""

    field: str
    test: Comparison
    value: Any


def conditions(where: JobFilter) -> Iterator[Condition]:
    """What a filter asks for; fields that are None ask for nothing."""
    for field in ("tenant", "queue", "job_type"):
        if (value := getattr(where, field)) is not None:
            yield Condition(field, Comparison.IS, value)
    if where.states is not None:
        yield Condition("state", Comparison.AMONG, where.states)
    if where.enqueued_from is not None:
        yield Condition("enqueued_at", Comparison.FROM, where.enqueued_from)
    if where.enqueued_before is not None:
        yield Condition("enqueued_at", Comparison.BEFORE, where.enqueued_before)
    for name, label in where.labels.items():
        yield Condition(name, Comparison.LABEL, label)
    if where.dead_letter is not None:
        yield Condition("disposition", Comparison.LETTER, where.dead_letter)


_FIELDS = {name: attrgetter(f"spec.{name}") for name in ("tenant", "queue", "job_type", "enqueued_at")}
_FIELDS["state"] = attrgetter("state")


def matches(job: Job, letter: DeadLetter | None, asked: Sequence[Condition]) -> bool:
    """Whether a job, with its dead letter, is what was asked for."""
    return all(_holds(job, letter, one) for one in asked)


def _holds(job: Job, letter: DeadLetter | None, one: Condition) -> bool:
    if one.test is Comparison.LABEL:
        return bool(job.spec.labels.get(one.field) == one.value)
    if one.test is Comparison.LETTER:
        return letter is not None and letter.disposition is one.value
    found = _FIELDS[one.field](job)
    match one.test:
        case Comparison.IS:
            return bool(found == one.value)
        case Comparison.AMONG:
            return bool(found in one.value)
        case Comparison.FROM:
            return bool(found >= one.value)
    return bool(found < one.value)
