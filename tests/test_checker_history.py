"""The history format: entries on disk, torn lines, merging, and the store that records."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tenure.domain.calls import Cancel, Claim, Claimed, Document, Enqueued, Reading, Settle, Succeed
from tenure.domain.errors import Refused, StoreUnavailable
from tenure.domain.job import NewJob
from tenure.domain.store import Store
from tenure.stores.memory import MemoryStore
from tenure.testing.checker import Checker
from tenure.testing.clock import ManualClock
from tenure.testing.history import Entry, JsonLines, RecordingStore, merge_histories, read_history

ID = "00000000-0000-7000-8000-000000000001"
JOB = NewJob(tenant="a", id=ID, queue="q", job_type="t", payload=b"very secret")


def entry(call: int, at: int, process: str = "p") -> Entry:
    return Entry(call=call, process=process, at=at, phase="ok", verb="clock")


def test_entries_survive_the_file(tmp_path: Path) -> None:
    sink = JsonLines(tmp_path / "h")
    sink(entry(1, 10))
    sink(entry(2, 11))
    sink.close()

    assert list(read_history(tmp_path / "h")) == [entry(1, 10), entry(2, 11)]


def test_a_line_torn_by_a_kill_is_left_out_and_the_next_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "h"
    sink = JsonLines(path)
    sink(entry(1, 10))
    sink(entry(2, 11))
    sink.close()
    path.write_bytes(path.read_bytes()[:-9])

    sink = JsonLines(path)
    sink(entry(3, 12))
    sink.close()

    assert list(read_history(path)) == [entry(1, 10), entry(3, 12)]


def test_histories_merge_by_time(tmp_path: Path) -> None:
    for name, times in (("x", (1, 4)), ("y", (2, 3))):
        sink = JsonLines(tmp_path / name)
        for at in times:
            sink(entry(at, at, name))
        sink.close()

    assert [line.at for line in merge_histories([tmp_path / "x", tmp_path / "y"])] == [1, 2, 3, 4]


async def life(store: Store) -> None:
    """One job from enqueue to success, with a refusal and a document."""
    await store.put_document(Document(tenant="*", kind="queue", name="q", body=b'{"limit":5}'))
    await store.enqueue([JOB])
    claimed = await store.claim(Claim(claim_id=b"s" * 16, worker="w", queues=(("q", None),), n=1))
    assert isinstance(claimed, Claimed)
    await store.settle([Settle(claimed.jobs[0].token, Succeed(result=b"a secret result"))])
    await store.command([Cancel(tenant="a", id=ID)])
    await store.get([("a", ID)], Reading(explain=True))
    await store.events()


def test_what_is_recorded_can_be_checked_in_both_modes(tmp_path: Path) -> None:
    clock = ManualClock()
    sink = JsonLines(tmp_path / "h")
    store: Store = RecordingStore(MemoryStore(clock=clock), sink, "p", clock)
    asyncio.run(life(store))
    sink.close()

    for sequential in (True, False):
        checker = Checker(sequential=sequential)
        for line in read_history(tmp_path / "h"):
            checker.feed(line)
        summary = checker.finish()
        assert (summary.acknowledged, summary.succeeded, summary.live) == (1, 1, 0)


def test_no_secret_is_recorded(tmp_path: Path) -> None:
    clock = ManualClock()
    sink = JsonLines(tmp_path / "h")
    asyncio.run(life(RecordingStore(MemoryStore(clock=clock), sink, "p", clock)))
    sink.close()

    text = (tmp_path / "h").read_text()
    assert "secret" in text  # the field
    assert "very secret" not in text
    assert "secret result" not in text
    assert "ssss" not in text


def test_the_checker_knows_nothing_of_the_domain() -> None:
    """It is the only proof of the model, so nothing of it may come from there, not even through another module."""
    script = "import sys, tenure.testing.checker; sys.exit('tenure.domain' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_an_exception_is_an_unknown_outcome() -> None:
    class Broken(MemoryStore):
        async def enqueue(
            self, jobs: Sequence[NewJob], *, atomic: bool = False, patient: bool = True
        ) -> list[Enqueued | Refused]:
            raise StoreUnavailable("gone")

    entries: list[Entry] = []
    clock = ManualClock()
    store = RecordingStore(Broken(clock=clock), entries.append, "p", clock)
    with pytest.raises(StoreUnavailable):
        asyncio.run(store.enqueue([JOB]))

    assert [line.phase for line in entries] == ["invoke", "unknown"]
    assert entries[1].body == {"error": "StoreUnavailable"}
    assert entries[0].call == entries[1].call


def test_a_refusal_of_a_whole_call_is_recorded_as_one() -> None:
    entries: list[Entry] = []
    clock = ManualClock()
    store = RecordingStore(MemoryStore(clock=clock), entries.append, "p", clock)
    asyncio.run(store.thaw())

    assert (entries[1].phase, entries[1].body) == ("refused", {"refused": "NotFrozen", "args": []})
