"""The generated history is one that the product itself could have written, with everything in it that a lake meets."""

import asyncio
import itertools
import json
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bench.history import Stats, write_history
from bench.history.feed import Feed
from bench.history.plain import events_of, silver
from bench.history.world import KINDS, TENANTS
from bench.record import ROOT
from tenure.domain.calls import EventPage, Fail, Release, Retry, Succeed
from tenure.domain.errors import InvalidValue
from tenure.domain.event import Event, decode_events, encode_events
from tenure.domain.job import Failure, Job, Lease, Parent, Progress, Spec
from tenure.domain.names import DAY, HOUR
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import TERMINAL, Command, EventKind, OnParentFailure, State
from tenure.domain.transitions import Take, apply
from tenure.stores.sql.sqlite import SqliteStore

UNTIL = int(datetime(2026, 3, 16, 9, tzinfo=UTC).timestamp() * 1_000)
EVENTS = 50_000

REASONS = {
    "succeeded": {"ok"},
    "retry_scheduled": {"error", "timeout", "crashed"},
    "lease_lost": {"lease_lost"},
    "released": {"snooze", "shutdown", "stopped", "restart", "unknown_type"},
    "failed": {"permanent", "invalid_payload", "exhausted", "lease_lost", "unknown_type", "parent_failed"},
    "cancelled": {"cancelled", "expired", "parent_failed", "lease_lost"},
}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history") / "jobs.db"
    stats = write_history(path, EVENTS, until=UNTIL)
    assert stats.events == EVENTS
    return path


@pytest.fixture(scope="module")
def lives(history: Path) -> dict[tuple[str, str], list[Event]]:
    return told(history)


def chunks(path: Path) -> list[tuple[int, str, int, bytes]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT position, tenant, at, body FROM feed ORDER BY position").fetchall()
    finally:
        connection.close()


def told(path: Path) -> dict[tuple[str, str], list[Event]]:
    """Each job's events, in the order of the feed."""
    lives: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for *_, body in chunks(path):
        for event in decode_events(body):
            if event.job_id is not None:
                lives[event.tenant, event.job_id].append(event)
    return lives


# As the store would have written it


def test_the_store_reads_it_all_and_finds_nothing_wrong(history: Path) -> None:
    async def main() -> tuple[list[Event], list[str]]:
        store = SqliteStore(history)
        try:
            found: list[Event] = []
            after = None
            while len(found) < EVENTS:
                page = await store.events(after=after, limit=10_000)
                assert isinstance(page, EventPage)
                found.extend(page.events)
                after = page.cursor
            return found, await store.verify()
        finally:
            await store.close()

    found, problems = asyncio.run(main())
    assert problems == []
    assert [event for *_, body in chunks(history) for event in decode_events(body)] == found
    assert len(found) == EVENTS


def test_chunks_are_of_one_tenant_and_time_dense_and_in_order(history: Path) -> None:
    found = chunks(history)
    assert [position for position, *_ in found] == list(range(1, len(found) + 1))
    times = [at for _, _, at, _ in found]
    assert times == sorted(times)
    assert UNTIL - 14 * DAY <= times[0] < UNTIL - 13 * DAY
    assert UNTIL - HOUR <= times[-1] <= UNTIL
    for _, tenant, at, body in found:
        events = decode_events(body)
        assert {(event.tenant, event.at) for event in events} == {(tenant, at)}
        assert 1 <= len(events) <= 200
        assert encode_events(events) == body, "not the store's own bytes"


def test_head_and_mark_are_the_feeds(history: Path) -> None:
    connection = sqlite3.connect(history)
    head = connection.execute("SELECT feed_head, mark FROM meta").fetchone()
    last = connection.execute("SELECT max(position), max(at) FROM feed").fetchone()
    connection.close()
    assert head == last


def test_every_event_is_the_transition_tables(lives: dict[tuple[str, str], list[Event]]) -> None:
    for events in lives.values():
        replayed(events)


def test_versions_are_dense_and_times_never_go_back(lives: dict[tuple[str, str], list[Event]]) -> None:
    for events in lives.values():
        assert [event.version for event in events] == list(range(1, len(events) + 1))
        assert all(one.at <= other.at for one, other in itertools.pairwise(events))


def test_causes_come_before_their_effects(history: Path) -> None:
    seen: set[str] = set()
    ended: set[str] = set()
    waits_for: dict[str, list[str]] = {}
    for _, _, event in events_of(history):
        id = event.get("job_id", "")
        if event["kind"] == "enqueued":
            waits_for[id] = event.get("parents", [])
            assert seen.issuperset(waits_for[id])
            assert "replay_of" not in event or event["replay_of"] in ended
        elif event["kind"] == "unblocked":
            assert ended.issuperset(waits_for[id])
        elif event["kind"] in ("succeeded", "failed", "cancelled"):
            ended.add(id)
        seen.add(id)
    assert any(waits_for.values())


def test_ids_are_version_7_and_tell_the_time(lives: dict[tuple[str, str], list[Event]]) -> None:
    for (_, id), (first, *_) in lives.items():
        assert (id[14], id[19] in "89ab") == ("7", True)
        assert int(id[:8] + id[9:13], 16) == first.at


# Everything occurs


def test_every_kind_and_reason_occurs(history: Path) -> None:
    kinds: set[str] = set()
    reasons: dict[str, set[str]] = defaultdict(set)
    for _, _, event in events_of(history):
        kinds.add(event["kind"])
        if "reason" in event:
            reasons[event["kind"]].add(event["reason"])
    assert kinds == {kind.value for kind in EventKind}
    assert reasons == REASONS


def test_the_odd_cases_occur(history: Path) -> None:
    events = [event for _, _, event in events_of(history)]
    of_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        of_kind[event["kind"]].append(event)
    cancelled, enqueued = of_kind["cancelled"], of_kind["enqueued"]
    messages = [event["message"] for event in events if "error_family" in event and "message" in event]
    cases = {
        "cancelled while pending": any("run_ms" not in one for one in cancelled),
        "cancelled while pending, after a retry": any(one["lease_seq"] and "run_ms" not in one for one in cancelled),
        "cancelled while running": any("run_ms" in one and "error_family" not in one for one in cancelled),
        "cancelled with an error": any("error_family" in one for one in cancelled),
        "rescheduled after a retry": any(one["lease_seq"] for one in of_kind["rescheduled"]),
        "rescheduled before any claim": any(not one["lease_seq"] for one in of_kind["rescheduled"]),
        "replay": any("replay_of" in one for one in enqueued),
        "scheduled": any(one["run_at"] > one["at"] for one in enqueued),
        "key": any("key_hash" in one for one in enqueued),
        "labels": any("labels" in one for one in enqueued),
        "group": any("group" in one for one in enqueued) and any("group_limit" in one for one in of_kind["claimed"]),
        "priority": len({one["priority"] for one in enqueued}) > 10,
        "no message": any("error_family" in one and "message" not in one for one in events),
        "newline": any("\n" in one for one in messages),
        "unicode": any(not one.isascii() for one in messages),
        "long message": any(len(one) > 200 for one in messages),
        "run of 0 ms": any(one.get("run_ms") == 0 for one in events),
        "run of a day and a half": any(one.get("run_ms", 0) > 36 * HOUR for one in events),
        "on the hour": any(one["at"] % HOUR == 0 for one in events if "run_ms" in one),
    }
    assert [case for case, occurs in cases.items() if not occurs] == []
    assert (len({one["queue"] for one in enqueued}), len({one["job_type"] for one in enqueued})) == (10, 25)


def test_load_has_days_weeks_and_tenants_of_all_sizes(history: Path) -> None:
    events = [event for _, _, event in events_of(history)]
    tenants = Counter(event["tenant"] for event in events)
    assert len(tenants) == 41  # with the store's own
    largest, most = tenants.most_common(1)[0]
    assert most > 0.15 * len(events)
    moments = [datetime.fromtimestamp(event["at"] / 1_000, UTC) for event in events if event["tenant"] == largest]
    weekdays = Counter(at.weekday() < 5 for at in moments)
    assert weekdays[True] / 10 > 2 * weekdays[False] / 4
    hours = Counter(at.hour for at in moments if at.weekday() < 5)
    assert hours[10] + hours[15] > 3 * (hours[5] + hours[21])


def test_retries_come_in_storms(history: Path) -> None:
    retries = [event for _, _, event in events_of(history) if event["kind"] == "retry_scheduled"]
    failing = Counter((event["job_type"], event["at"] // HOUR) for event in retries)
    assert failing.most_common(1)[0][1] > 15 * len(retries) / len(failing)


# The same again, and more of it


def test_one_seed_is_one_history(tmp_path: Path) -> None:
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        write_history(tmp_path / name, 3_000, until=UNTIL, seed=seed)
    assert chunks(tmp_path / "a") == chunks(tmp_path / "b")
    assert chunks(tmp_path / "a") != chunks(tmp_path / "c")


@pytest.mark.parametrize(("in_a_day", "spread"), [(True, 1), (False, 3)])
def test_a_backlog_comes_on_top_and_stays_open(tmp_path: Path, in_a_day: bool, spread: int) -> None:
    stats = write_history(tmp_path / "a", 5_000, until=UNTIL, days=3, open_jobs=4_000, open_in_a_day=in_a_day)
    assert stats.events == 9_000
    jobs = [job for job in silver(events_of(tmp_path / "a")).jobs.values() if job["job_type"] == "archive.pack"]
    assert Counter(job["state"] for job in jobs) == {"pending": 4_000}
    days = {(job["enqueued_at"] - UNTIL) // DAY for job in jobs}
    assert len(days) == spread


def test_appending_goes_on_and_ends_some_of_what_was_open(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_history(path, 5_000, until=UNTIL, days=5, open_jobs=1_000)
    before, opened = chunks(path), {ref for ref, events in told(path).items() if not ended(events)}
    stats = write_history(path, 2_000, until=UNTIL + 2 * DAY, days=1, append=True)
    after, lives = chunks(path), told(path)
    assert after[: len(before)] == before
    assert [position for position, *_ in after] == list(range(1, len(after) + 1))
    assert before[-1][2] < after[len(before)][2] <= after[-1][2] <= before[-1][2] + DAY + 1
    assert (stats.events, stats.resumed) == (2_000, 100)
    closed = {ref for ref in opened if ended(lives[ref])}
    assert 50 < len(closed) < len(opened)
    for events in lives.values():
        replayed(events)


def test_a_chunk_is_no_longer_than_a_store_would_write_it(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "a")
    feed.append([(UNTIL, 0, number, f"{number}\n") for number in range(450)])
    feed.append([(UNTIL, 0, 450, "450\n"), (UNTIL, 1, 451, "451\n"), (UNTIL + 1, 1, 452, "452\n")])
    feed.close()
    assert [body.count(b"\n") for *_, body in chunks(tmp_path / "a")] == [200, 200, 50, 1, 1, 1]


def test_open_jobs_are_found_as_they_stand(tmp_path: Path) -> None:
    tenant, kind = TENANTS[0], KINDS[0]
    place = {"queue": kind.queue, "job_type": kind.name}
    story: dict[str, list[dict[str, Any]]] = {
        "waits": [{"kind": "enqueued", "run_at": 9, "max_attempts": 4, "priority": 3}],
        "runs": [{"kind": "enqueued", "run_at": 9}, {"kind": "claimed", "worker": "w", "attempt": 1, "lease_seq": 1}],
        "lost": [
            {"kind": "enqueued", "run_at": 9},
            {"kind": "claimed", "worker": "w", "attempt": 1, "lease_seq": 1},
            {"kind": "lease_lost", "attempt": 1, "lease_seq": 1, "run_ms": 1, "run_at": 9},
        ],
        "done": [{"kind": "enqueued", "run_at": 9}, {"kind": "succeeded", "run_ms": 1}],
        "blocked": [{"kind": "enqueued", "run_at": 9, "parents": ["runs"]}],
        "asked": [{"kind": "enqueued", "run_at": 9}, {"kind": "claimed"}, {"kind": "cancel_requested"}],
    }
    feed = Feed(tmp_path / "a")
    for id, events in story.items():
        for version, event in enumerate(events, 1):
            line = {"tenant": tenant, "at": UNTIL + version, "job_id": id, "version": version, **place, **event}
            feed.append([(UNTIL + version, 0, version, json.dumps(line) + "\n")])
    found = {one.job.id: one for one in feed.open_jobs()}
    feed.close()
    assert {id: one.stands for id, one in found.items()} == {"waits": "pending", "runs": "running", "lost": "pending"}
    waits, runs, lost = found["waits"].job, found["runs"], found["lost"].job
    assert (waits.run_at, waits.max_attempts, waits.priority, waits.freed, waits.last) == (9, 4, 3, 0, UNTIL + 1)
    assert (runs.claimed, runs.worker, runs.job.version, runs.job.lease_seq) == (UNTIL + 2, "w", 2, 1)
    assert (lost.freed, lost.last, lost.attempt) == (UNTIL + 3, UNTIL + 3, 1)


def test_any_number_of_events_is_met(tmp_path: Path) -> None:
    for events in (1, 2, 37, 400):
        assert written(tmp_path / f"{events}", events) == events


def written(path: Path, events: int) -> int:
    stats: Stats = write_history(path, events, until=UNTIL, days=0.1)
    assert stats.events == sum(body.count(b"\n") for *_, body in chunks(path))
    return stats.events


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"events": 0}, "at least one event"),
        ({"events": 5, "days": 0}, "some days"),
        ({"events": 5, "append": True}, "does not exist"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        write_history(tmp_path / "a", **arguments)


def test_a_file_is_never_overwritten_nor_its_past_rewritten(tmp_path: Path) -> None:
    write_history(tmp_path / "a", 10, until=UNTIL)
    with pytest.raises(InvalidValue, match="append to it, or remove it"):
        write_history(tmp_path / "a", 10, until=UNTIL)
    with pytest.raises(InvalidValue, match="give a later time"):
        write_history(tmp_path / "a", 10, until=UNTIL - 14 * DAY, append=True)


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    command = [sys.executable, "-m", "bench.history", "--events", "1_000", "--to", str(file), "--until", "2026-03-16"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1,000 events of ")
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (again.returncode, again.stdout) == (1, "")
    assert "append to it" in again.stderr


# The product's own state machine, told the same story


def ended(events: list[Event]) -> bool:
    return any(event.kind.value in {state.value for state in TERMINAL} for event in events)


def replayed(events: list[Event]) -> None:
    """Takes a job through the transition table by the commands its events name: each must tell the same event."""
    job = enqueued(events)
    assert apply(Command.ENQUEUE, job, None, events[0].at).event == replace(events[0], key_hash=None)
    for event in events[1:]:
        command, argument = cause(job, event)
        step = apply(command, job, argument, event.at)
        assert step.event == event
        job = step.job


def enqueued(events: list[Event]) -> Job:
    first = events[0]
    then = events[1] if len(events) > 1 else None
    assert first.run_at is not None
    spec = Spec(
        first.tenant,
        first.job_id or "",
        1,
        first.queue or "",
        first.job_type or "",
        "json",
        b"",
        first.payload_size or 0,
        first.at,
        first.max_attempts or 0,
        RetryPolicy(),
        HOUR,
        HOUR,
        group=first.group,
        labels=first.labels or {},
        parents=tuple(Parent(id) for id in first.parents or ()),
        replay_of=first.replay_of,
    )
    blocked = first.parents and (then is None or then.kind is EventKind.UNBLOCKED or then.reason == "parent_failed")
    return Job(spec, State.BLOCKED if blocked else State.PENDING, 1, first.priority or 0, first.run_at, first.at)


def cause(job: Job, event: Event) -> tuple[Command, Any]:
    """The command, with its argument, that tells such an event."""
    failure = Failure(event.error_family, event.message or "") if event.error_family else Failure("none")
    delay = (event.run_at or 0) - event.at
    match event.kind:
        case EventKind.CLAIMED:
            assert event.at >= job.run_at
            lease = Lease(event.worker or "", event.at, event.at + 60_000, 60_000, 5_000)
            return Command.CLAIM, Take(b"", lease, event.group_holders, event.group_limit)
        case EventKind.SUCCEEDED:
            return Command.SUCCEED, Succeed(None if event.result_size is None else b"x" * event.result_size)
        case EventKind.RETRY_SCHEDULED:
            return Command.RETRY, Retry(failure, delay, event.reason or "")
        case EventKind.RELEASED:
            delayed = event.reason in ("snooze", "unknown_type")
            return Command.RELEASE, Release(delay if delayed else 0, event.reason or "")
        case EventKind.LEASE_LOST:
            return lost(job, event)
        case EventKind.FAILED | EventKind.CANCELLED:
            return end(job, event, failure)
        case EventKind.PROGRESS:
            assert event.progress is not None
            return Command.RENEW, Progress(event.progress, event.message or "")
        case _:
            return commanded(event)


def commanded(event: Event) -> tuple[Command, Any]:
    return {
        EventKind.UNBLOCKED: (Command.UNBLOCK, None),
        EventKind.CANCEL_REQUESTED: (Command.REQUEST_CANCEL, None),
        EventKind.RESCHEDULED: (Command.RESCHEDULE, event.run_at),
        EventKind.REPRIORITISED: (Command.REPRIORITISE, event.priority),
        EventKind.REPLAYED: (Command.REPLAY, event.new_id),
        EventKind.DISCARDED: (Command.DISCARD, None),
    }[event.kind]


def end(job: Job, event: Event, failure: Failure) -> tuple[Command, Any]:
    match event.reason:
        case "parent_failed":
            failed = event.kind is EventKind.FAILED
            return Command.PARENT_FAILED, OnParentFailure.FAIL if failed else OnParentFailure.CANCEL
        case "expired":
            assert job.lease_seq == 0
            return Command.EXPIRE, None
        case "lease_lost":
            return lost(job, event)
        case "exhausted":
            return Command.RETRY, Retry(failure)
        case "unknown_type":
            return Command.RELEASE, Release(30_000, "unknown_type")
        case "cancelled":
            return next(cancels(job, event, failure))
        case _:
            return Command.FAIL, Fail(failure, event.reason or "")


def cancels(job: Job, event: Event, failure: Failure) -> Iterator[tuple[Command, Any]]:
    if event.error_family is not None:
        yield Command.RETRY, Retry(failure)
    if event.attempt != job.attempt:
        yield Command.RELEASE, Release()
    yield Command.CANCEL, None


def lost(job: Job, event: Event) -> tuple[Command, Any]:
    assert job.lease is not None
    assert job.lease.expired(event.at)
    return Command.LOSE, None
