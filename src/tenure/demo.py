"""The smallest true thing: jobs of a few tenants through one SQLite file, with a worker killed on the way.

`python -m tenure.demo` prints what happens and then proves from the store's own feed and records that every job ended
exactly once. Exit code 1 if it can't.
"""

import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from tenure.domain.calls import (
    Claim,
    Claimed,
    ClaimedJob,
    Cursor,
    Enqueued,
    EventPage,
    Fail,
    JobFilter,
    JobView,
    Outcome,
    Retry,
    Settle,
    Succeed,
)
from tenure.domain.event import Event
from tenure.domain.job import Failure, NewJob, Ref
from tenure.domain.names import Ms
from tenure.domain.states import TERMINAL, State
from tenure.domain.store import queue_topic
from tenure.stores.sql.sqlite import SqliteStore

LEASE: Ms = 1_000
GRACE: Ms = 200
HELD = 8
"""Jobs that the doomed worker holds when it is killed."""

TENANTS = {"acme": 30, "bolt": 12, "cory": 3}
QUEUES = ("mail", "reports")
LIVE = tuple(state for state in State if state not in TERMINAL)

NONE: Counter[str] = Counter()

spawn = multiprocessing.get_context("spawn")


# What is enqueued


def jobs() -> list[NewJob]:
    """Mails and reports of three tenants, one job that fails once, and one that always fails."""
    made = [_job(tenant, number) for tenant, count in TENANTS.items() for number in range(count)]
    made.append(_job("bolt", 0, "flaky", max_attempts=3))
    made.append(_job("cory", 0, "poison", max_attempts=2))
    return made


def _job(tenant: str, number: int, job_type: str | None = None, max_attempts: int = 5) -> NewJob:
    queue = QUEUES[number % 5 == 4]
    return NewJob(
        tenant=tenant,
        id=str(uuid.uuid4()),
        queue=queue,
        job_type=job_type or {"mail": "send", "reports": "sum"}[queue],
        payload=msgspec.json.encode({"number": number}),
        max_attempts=max_attempts,
    )


# What workers do


def handle(job: ClaimedJob) -> Outcome:
    """Runs one job; the outcome says what becomes of it."""
    number = msgspec.json.decode(job.payload)["number"]
    match job.job.spec.job_type:
        case "send":
            return Succeed(msgspec.json.encode(f"sent {number}"))
        case "sum":
            return Succeed(msgspec.json.encode(sum(range(number))))
        case "flaky" if job.job.attempt > 1:
            return Succeed()
        case "flaky" | "poison":
            return Retry(Failure("ConnectionError", "the other side hung up"), delay=300)
    return Fail(Failure("UnknownType", job.job.spec.job_type))


def request(worker: str, n: int, cursor: Cursor) -> Claim:
    """A claim over both queues, under a claim id of its own."""
    queues = tuple((queue, None) for queue in QUEUES)
    return Claim(claim_id=os.urandom(16), worker=worker, queues=queues, n=n, ttl=LEASE, grace=GRACE, cursor=cursor)


def doomed_worker(path: str, line: Connection) -> None:
    """Takes some jobs and never finishes: it waits on the line until it is killed."""

    async def take() -> int:
        store = SqliteStore(path)
        claimed = await store.claim(request("doomed", HELD, Cursor()))
        return len(claimed.jobs) if isinstance(claimed, Claimed) else 0

    line.send(asyncio.run(take()))
    line.recv()


def worker(path: str, name: str, line: Connection) -> None:
    """Claims, handles and settles until no job is left; tells how many it settled."""
    line.send(asyncio.run(drain(SqliteStore(path), name)))


async def drain(store: SqliteStore, name: str) -> Counter[str]:
    """Every job that can be had, in batches; sweeps for leases that others lost."""
    done: Counter[str] = Counter()
    cursor, settles = Cursor(), list[Settle]()
    while True:
        exchanged = await store.exchange(settles, request(name, 5, cursor))
        done.update(type(settle.outcome).__name__ for settle in settles)
        claimed = exchanged.claimed
        if not isinstance(claimed, Claimed):
            raise claimed
        cursor = claimed.cursor
        settles = [Settle(job.token, handle(job)) for job in claimed.jobs]
        if settles:
            continue
        await store.sweep(LEASE // 3)
        if not (await store.query(JobFilter(states=LIVE), limit=1)).jobs:
            await store.close()
            return done
        await store.wait([queue_topic(queue) for queue in QUEUES], (claimed.wake_after or LEASE // 3) / 1_000)


# The proof


class Proof(msgspec.Struct, frozen=True):
    """What the feed and the records say, counted."""

    enqueued: int
    succeeded: int
    recovered: int
    retried: int
    dead_lettered: int
    lost: int
    settled_twice: int
    problems: list[str]

    def __str__(self) -> str:
        return (
            f"enqueued {self.enqueued} · succeeded {self.succeeded} · recovered {self.recovered} · "
            f"retried {self.retried} · dead-lettered {self.dead_lettered} · "
            f"lost {self.lost} · settled twice {self.settled_twice}"
        )


def prove(sent: set[Ref], feed: list[Event], states: dict[Ref, State], held: int) -> Proof:
    """Counts from the feed; the records must say the same."""
    kinds: dict[Ref, Counter[str]] = {}
    for event in feed:
        if event.job_id is not None:
            kinds.setdefault((event.tenant, event.job_id), Counter())[event.kind.value] += 1
    total = sum(kinds.values(), Counter[str]())
    endings = {ref: sum(counts[state.value] for state in TERMINAL) for ref, counts in kinds.items()}
    recovered = [ref for ref, counts in kinds.items() if counts["lease_lost"] and counts["succeeded"]]
    problems = [
        f"{ref} is {state}, the feed differs" for ref, state in states.items() if not kinds.get(ref, NONE)[state.value]
    ]
    problems += [f"{ref} is in the feed, nobody sent it" for ref in kinds.keys() - sent]
    if len(recovered) < held:
        problems.append(f"{held} leases were held by the killed worker, {len(recovered)} jobs were recovered")
    if total["failed"] != 1:
        problems.append(f"{total['failed']} jobs failed, only the poison one should")
    return Proof(
        enqueued=total["enqueued"],
        succeeded=total["succeeded"],
        recovered=len(recovered),
        retried=total["retry_scheduled"],
        dead_lettered=total["failed"],
        lost=sum(1 for ref in sent if not endings.get(ref)),
        settled_twice=sum(1 for count in endings.values() if count > 1),
        problems=problems,
    )


async def audit(store: SqliteStore, sent: set[Ref], held: int) -> Proof:
    """Reads the whole feed, every record, and has the file checked."""
    feed: list[Event] = []
    cursor = None
    while True:
        page = await store.events(after=cursor)
        if not isinstance(page, EventPage):
            raise page
        if not page.events:
            break
        feed.extend(page.events)
        cursor = page.cursor
    refs = sorted(sent)
    views = await store.get(refs)
    states = {ref: view.job.state for ref, view in zip(refs, views, strict=True) if isinstance(view, JobView)}
    proof = prove(sent, feed, states, held)
    return msgspec.structs.replace(proof, problems=proof.problems + await store.verify())


# The story


async def enqueue(store: SqliteStore) -> set[Ref]:
    await store.migrate()
    made = jobs()
    for reply in await store.enqueue(made):
        if not isinstance(reply, Enqueued):
            raise reply
    return {(job.tenant, job.id) for job in made}


def lose_a_worker(path: Path) -> int:
    """Starts a worker process and kills it with leases in its hands; how many."""
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=doomed_worker, args=(str(path), theirs))
    process.start()
    theirs.close()
    held = int(ours.recv())
    process.kill()
    process.join()
    say(f"worker `doomed` (process {process.pid}) took {held} jobs and was killed with SIGKILL")
    return held


def run_workers(path: Path) -> None:
    """Two worker processes that finish everything."""
    started = time.monotonic()
    running = []
    for name in ("north", "south"):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=worker, args=(str(path), name, theirs))
        process.start()
        theirs.close()
        running.append((name, ours, process))
    for name, line, process in running:
        done: Counter[str] = line.recv()
        process.join()
        outcomes = ", ".join(f"{count} {outcome.lower()}" for outcome, count in sorted(done.items()))
        say(f"worker `{name}` settled {done.total()} jobs: {outcomes}")
    say(f"nothing left after {time.monotonic() - started:.1f} s; a lease is {LEASE} ms + {GRACE} ms grace")


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="tenure-demo-") as folder, asyncio.Runner() as runner:
        path = Path(folder) / "jobs.db"
        store = SqliteStore(path)
        print(f"Tenure demo on {path}", flush=True)
        sent = runner.run(enqueue(store))
        say(f"enqueued {len(sent)} jobs of {len(TENANTS)} tenants, one of them flaky, one poisoned")
        held = lose_a_worker(path)
        run_workers(path)
        proof = runner.run(audit(store, sent, held))
        runner.run(store.close())
    print(f"\nproof: {proof}", flush=True)
    for problem in proof.problems:
        print(f"  problem: {problem}", flush=True)
    return 1 if proof.problems or proof.lost or proof.settled_twice else 0


if __name__ == "__main__":
    sys.exit(main())
