"""What a unit says of jobs that were moved in bulk is what it says of the same moves one by one."""

from typing import Any

import pytest

from tenure.domain.calls import Succeed
from tenure.domain.job import Job, Lease, NewJob
from tenure.domain.model import Unit
from tenure.domain.model.bulk import BulkLease, BulkSuccess
from tenure.domain.model.enqueue import pending
from tenure.domain.states import Command
from tenure.domain.store import FEED_TOPIC, job_topic, queue_topic
from tenure.domain.transitions import Step, Take, apply
from tenure.stores.memory_tables import MemoryTables

NOW = 1_000


def moved(number: int) -> tuple[Job, Step, Step]:
    """A waiting job, its claim and its success."""
    id = f"01900000-0000-7000-8000-{number:012x}"
    job = pending(NewJob(tenant="acme", id=id, queue="mail", job_type="send", payload=b"{}"), number, NOW)
    claimed = apply(Command.CLAIM, job, Take(b"t" * 16, Lease("w", NOW, NOW + 10, 10, 5)), NOW)
    return job, claimed, apply(Command.SUCCEED, claimed.job, Succeed(), NOW)


def unit() -> Unit:
    return Unit(MemoryTables(), NOW)


def said(one: Unit) -> Any:
    return one.wrote, one.topics(), one.topics(jobs=False), sorted(one.ended_parents)


def test_nothing_was_moved() -> None:
    assert said(unit()) == (False, set(), set(), [])


def test_leases() -> None:
    in_bulk, each = unit(), unit()
    steps = [(job, claimed) for job, claimed, _ in map(moved, (1, 2))]
    for job, claimed in steps:
        each.put(job, claimed)
        in_bulk.tell(claimed)
    in_bulk.leased.append(BulkLease([claimed.job for _, claimed in steps]))
    assert said(in_bulk) == said(each)


@pytest.mark.parametrize("frees", [True, False])
def test_successes(frees: bool) -> None:
    in_bulk, each = unit(), unit()
    steps = [(claimed.job, ended) for _, claimed, ended in map(moved, (1, 2))]
    for running, ended in steps:
        each.put(running, ended)
        in_bulk.tell(ended)
    in_bulk.succeeded.append(BulkSuccess(steps[0][1].job, [running for running, _ in steps], [], frees))
    assert in_bulk.wrote
    assert sorted(in_bulk.ended_parents) == sorted(each.ended_parents)
    place = {queue_topic("mail")}
    assert each.topics() - place == {FEED_TOPIC, *(job_topic(running.ref) for running, _ in steps)}
    assert in_bulk.topics() == (each.topics() if frees else each.topics() - place)
    assert in_bulk.topics(jobs=False) == (each.topics(jobs=False) if frees else {FEED_TOPIC})


def test_moves_without_events_are_written_too() -> None:
    """A unit that was changed is kept, whatever it tells."""
    _, claimed, ended = moved(1)
    leased, succeeded = unit(), unit()
    leased.leased.append(BulkLease([claimed.job]))
    succeeded.succeeded.append(BulkSuccess(ended.job, [claimed.job], [], False))
    assert leased.wrote
    assert succeeded.wrote
