"""The proof: the feed, the records, every process's own history, and what arrived outside must all agree."""

from collections import Counter
from pathlib import Path

import msgspec

from tenure.demo.board import Board
from tenure.demo.jobs import resize_image, send_email, webhook_delivery
from tenure.demo.sinks import HookSink, MailSink
from tenure.domain.calls import JobView
from tenure.domain.errors import Refused
from tenure.domain.job import Ref
from tenure.domain.states import EventKind
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.checker import Checker, Summary, Violation
from tenure.testing.history import merge_histories

BATCH = 500


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What it came to."""

    enqueued: int
    succeeded: int
    recovered: int
    dead_lettered: int
    cancelled: int
    lost: int
    settled_twice: int
    problems: list[str] = []

    def __str__(self) -> str:
        return (
            f"enqueued {self.enqueued} · succeeded {self.succeeded} · recovered {self.recovered} · "
            f"dead-lettered {self.dead_lettered} · cancelled {self.cancelled} · "
            f"lost {self.lost} · settled twice {self.settled_twice}"
        )

    @property
    def sound(self) -> bool:
        return not (self.problems or self.lost or self.settled_twice)


def count(board: Board, acknowledged: set[Ref]) -> Proof:
    """What the feed says of the jobs that were acknowledged, and of those that nobody here enqueued."""
    jobs = board.jobs
    lost = {ref for ref, job in jobs.items() if job.live} | (acknowledged - jobs.keys())
    return Proof(
        enqueued=board.kinds[EventKind.ENQUEUED],
        succeeded=board.kinds[EventKind.SUCCEEDED],
        recovered=board.recovered,
        dead_lettered=board.kinds[EventKind.FAILED],
        cancelled=board.kinds[EventKind.CANCELLED],
        lost=len(lost),
        settled_twice=sum(len(job.endings) > 1 for job in jobs.values()),
    )


def with_problems(proof: Proof, problems: list[str]) -> Proof:
    return msgspec.structs.replace(proof, problems=proof.problems + problems)


# What is wrong


def check_story(proof: Proof, deserted: int) -> list[str]:
    """What the story says should have come of it."""
    problems = []
    if proof.recovered < deserted:
        problems.append(f"killed workers held {deserted} jobs, {proof.recovered} were recovered")
    if (proof.dead_lettered, proof.cancelled) != (1, 1):
        problems.append(
            f"{proof.dead_lettered} jobs failed, {proof.cancelled} were cancelled: one of each was meant to"
        )
    return problems


async def check_records(path: Path, board: Board) -> list[str]:
    """The file itself, and every record against what the feed says of it."""
    store = SqliteStore(path)
    try:
        problems = [f"fsck: {problem}" for problem in await store.verify()]
        refs = list(board.jobs)
        for start in range(0, len(refs), BATCH):
            some = refs[start : start + BATCH]
            problems += [
                f"{ref} is {state}, the feed says {board.jobs[ref].endings}"
                for ref, view in zip(some, await store.get(some), strict=True)
                if [state := _state(view)] != board.jobs[ref].endings
            ]
    finally:
        await store.close()
    return problems


def _state(view: JobView | Refused) -> str:
    return view.job.state.value if isinstance(view, JobView) else repr(view)


def check_histories(folder: Path) -> tuple[Summary, list[str]]:
    """What every process asked and was told, merged by time, against the contract."""
    checker = Checker(sequential=False)
    try:
        for entry in merge_histories(sorted(folder.glob("*.jsonl"))):
            checker.feed(entry)
        summary = checker.finish()
    except Violation as violation:
        return Summary(), [f"checker: {violation}"]
    return summary, [] if summary.feed_complete else ["checker: it saw no complete feed"]


def check_effects(board: Board, mail: MailSink, hooks: HookSink, pictures: Path) -> list[str]:
    """Whatever succeeded must have happened outside, too."""
    arrived = {
        send_email.name: {id.partition("@")[0] for id in mail.arrivals},
        webhook_delivery.name: set(hooks.arrivals),
    }
    succeeded = [(id, job) for (_, id), job in board.jobs.items() if job.endings == [EventKind.SUCCEEDED]]
    problems = [
        f"{job.job_type} {id} succeeded, and nothing arrived"
        for id, job in succeeded
        if job.job_type in arrived and id not in arrived[job.job_type]
    ]
    written = sum(job.job_type == resize_image.name for _, job in succeeded)
    found = sum(1 for _ in pictures.glob("*.png"))
    if found != written:
        problems.append(f"{written} pictures were written, {found} are there")
    if hooks.rejected:
        problems.append(f"the receiver rejected {hooks.rejected} webhooks: their signature was wrong")
    return problems


def again(arrivals: Counter[str]) -> int:
    """How many arrived more than once."""
    return sum(times > 1 for times in arrivals.values())
