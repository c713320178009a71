"""The same from code without an event loop: from threads, from forked children, and never on a running loop."""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tenure import Fail, InvalidValue, JobFailed, JobNotFound, Tenure
from tenure.domain.errors import NotReady
from tenure.engine.sync import PORTAL


@pytest.fixture
def work(app: Tenure) -> Any:
    @app.job
    async def work(n: int = 0) -> int:
        if n < 0:
            raise Fail("negative")
        return n

    return work


@pytest.fixture
def worker(app: Tenure, work: Any) -> Iterator[None]:
    """A worker on a loop of its own, in another thread."""
    stopping, ready = threading.Event(), threading.Event()

    async def main() -> None:
        async with app.worker():
            ready.set()
            await asyncio.to_thread(stopping.wait)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait(10)
    yield
    stopping.set()
    thread.join()


def test_an_iterator_is_read_in_the_callers_thread(app: Tenure, work: Any) -> None:
    """What it reads may be that thread's, as a database connection is."""
    threads = set()

    def calls() -> Iterator[Any]:
        for n in range(1_500):
            threads.add(threading.get_ident())
            yield work.build(n)

    assert len(app.sync.enqueue_many(calls())) == 1_500
    assert threads == {threading.get_ident()}


def test_everything_once(app: Tenure, work: Any, worker: None) -> None:
    sync = app.sync
    assert work.sync.call(7) == 7
    assert work.sync.options(key="k").call(7) == 7
    handle = sync.enqueue(work.build(8))
    assert (handle.created, handle.tenant, handle.result(5)) == (True, "default", 8)
    assert [one.result(5) for one in sync.enqueue_many([work.build(n) for n in range(3)])] == [0, 1, 2]
    assert sync.send("work", {"n": 9}).result(5) == 9
    assert sync.get(handle.id).payload == sync.handle(handle.id).get(explain=True).payload == {"n": 8}
    assert [job and job.id for job in sync.get_many([handle.id])] == [handle.id]
    assert [job.payload["n"] for job in sync.jobs(limit=2)] == [9, 2]

    late = work.sync.options(delay=60).enqueue(1)
    sync.reschedule(late.id, delay=120)
    sync.reprioritise(late.id, 5)
    assert late.get().priority == 5
    assert late.cancel().cancelled
    assert not sync.cancel(late.id)
    work.sync.options(delay=60, queue="slow").enqueue(1)
    assert sync.cancel(queue="slow") == 1

    dead = work.sync.enqueue(-1)
    with pytest.raises(JobFailed, match="negative"):
        dead.result(5)
    assert sync.replay(dead.id, payload={"n": 4}).result(5) == 4
    other = work.sync.enqueue(-2)
    with pytest.raises(JobFailed):
        other.result(5)
    sync.discard(other.id)

    acme = sync.tenant("acme")
    acme.configure(weight=2)
    acme.pause()
    acme.resume()
    assert acme.config().weight == 2
    assert acme.enqueue(work.build(5)).result(5) == 5
    assert [job.tenant for job in acme.jobs()] == ["acme"]
    assert {job.tenant for job in sync.fleet.jobs(state="succeeded")} == {"acme", "default"}
    assert {event.tenant for event in sync.fleet.events()} >= {"acme", "default"}
    assert [*sync.fleet.events(after="latest")] == []
    assert sync.fleet.sweep().turn
    assert sync.fleet.purge() is None

    sync.queue("slow").configure(limit=3)
    sync.queue("slow").pause()
    sync.queue("slow").resume()
    assert sync.queue("slow").config().limit == 3
    assert sync.execute_now(work.build(3)) == 3
    sync.close()


def test_events_are_walked_and_gone_on_with(app: Tenure, work: Any) -> None:
    handles = [work.sync.enqueue(n) for n in range(4)]
    feed = app.sync.events()
    first = [event.job_id for event in islice(feed, 2)]
    rest = [event.job_id for event in app.sync.events(after=feed.cursor)]
    assert first + rest == [handle.id for handle in handles]


def test_errors_come_out_as_they_are(app: Tenure, work: Any) -> None:
    with pytest.raises(InvalidValue, match="Expected `int`"):
        work.sync.enqueue("7")
    with pytest.raises(JobNotFound):
        app.sync.get("01900000-0000-7000-8000-000000000001")


async def test_on_a_running_loop_it_is_an_error_that_says_what_to_do(app: Tenure, work: Any) -> None:
    for ask in (work.sync.enqueue, lambda: app.sync.get("x"), lambda: list(app.sync.jobs()), app.sync.close):
        with pytest.raises(NotReady, match=r"await the same without .sync"):
            ask()
    assert await app.jobs() == []


class Interrupted(Future[None]):
    """Ctrl-C comes while somebody waits for it."""

    def result(self, timeout: float | None = None) -> None:
        raise KeyboardInterrupt


def test_what_is_interrupted_doesnt_go_on() -> None:
    running = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        PORTAL._result(running)
    assert running.cancelled()


def test_many_threads_share_it(app: Tenure, work: Any) -> None:
    with ThreadPoolExecutor(16) as threads:
        handles = list(threads.map(lambda n: work.sync.enqueue(n), range(200)))
    assert len({handle.id for handle in handles}) == 200
    assert sorted(job.payload["n"] for job in app.sync.jobs()) == list(range(200))


async def test_a_plain_handler_enqueues_by_it(app: Tenure, work: Any) -> None:
    @app.job
    def parent(n: int) -> int:
        return work.sync.call(n) + 1  # type: ignore[no-any-return]  # the fixture is untyped

    async with app.worker():
        assert await parent.call(7) == 8


# Forks


def in_child(task: Callable[[], object], timeout: int = 10) -> int:
    """Runs in a forked copy of this process; its exit code, 0 when it went well."""
    child = os.fork()
    if child == 0:
        signal.alarm(timeout)
        code = 1
        try:
            task()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def shared(tmp_path: Path) -> Any:
    app = Tenure(f"sqlite:///{tmp_path}/jobs.db")

    @app.job
    async def work(n: int) -> int:
        return n

    yield app
    app.sync.close()


def numbers(app: Tenure) -> list[int]:
    return sorted(job.payload["n"] for job in app.sync.jobs())


def test_a_forked_child_goes_on_by_itself(shared: Tenure) -> None:
    """As under gunicorn: the parent has used it, and uses it on."""

    def send(*given: int) -> None:
        for n in given:
            shared.sync.send("work", {"n": n})

    send(0)
    assert in_child(lambda: send(10, 11, 12)) == 0
    send(1)
    assert in_child(lambda: send(20, 21)) == 0
    send(2)
    assert numbers(shared) == [0, 1, 2, 10, 11, 12, 20, 21]


def test_a_child_of_multiprocessing_too(shared: Tenure) -> None:
    shared.sync.send("work", {"n": 0})
    process = multiprocessing.get_context("fork").Process(target=lambda: shared.sync.send("work", {"n": 1}))
    process.start()
    process.join(10)
    assert process.exitcode == 0
    assert numbers(shared) == [0, 1]


def test_a_child_isnt_stopped_by_what_another_thread_held(shared: Tenure) -> None:
    shared.sync.send("work", {"n": 0})
    with PORTAL._lock:
        assert in_child(lambda: shared.sync.send("work", {"n": 1})) == 0
    assert numbers(shared) == [0, 1]


def test_a_child_leaves_the_parents_loop_alone(shared: Tenure) -> None:
    """A loop that is collected in a child would unregister the parent's own wake-up."""

    def collects() -> None:
        import gc

        shared.sync.send("work", {"n": 1})
        gc.collect()

    shared.sync.send("work", {"n": 0})
    assert in_child(collects) == 0
    shared.sync.send("work", {"n": 2})
    assert numbers(shared) == [0, 1, 2]


def test_a_process_that_only_forks_its_workers_too(shared: Tenure) -> None:
    """The parent has touched nothing yet."""
    assert in_child(lambda: shared.sync.send("work", {"n": 1})) == 0
    assert in_child(lambda: asyncio.run(shared.send("work", {"n": 2}))) == 0
    assert numbers(shared) == [1, 2]
