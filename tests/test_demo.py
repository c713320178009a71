"""The demo runs with the core alone and proves what it says."""

import re
import subprocess
import sys

from tenure.demo import prove
from tenure.domain.event import Event
from tenure.domain.job import Ref
from tenure.domain.states import EventKind, State

PROOF = r"proof: enqueued 47 · succeeded 46 · recovered \d+ · retried \d+ · dead-lettered 1 · lost 0 · settled twice 0"


def test_the_demo_proves_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tenure.demo"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(PROOF, done.stdout.strip().splitlines()[-1]), done.stdout


def story(*kinds: EventKind) -> list[Event]:
    return [Event(tenant="a", kind=kind, at=0, job_id="j", version=n) for n, kind in enumerate(kinds, start=1)]


JOB: set[Ref] = {("a", "j")}


def test_a_lost_job_shows() -> None:
    proof = prove(JOB, story(EventKind.ENQUEUED, EventKind.CLAIMED), {("a", "j"): State.RUNNING}, 0)
    assert proof.lost == 1


def test_a_job_that_the_feed_never_saw_shows() -> None:
    assert prove(JOB, [], {}, 0).lost == 1


def test_a_job_settled_twice_shows() -> None:
    feed = story(EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.SUCCEEDED, EventKind.SUCCEEDED)
    assert prove(JOB, feed, {("a", "j"): State.SUCCEEDED}, 0).settled_twice == 1


def test_a_record_that_differs_from_the_feed_shows() -> None:
    feed = story(EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.SUCCEEDED)
    assert any("differs" in problem for problem in prove(JOB, feed, {("a", "j"): State.FAILED}, 0).problems)
