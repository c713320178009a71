"""The proof: whatever is lost, done twice or only claimed shows."""

import asyncio
from pathlib import Path

import pytest

from tenure import Settings, Tenure
from tenure.demo.board import Board
from tenure.demo.jobs import jobs, send_email, summarize_text
from tenure.demo.places import Places
from tenure.demo.proof import Proof, check_effects, check_histories, check_records, check_story, count, with_problems
from tenure.demo.sinks import HookSink, MailSink
from tenure.domain.event import Event
from tenure.domain.job import Ref
from tenure.domain.states import EventKind
from tenure.testing.history import read_history

JOB: Ref = ("a", "j")


def story(*kinds: EventKind) -> Board:
    """A board that was told these events of one job."""
    board = Board()
    for number, kind in enumerate(kinds, start=1):
        worker = "w" if kind is EventKind.CLAIMED else None
        board.add(Event(tenant="a", kind=kind, at=0, job_id="j", version=number, worker=worker, job_type="t"))
    return board


def test_a_lost_job_shows() -> None:
    proof = count(story(EventKind.ENQUEUED, EventKind.CLAIMED), {JOB})
    assert (proof.lost, proof.sound) == (1, False)


def test_a_job_that_the_feed_never_saw_shows() -> None:
    assert count(Board(), {JOB}).lost == 1


def test_a_job_that_nobody_here_enqueued_and_that_never_ended_shows() -> None:
    assert count(story(EventKind.ENQUEUED), set()).lost == 1


def test_a_job_settled_twice_shows() -> None:
    board = story(EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.SUCCEEDED, EventKind.SUCCEEDED)
    proof = count(board, {JOB})
    assert (proof.settled_twice, proof.sound) == (1, False)


def test_a_job_that_ended_once_is_fine() -> None:
    proof = count(story(EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.SUCCEEDED), {JOB})
    assert (proof.lost, proof.settled_twice, proof.succeeded, proof.sound) == (0, 0, 1, True)


@pytest.mark.parametrize(("reason", "recovered"), [("crashed", 1), ("lease_lost", 1), ("error", 0)])
def test_a_job_is_recovered_that_succeeds_after_its_worker_was_lost(reason: str, recovered: int) -> None:
    board = story(EventKind.ENQUEUED, EventKind.CLAIMED)
    board.add(Event(tenant="a", kind=EventKind.RETRY_SCHEDULED, at=0, job_id="j", reason=reason, run_ms=5))
    assert board.recovered == 0
    board.add(Event(tenant="a", kind=EventKind.CLAIMED, at=0, job_id="j", worker="v"))
    board.add(Event(tenant="a", kind=EventKind.SUCCEEDED, at=0, job_id="j", run_ms=5))
    assert board.recovered == recovered
    assert (board.workers["w"].running, board.workers["v"].succeeded) == (0, 1)


def test_a_board_knows_who_holds_what() -> None:
    board = story(EventKind.ENQUEUED, EventKind.CLAIMED)
    assert board.held("w", "t") == {JOB}
    assert board.held("w", "other") == board.held("v", "t") == set()
    row = board.tenants()["a"]
    assert (row.waiting, row.running, row.succeeded) == (0, 1, 0)
    assert not board.ended([JOB])


def test_a_story_that_went_otherwise_shows() -> None:
    as_told = Proof(enqueued=9, succeeded=7, recovered=6, dead_lettered=1, cancelled=1, lost=0, settled_twice=0)
    assert check_story(as_told, deserted=6) == []
    assert check_story(as_told, deserted=7) == ["killed workers held 7 jobs, 6 were recovered"]


# What else must agree


async def effects(board: Board, folder: Path) -> list[str]:
    async with MailSink() as mail, HookSink(b"secret") as hooks:
        return check_effects(board, mail, hooks, folder)


@pytest.mark.parametrize(
    ("job_type", "says"),
    [
        ("send_email", "nothing arrived"),
        ("webhook_delivery", "nothing arrived"),
        ("resize_image", "1 pictures were written, 0 are there"),
        ("summarize_text", None),
    ],
)
def test_what_succeeded_must_have_happened(tmp_path: Path, job_type: str, says: str | None) -> None:
    board = Board()
    for kind in (EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.SUCCEEDED):
        board.add(Event(tenant="a", kind=kind, at=0, job_id="j", worker="w", job_type=job_type))
    problems = asyncio.run(effects(board, tmp_path))
    assert [says in problem for problem in problems if says] == [True] * (says is not None)


def test_a_record_that_differs_from_the_feed_shows(tmp_path: Path) -> None:
    async def main() -> list[str]:
        app = Tenure(f"sqlite:///{tmp_path}/jobs.db", settings=Settings())
        app.include(jobs)
        async with app:
            handle = await app.enqueue(summarize_text.build("Kettles boil."))
        board = Board()
        for kind in (EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.SUCCEEDED):
            board.add(Event(tenant="default", kind=kind, at=0, job_id=handle.id, worker="w", job_type="t"))
        return await check_records(tmp_path / "jobs.db", board)

    (problem,) = asyncio.run(main())
    assert "is pending, the feed says" in problem


def recorded(places: Places) -> None:
    """Two jobs enqueued, and the feed read to its end, all written down."""

    async def main() -> None:
        store = places.recorded("client")
        app = Tenure(store=store, settings=Settings())
        app.include(jobs)
        async with app:
            await app.enqueue_many([send_email.build("a@b.example", "x", "y"), summarize_text.build("Kettles boil.")])
            assert [event.kind async for event in app.fleet.events(follow=False)] == ["enqueued", "enqueued"]
        await store.close()

    places.make()
    asyncio.run(main())


def test_a_history_that_keeps_the_contract_is_fine(tmp_path: Path) -> None:
    recorded(Places(tmp_path))
    summary, problems = check_histories(tmp_path / "histories")
    assert (summary.acknowledged, problems) == (2, [])


def test_a_history_without_the_end_of_the_feed_proves_nothing(tmp_path: Path) -> None:
    assert check_histories(tmp_path)[1] == ["checker: it saw no complete feed"]


def test_a_history_that_tells_of_a_job_that_the_feed_doesnt_know_shows(tmp_path: Path) -> None:
    recorded(Places(tmp_path))
    path = tmp_path / "histories" / "client.jsonl"
    ids = [job["id"] for entry in read_history(path) if entry.verb == "enqueue" for job in entry.body.get("jobs", [])]
    lines = path.read_text().splitlines(keepends=True)
    other = "01890000-0000-7000-8000-000000000000"
    path.write_text("".join(line.replace(ids[0], other) if '"enqueue"' in line else line for line in lines))
    (problem,) = check_histories(tmp_path / "histories")[1]
    assert problem.startswith("checker: H")


def test_one_problem_is_enough() -> None:
    sound = count(story(EventKind.ENQUEUED, EventKind.CLAIMED, EventKind.SUCCEEDED), {JOB})
    assert sound.sound
    assert not with_problems(sound, ["fsck: it is torn"]).sound
