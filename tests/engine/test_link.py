"""What a child tells its supervisor: every lease under its own terms, those of one kind together."""

import socket
from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from tenure import Tenure
from tenure.domain.calls import Claim, Claimed, ClaimedJob
from tenure.domain.retry import RetryPolicy
from tenure.engine.worker.hand import Hand
from tenure.engine.worker.supervisor.link import Link
from tenure.engine.worker.supervisor.wire import Deadlines, Hello, Took

OTHERWISE: dict[str, dict[str, Any]] = {
    "lease_seq": {"lease_seq": 9},
    "attempt": {"attempt": 9},
    "tenant": {"spec": {"tenant": "other"}},
    "job_type": {"spec": {"job_type": "other"}},
    "timeout": {"spec": {"timeout": 9_000}},
    "retry": {"spec": {"retry": RetryPolicy(base=9_000)}},
}


def otherwise(claimed: ClaimedJob, spec: dict[str, Any] | None = None, **fields: Any) -> ClaimedJob:
    """A job of the same lease that differs in something."""
    job = replace(claimed.job, spec=replace(claimed.job.spec, **(spec or {})), **fields)
    token = replace(claimed.token, tenant=job.spec.tenant, lease_seq=job.lease_seq)
    return replace(claimed, job=job, token=token)


@pytest.mark.parametrize("field", [None, *OTHERWISE])
async def test_leases_are_told_together_only_if_their_terms_are_one(field: str | None) -> None:
    app = Tenure("memory://")

    @app.job
    async def work() -> None: ...

    async with app:
        await work.enqueue()
        store = await app.opened()
        taken = await store.claim(Claim(claim_id=bytes(16), worker="w", queues=(("default", None),), n=1))
    assert isinstance(taken, Claimed)
    (claimed,) = taken.jobs
    second = otherwise(claimed, **OTHERWISE[field] if field else {})
    line, other = socket.socketpair()
    file = Deadlines.create(2)
    with line, other, open(file, "rb"), closing(Deadlines(file, 2)) as deadlines:
        link = Link(line, deadlines, Hello("memory://", "w", 1.0), lambda: None)
        link.added([Hand(one, work, 0.0, 0.0, lambda hand: None) for one in (claimed, second)])
        told = [message for message in link._outbox if isinstance(message, Took)]
    assert [job for message in told for job in message.jobs] == [claimed.token.job_id, second.token.job_id]
    assert [message.first + place for message in told for place, _ in enumerate(message.slots)] == list(link._hands)
    assert len(told) == (1 if field is None else 2)


async def test_a_link_that_has_started_tells_at_once() -> None:
    """A handler that ends its process may begin in the same turn of the loop."""
    line, other = socket.socketpair()
    line.setblocking(False)
    file = Deadlines.create(2)
    with other, open(file, "rb"), closing(Deadlines(file, 2)) as deadlines:
        link = Link(line, deadlines, Hello("memory://", "w", 1.0), lambda: None)
        await link.start()
        other.setblocking(False)
        assert b"memory://" in other.recv(1_000)
        await link.stop()
