"""What is measured: how each queue's client and worker are started, and how to see that all of its jobs are settled."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from bench.postgres.peers import python_of
from bench.record import ROOT
from bench.worker.board import ENVIRONMENT

CLIENTS = "bench.postgres.clients"
STOP_SECONDS = 60


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, with the settings it is measured at."""

    name: str
    client: str
    """The module in `clients`."""
    drains: int
    """How many jobs a run of full size drains: a few seconds' worth."""
    ones: int = 2_000
    """How many are enqueued one by one, and by many callers."""
    settled: str
    """A statement that says whether every job has ended, and that has been committed."""
    peer: str | None = None
    """Whose environment it runs in; None: this one."""
    concurrency: int
    supervised: bool = False
    """Whether its worker is `tenure worker`; else the client runs it."""
    environment: dict[str, str] = {}

    def python(self) -> str:
        return sys.executable if self.peer is None else str(python_of(self.peer))

    def at(self, url: str, board: Path) -> "Placed":
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        more = {"BENCH_POSTGRES": url, "TENURE_URL": url, ENVIRONMENT: str(board), "PYTHONPATH": path}
        more["BENCH_CONCURRENCY"] = str(self.concurrency)
        return Placed(self, self.python(), {**os.environ, **more, **self.environment})


class Placed:
    """A subject in a database."""

    def __init__(self, subject: Subject, python: str, environment: dict[str, str]) -> None:
        self.subject = subject
        self._python = python
        self._environment = environment

    def install(self) -> None:
        subprocess.run(self._client("install"), env=self._environment, cwd=ROOT, check=True)

    @contextmanager
    def producer(self) -> Iterator["Producer"]:
        """A process that enqueues what it is told to."""
        with subprocess.Popen(
            self._client("produce"),
            env=self._environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield Producer(self.subject, process)
            except BaseException:
                process.kill()
                raise

    @contextmanager
    def workers(self, processes: int) -> Iterator[list[int]]:
        """So many worker processes at work; gives the ids of what was started."""
        with ExitStack() as stack:
            yield [stack.enter_context(self._running(command)).pid for command in self._work(processes)]

    @contextmanager
    def fleet(self, module: str, queue: str, processes: int, concurrency: int) -> Iterator[int]:
        """`tenure worker` on one queue of another app; gives its process id."""
        with self._running(self._tenure(module, processes, concurrency, "--queues", queue)) as process:
            yield process.pid

    def _client(self, verb: str) -> list[str]:
        return [self._python, "-m", f"{CLIENTS}.{self.subject.client}", verb]

    def _work(self, processes: int) -> Sequence[list[str]]:
        if not self.subject.supervised:
            return [self._client("work")] * processes
        return [self._tenure("tenure_jobs", processes, self.subject.concurrency)]

    def _tenure(self, module: str, processes: int, concurrency: int, *more: str) -> list[str]:
        worker = [self._python, "-m", "tenure", "worker", f"{CLIENTS}.{module}:app", "--log-level", "error"]
        return [*worker, "--concurrency", str(concurrency), "--processes", str(processes), *more]

    @contextmanager
    def _running(self, command: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
        with subprocess.Popen(
            command, env=self._environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()


class Producer:
    """A process that does as `clients.shell` says."""

    def __init__(self, subject: Subject, process: "subprocess.Popen[str]") -> None:
        self._subject = subject
        self._process = process
        self._answer()

    def ask(self, *words: object) -> float:
        """Tells it to do something; the seconds that it took."""
        self.begin(*words)
        return self.end()

    def begin(self, *words: object) -> None:
        if self._process.stdin is None:
            raise AssertionError("not a pipe")
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def end(self) -> float:
        return float(self._answer()["seconds"])

    def _answer(self) -> dict[str, float]:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise AssertionError(f"{self._subject.name}: its producer ended")
        return dict(json.loads(line))


TENURE = Subject(
    name="tenure",
    client="with_tenure",
    drains=200_000,
    ones=2_000,
    settled="SELECT NOT EXISTS (SELECT 1 FROM tenure.ready) AND NOT EXISTS (SELECT 1 FROM tenure.running)",
    concurrency=1_000,
    supervised=True,
    peer="tenure",
)
PGQUEUER = Subject(
    name="pgqueuer",
    client="with_pgqueuer",
    drains=200_000,
    settled="SELECT NOT EXISTS (SELECT 1 FROM pgqueuer)",
    peer="pgqueuer",
    concurrency=1_000,
)
CHANCY = Subject(
    name="chancy",
    client="with_chancy",
    drains=16_000,
    settled="SELECT NOT EXISTS (SELECT 1 FROM chancy_jobs WHERE state <> 'succeeded')",
    peer="chancy",
    concurrency=1_000,
)
PROCRASTINATE = Subject(
    name="procrastinate",
    client="with_procrastinate",
    drains=4_000,
    ones=1_000,
    settled="SELECT NOT EXISTS (SELECT 1 FROM procrastinate_jobs WHERE status <> 'succeeded')",
    peer="procrastinate",
    concurrency=10,
)
PEERS = (PGQUEUER, CHANCY, PROCRASTINATE)

VARIANTS = (
    replace(TENURE, name="tenure, each with a result", environment={"BENCH_RESULTS": "1"}),
    replace(TENURE, name="tenure, without uvloop", environment={"BENCH_ASYNCIO": "1"}),
    replace(TENURE, name="tenure, without a supervisor", supervised=False),
    replace(TENURE, name="tenure, 100 at once (its default)", concurrency=100),
    replace(TENURE, name="tenure, 1 at once: no batches", concurrency=1, drains=2_000),
    replace(PGQUEUER, name="pgqueuer, batch 200", concurrency=200),
)
"""What a user may switch. Events, history, fencing and fairness are always on: there is no switch."""


def variants(among: Sequence[Subject], subjects: Sequence[Subject]) -> list[Subject]:
    """Those of the subjects, each where its subject runs."""
    peers = {subject.client: subject.peer for subject in subjects}
    return [replace(variant, peer=peers[variant.client]) for variant in among if variant.client in peers]


def chosen(peers: str) -> list[Subject]:
    """Tenure, and the peers that were named: `all`, `none`, or their names with commas between."""
    known = {str(subject.peer) for subject in PEERS}
    names = {"all": known, "none": set[str]()}.get(peers, set(peers.split(",")))
    if unknown := names - known:
        raise SystemExit(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}, all, none")
    return [at_home(TENURE, peers), *(subject for subject in PEERS if subject.peer in names)]


def at_home(subject: Subject, peers: str) -> Subject:
    """Without peers Tenure runs in this environment, which needs no network."""
    return replace(subject, peer=None) if peers == "none" else subject
