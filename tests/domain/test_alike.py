"""New jobs of one kind, as columns."""

import pytest

from tenure.domain.errors import InvalidValue
from tenure.domain.job import Alike, NewJob
from tenure.domain.names import MAX_PAYLOAD

KIND = NewJob(
    tenant="acme", id="01900000-0000-7000-8000-000000000000", queue="mail", job_type="send", payload=b"{}", priority=7
)
IDS = [f"01900000-0000-7000-8000-{number:012x}" for number in range(1, 4)]
PAYLOADS = [b'"a"', b'"bc"', b'"d"']


def test_they_are_the_jobs_that_they_stand_for() -> None:
    jobs = Alike(KIND, IDS, PAYLOADS)
    made = [KIND.like(id, payload) for id, payload in zip(IDS, PAYLOADS, strict=True)]
    assert list(jobs) == made
    assert list(jobs[1:]) == made[1:]
    assert (len(jobs), jobs[2], jobs[-1]) == (3, made[2], made[2])
    with pytest.raises(IndexError):
        jobs[3]


def test_a_payload_that_is_too_large_is_refused() -> None:
    with pytest.raises(InvalidValue, match="payload"):
        Alike(KIND, IDS[:1], [b"x" * (MAX_PAYLOAD + 1)])
