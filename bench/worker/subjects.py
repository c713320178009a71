"""What is measured: how jobs are sent to it, and the command that runs its worker."""

import importlib
import os
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from bench.worker.board import ENVIRONMENT, Board
from tenure.domain.states import EventKind

SEND_AT_ONCE = 1_000


class Subject(ABC):
    """A queue in a folder of its own. Jobs are sent by this process, and run by the worker's."""

    name: ClassVar[str]
    drains: ClassVar[int]
    """How many jobs a run of full size drains: a few seconds' worth."""

    def __init__(self, folder: Path) -> None:
        self.board = Board(folder / "board")
        os.environ.update({ENVIRONMENT: str(folder / "board"), **self.place(folder)})

    @abstractmethod
    def place(self, folder: Path) -> dict[str, str]:
        """The environment that says where the queue is."""

    @abstractmethod
    def command(self) -> list[str]:
        """How the worker is started."""

    @abstractmethod
    def send(self, jobs: int) -> None:
        """Enqueues no-op jobs, in the fastest way it has."""

    @abstractmethod
    def send_one(self, sent: int) -> None:
        """Enqueues one job with the time it was sent, and returns when it is in."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of the queue."""

    def drained(self, jobs: int) -> float | None:
        """Seconds that all took, once they have ended; None before."""
        return self.board.seconds if self.board.ran >= jobs else None


class TenureWorker(Subject):
    """Tenure on SQLite at FULL: `tenure worker`, a supervisor and one child, everything on."""

    name = "tenure, 1 process"
    drains = 40_000
    processes = 1

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._jobs = _imported("bench.worker.tenure_jobs")
        self._app = self._jobs.app

    def place(self, folder: Path) -> dict[str, str]:
        return {"TENURE_URL": f"sqlite:///{folder / 'jobs.db'}"}

    def command(self) -> list[str]:
        worker = [sys.executable, "-m", "tenure", "worker", "bench.worker.tenure_jobs:app", "--log-level", "error"]
        return [*worker, "--concurrency", "500", "--processes", str(self.processes)]

    def send(self, jobs: int) -> None:
        build = self._jobs.noop.build
        for start in range(0, jobs, SEND_AT_ONCE):
            self._app.sync.enqueue_many([build(0) for _ in range(min(SEND_AT_ONCE, jobs - start))])

    def send_one(self, sent: int) -> None:
        self._jobs.noop.sync.enqueue(sent)

    def close(self) -> None:
        self._app.sync.close()

    def drained(self, jobs: int) -> float | None:
        """From the first claim to the end of the last job, by the store's own history."""
        if self.board.ran < jobs or any(True for _ in self._app.sync.jobs(state="running", limit=1)):
            return None
        counted = (EventKind.CLAIMED, EventKind.SUCCEEDED)
        times: list[int] = [event.at for event in self._app.sync.events() if event.kind in counted]
        if len(times) != 2 * jobs:
            raise AssertionError(f"{len(times)} claims and ends for {jobs} jobs: not each ran once")
        return (max(times) - min(times)) / 1_000


class TenureTwo(TenureWorker):
    """The same with two children, one for each core."""

    name = "tenure, 2 processes"
    processes = 2


class HueyWorker(Subject):
    """Huey on SQLite. Its dequeue is a delete: a job whose worker dies is gone.

    `kind` and `workers` are the best found for each (threads 1, 2, 4 and processes 1, 2 were tried); it polls, every
    100 ms unless told otherwise.
    """

    fsync: ClassVar[bool]
    kind = "thread"
    workers = 1
    poll = 0.01

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._jobs = _imported("bench.worker.huey_jobs")

    def place(self, folder: Path) -> dict[str, str]:
        return {"BENCH_HUEY": str(folder / "huey.db"), "BENCH_HUEY_FSYNC": str(int(self.fsync))}

    def command(self) -> list[str]:
        consumer = [str(Path(sys.executable).with_name("huey_consumer")), "bench.worker.huey_jobs.huey", "--quiet"]
        workers = ["--worker-type", self.kind, "--workers", str(self.workers)]
        return [*consumer, *workers, "--delay", str(self.poll), "--max-delay", str(self.poll), "--no-periodic"]

    def send(self, jobs: int) -> None:
        for _ in range(jobs):
            self._jobs.noop(0)

    def send_one(self, sent: int) -> None:
        self._jobs.noop(sent)

    def close(self) -> None:
        self._jobs.huey.storage.close()


class HueyFsync(HueyWorker):
    """At the same durability."""

    name = "huey, fsync"
    drains = 8_000
    fsync = True
    kind = "process"


class HueyUnsafe(HueyWorker):
    """With `fsync=False`: what was enqueued may be gone after a power cut."""

    name = "huey, synchronous=OFF"
    drains = 16_000
    fsync = False


def _imported(name: str) -> Any:
    """A module anew: its app and board are those of the environment of now."""
    sys.modules.pop(name, None)
    return importlib.import_module(name)
