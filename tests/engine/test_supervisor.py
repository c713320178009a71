"""Workers as users run them: a supervisor and its children, real processes, really killed."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tenure import Definition, JobFailed, Tenure
from tenure.domain.errors import StoreUnavailable
from tenure.domain.job import Progress, Token
from tenure.domain.states import State
from tenure.engine.worker.supervisor.child import ChildOptions, cores, work
from tenure.engine.worker.supervisor.supervisor import Child, Held, Supervisor
from tenure.engine.worker.supervisor.wire import Deadlines, Terms, Took
from tenure.stores.memory import MemoryStore
from tests.engine import supervised_app as jobs
from tests.engine.kit import claim
from tests.processes import children_of

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
TARGET = "tests.engine.supervised_app:app"
PYTHONPATH = os.pathsep.join([str(ROOT), str(ROOT / "src")])

MAIN = """
import asyncio, sys
from tenure.engine.worker.supervisor.child import ChildOptions
from tenure.engine.worker.supervisor.supervisor import Supervisor

async def main():
    options = ChildOptions(target=sys.argv[1], name=sys.argv[2], slots=800, concurrency=200, shutdown_grace=0.3,
                           queues={"default": None, "lanes": None}, lease=3, log_level="error")
    return await Supervisor(options, int(sys.argv[3])).run()

sys.exit(asyncio.run(main()))
"""


@contextmanager
def worker(
    folder: Path,
    name: str = "w",
    processes: int = 1,
    target: str = TARGET,
    cancel_grace: float = 0.5,
    main: str = MAIN,
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of its own; killed at the end if it is still there."""
    environment = {
        **os.environ,
        "TENURE_URL": f"sqlite:///{folder}/jobs.db",
        "TENURE_CANCEL_GRACE": str(cancel_grace),
        "TENURE_SHUTDOWN_GRACE": "0.3",
        "TENURE_POLL": "0.05",
        "TENURE_POLL_AT_MOST": "0.2",
        "PYTHONPATH": PYTHONPATH,
    }
    command = [sys.executable, "-c", main, target, name, str(processes)]
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        for pid in (*children_of(process.pid), process.pid):
            _kill(pid)
        process.communicate()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def gone(pid: int) -> bool:
    """Waits for a process that isn't ours to end."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], PATIENCE)[0])
    finally:
        os.close(watched)


@asynccontextmanager
async def client(folder: Path) -> AsyncIterator[Tenure]:
    """The app of this process, on the same file."""
    app = Tenure(f"sqlite:///{folder}/jobs.db")
    for definition in jobs.app.definitions.values():
        app._add(definition)
    async with app:
        yield app


async def claimed(app: Tenure, count: int = 1) -> list[str]:
    """Waits until so many claims were seen; the workers that made them."""
    workers = []
    async with asyncio.timeout(PATIENCE):
        async for event in app.fleet.events():
            if event.kind == "claimed" and event.worker is not None:
                workers.append(event.worker)
            if len(workers) == count:
                break
    return workers


@pytest.mark.parametrize("job", [jobs.blocks, jobs.holds_the_gil], ids=lambda job: job.name)
def test_what_blocks_a_process_doesnt_cost_the_lease(tmp_path: Path, job: Definition[[float], str]) -> None:
    async def main() -> None:
        async with client(tmp_path) as app:
            handle = await app.enqueue(job.build(7.0))
            with worker(tmp_path, "a"), worker(tmp_path, "b"):
                assert await handle.result(PATIENCE) == "done"
            story = await handle.get()
            assert [lease.outcome for lease in story.history] == ["succeeded"]

    asyncio.run(main())


def test_a_hung_handler_costs_its_process_and_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with client(tmp_path) as app:
            other = await app.enqueue(jobs.waits.build(str(tmp_path)))
            with worker(tmp_path):
                await claimed(app)
                hung = await app.enqueue(jobs.hangs.build())
                with pytest.raises(JobFailed, match="Timeout"):
                    await hung.result(PATIENCE)
                await claimed(app, 3)
                (tmp_path / "go").touch()
                assert await other.result(PATIENCE) == "attempt 1"
            story = await other.get()
            assert [(lease.outcome, lease.reason) for lease in story.history] == [
                ("released", "restart"),
                ("succeeded", "ok"),
            ]

    asyncio.run(main())


def test_a_process_that_dies_retries_its_jobs_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with client(tmp_path) as app:
            with worker(tmp_path):
                handle = await app.enqueue(jobs.dies.build(1))
                assert await handle.result(PATIENCE) == "alive at 2"
            story = await handle.get()
            assert story.history[0].reason == "crashed"
            assert "SIGKILL" in (story.history[0].error.message if story.history[0].error else "")

    asyncio.run(main())


def test_dying_on_the_last_attempt_leaves_a_dead_letter_and_the_queue_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with client(tmp_path) as app:
            with worker(tmp_path):
                poison = await app.enqueue(jobs.dies.options(max_attempts=2).build(9))
                after = await app.enqueue(jobs.quick.build(1))
                with pytest.raises(JobFailed, match="Crashed"):
                    await poison.result(PATIENCE)
                assert await after.result(PATIENCE) == 2
            story = await poison.get()
            assert (story.state, story.attempt, story.dead_letter) == (State.FAILED, 2, "open")

    asyncio.run(main())


def test_a_worker_that_slept_through_its_lease_settles_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with client(tmp_path) as app:
            await app.queue("lanes").configure(mode="keyed", group_limit=1)
            handle = await app.enqueue(jobs.in_a_lane.options(group="g").build(str(tmp_path)))
            with worker(tmp_path, "sleeper", cancel_grace=60) as sleeper:
                await _seen(tmp_path / "started")
                everyone = [sleeper.pid, *children_of(sleeper.pid)]
                for pid in everyone:
                    os.kill(pid, signal.SIGSTOP)
                with worker(tmp_path, "other"):
                    assert await handle.result(PATIENCE) == "second"
                    for pid in everyone:
                        os.kill(pid, signal.SIGCONT)
                    await _seen(tmp_path / "cancelled-lease_lost")
                    after = await app.enqueue(jobs.in_a_lane.options(group="g").build(str(tmp_path)))
                    assert await _holders(app, after.id) == 1
                    await after.cancel()
            story = await handle.get()
            assert [(lease.outcome, lease.worker.split(".")[0]) for lease in story.history] == [
                ("lease_lost", "sleeper"),
                ("succeeded", "other"),
            ]
            ends = [event.kind async for event in app.events(follow=False) if event.job_id == handle.id]
            assert ends == ["enqueued", "claimed", "lease_lost", "claimed", "succeeded"]

    asyncio.run(main())


async def _holders(app: Tenure, id: str) -> int | None:
    """How many of its group ran when the job was claimed, itself among them."""
    async with asyncio.timeout(PATIENCE):
        async for event in app.events():
            if event.kind == "claimed" and event.job_id == id:
                return event.group_holders
    return None


async def _seen(path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while not path.exists():
            await asyncio.sleep(0.02)


def test_a_child_without_its_supervisor_ends(tmp_path: Path) -> None:
    async def main() -> None:
        async with client(tmp_path) as app:
            handle = await app.enqueue(jobs.waits.build(str(tmp_path)))
            with worker(tmp_path) as supervisor:
                await claimed(app)
                (child,) = children_of(supervisor.pid)
                supervisor.kill()
                supervisor.wait()
                assert await asyncio.to_thread(gone, child)
            story = await handle.get()
            assert (story.state, story.attempt, story.history[0].reason) == (State.PENDING, 0, "shutdown")

    asyncio.run(main())


def test_a_worker_told_to_stop_gives_everything_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with client(tmp_path) as app:
            handles = await app.enqueue_many([jobs.waits.build(str(tmp_path)) for _ in range(100)])
            with worker(tmp_path) as supervisor:
                await claimed(app, 100)
                supervisor.terminate()
                assert await asyncio.to_thread(supervisor.wait, PATIENCE) == 0
            stories = [await handle.get() for handle in handles]
            assert {(story.state, story.attempt) for story in stories} == {(State.PENDING, 0)}
            assert {story.history[0].reason for story in stories} == {"shutdown"}

    asyncio.run(main())


def test_progress_and_cancel_cross_the_processes(tmp_path: Path) -> None:
    async def main() -> None:
        async with client(tmp_path) as app:
            with worker(tmp_path):
                telling = await app.enqueue(jobs.tells.build(str(tmp_path)))
                async with asyncio.timeout(PATIENCE):
                    async for event in app.events():
                        if event.kind == "progress":
                            assert (event.progress, event.message) == (0.25, "a quarter")
                            break
                held = await app.enqueue(jobs.waits.options(lease=0.5).build(str(tmp_path)))
                await claimed(app, 2)
                assert (await held.cancel()).was_running
                await _seen(tmp_path / "cancelled-1")
                (tmp_path / "go").touch()
                assert await telling.result(PATIENCE) == "told"

    asyncio.run(main())


def test_a_plain_handler_reports_from_its_thread(tmp_path: Path) -> None:
    async def main() -> None:
        async with client(tmp_path) as app:
            with worker(tmp_path):
                handle = await app.enqueue(jobs.tells_plainly.build())
                assert await handle.result(PATIENCE) == "told"

    asyncio.run(main())


ELSEWHERE = """
import os
from tenure import Tenure

app = Tenure()

@app.job
async def seen() -> str | None:
    return os.environ.get("PYTHONPATH")
"""


def test_children_import_from_where_their_supervisor_does(tmp_path: Path) -> None:
    """As under a management command: only the program itself knows the folder. What handlers start doesn't."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "supervised_elsewhere.py").write_text(ELSEWHERE)
    main = f"import sys\nsys.path.insert(0, {str(tmp_path / 'code')!r})\n{MAIN}"

    async def run() -> None:
        async with client(tmp_path) as app:
            with worker(tmp_path, target="supervised_elsewhere:app", main=main):
                assert await (await app.send("seen")).result(PATIENCE) == PYTHONPATH

    asyncio.run(run())


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("no_such_module:app", "no module 'no_such_module'"),
        ("tests.engine.supervised_app:other", "has no 'other': it has app"),
        ("tests.engine.supervised_app:NOW", "not a Tenure"),
    ],
)
def test_a_worker_that_can_never_start_says_why_and_ends(tmp_path: Path, target: str, says: str) -> None:
    with worker(tmp_path, target=target) as supervisor:
        _, error = supervisor.communicate(timeout=PATIENCE)
        assert supervisor.returncode == 64
        assert says in error.decode()


def test_a_thread_that_never_returns_keeps_no_worker_from_ending(tmp_path: Path) -> None:
    """With the process it is really gone: its job is given back, the attempt refunded."""

    async def main() -> None:
        async with client(tmp_path) as app:
            stuck = await app.enqueue(jobs.never_returns.build())
            with worker(tmp_path) as process:
                await claimed(app)
                process.terminate()
                assert await asyncio.to_thread(process.wait, PATIENCE) == 0
            job = await stuck.get()
            assert (job.state, job.attempt, job.history[-1].reason) == (State.PENDING, 0, "shutdown")

    asyncio.run(main())


def test_a_process_that_died_is_missed_whatever_it_left_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async with client(tmp_path) as app:
            handle = await app.enqueue(jobs.dies_and_leaves.build(str(tmp_path)))
            with worker(tmp_path):
                try:
                    assert await handle.result(PATIENCE) == "alive at 2"
                finally:
                    _kill(int((tmp_path / "left").read_text(encoding="ascii")))

    asyncio.run(main())


def test_a_store_that_is_away_when_a_process_starts_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    with worker(folder) as process:
        assert process.stderr is not None
        while b"tenure: " not in process.stderr.readline():
            assert process.poll() is None
        folder.mkdir()

        async def main() -> None:
            async with client(folder) as app:
                handle = await app.enqueue(jobs.quick.build(1))
                assert await handle.result(PATIENCE) == 2

        asyncio.run(main())


# The supervisor alone


class Counted:
    """A process that counts how often it is told to stop."""

    def __init__(self) -> None:
        self.told: list[signal.Signals] = []

    def send_signal(self, number: signal.Signals) -> None:
        self.told.append(number)


@pytest.fixture
def child() -> Iterator[Child]:
    line, other = socket.socketpair()
    memory = Deadlines.create(8)
    with line, other:
        yield Child(cast(Any, Counted()), line, Deadlines(memory, 8))
    os.close(memory)


def test_one_signal_is_passed_on_once(child: Child) -> None:
    """Told twice, a process stops without its grace."""

    async def main() -> None:
        supervisor = Supervisor(ChildOptions(target=TARGET, name="w", slots=8))
        supervisor._children.add(child)
        watching = asyncio.create_task(supervisor._kill_if_it_hangs(child))
        await asyncio.sleep(0)
        supervisor.stop()
        for _ in range(3):
            await asyncio.sleep(0)
        watching.cancel()
        assert cast(Any, child.process).told == [signal.SIGTERM]

    asyncio.run(main())


@pytest.mark.parametrize(("error", "kept"), [(StoreUnavailable("away"), True), (ValueError("what is this?"), False)])
def test_a_renewal_that_breaks_costs_no_other(child: Child, error: Exception, kept: bool) -> None:
    """What it was to carry goes with the next one, unless it may be what broke it."""

    class Broken:
        async def renew(self, renewals: object) -> None:
            raise error

    async def main() -> None:
        supervisor = Supervisor(ChildOptions(target=TARGET, name="w", slots=8))
        token = Token("acme", "01900000-0000-7000-8000-000000000001", 1, b"s")
        terms = Terms(token.tenant, token.lease_seq, token.secret, "work", "default", 60, 0, 1e9, 1_000, 1, jobs.NOW)
        held = Held(terms, 0, 1, token.job_id)
        held.progress = said = Progress(0.5, "half")
        await supervisor._renew(cast(Any, Broken()), [(child, held)])
        assert held.progress is (said if kept else None)
        assert held.renew_at > 0

    asyncio.run(main())


def test_what_a_dead_process_leaves_is_logged(child: Child, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[str]:
        app = Tenure(store=MemoryStore())
        ids = [(await app.tenant("acme").send("work", max_attempts=most)).id for most in (1, 2)]
        for number, job in enumerate(await claim(app, n=2), start=1):
            token = job.token
            terms = Terms(token.tenant, token.lease_seq, token.secret, "work", "default", 60, 0, 1e9, 9, 1, jobs.NOW)
            child._took.append(Took(terms, number, [number], [token.job_id]))
        cast(Any, child.process).returncode = -signal.SIGKILL
        supervisor = Supervisor(ChildOptions(target=TARGET, name="w", slots=8))
        supervisor._store = await app.opened()
        await supervisor._see_to(child)
        return ids

    failed, again = asyncio.run(main())
    said = [record for record in caplog.records if record.name == "tenure.worker"]
    assert [(record.levelname, record.job, record.reason) for record in cast(list[Any], said)] == [
        ("ERROR", failed, "exhausted"),
        ("WARNING", again, "crashed"),
    ]
    what = "Crashed: the worker process ended while the job ran (killed by SIGKILL)"
    assert said[0].getMessage() == f"job {failed} (work of acme) failed in attempt 1 (exhausted): {what}"


def test_a_process_knows_how_many_there_are_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[Any, ...]] = []

    async def start(*command: Any, **_: Any) -> Counted:
        started.append(command)
        return Counted()

    async def main() -> None:
        supervisor = Supervisor(ChildOptions(target=TARGET, name="w", slots=8), 3)
        monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
        begun = await supervisor._start("w.1")
        begun.line.close()
        begun.deadlines.close()

    asyncio.run(main())
    ((*_, options),) = started
    assert msgspec.json.decode(options, type=ChildOptions).processes == 3


@pytest.mark.parametrize(("more", "crowded"), [(0, False), (1, True)])
def test_it_is_crowded_where_they_outnumber_the_cores(
    monkeypatch: pytest.MonkeyPatch, more: int, crowded: bool
) -> None:
    told: list[bool] = []

    class Told:
        name = "w"

        def kept_by(self, leases: object, *, crowded: bool) -> None:
            told.append(crowded)

        async def run(self) -> None: ...

    async def main() -> None:
        app = Tenure("memory://")
        monkeypatch.setattr(app, "worker", lambda *_, **__: Told())
        ours, theirs = socket.socketpair()
        memory = Deadlines.create(8)
        options = ChildOptions(target=TARGET, name="w", slots=8, processes=cores() + more)
        with ours, theirs:
            await work(app, options, theirs, Deadlines(memory, 8))
        os.close(memory)

    asyncio.run(main())
    assert told == [crowded]
