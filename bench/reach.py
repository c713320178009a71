"""How fast one process reaches another: `python -m bench.reach [--record]`.

A process enqueues, waits for results and cancels; `tenure worker` processes run the jobs. With hints alone, every look
that isn't told to put off by an hour: what isn't told is never seen, and counts as lost. Then with looks, where hints
can't arrive: the connections that listen are cut, or the URL says that there is a pooler.
"""

import argparse
import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import psycopg

from bench import record
from bench.folder import check_disk
from bench.postgres.command import add_options, say
from bench.postgres.server import started
from bench.reach_jobs import NEVER, NO_POLLS, NOTES, jobs, long, short
from bench.record import ROOT, Figures
from tenure import ResultTimeout, Tenure
from tenure.engine import handle
from tenure.stores.sql.sqlite import wake
from tenure.testing.proxy import FaultProxy

COMMAND = "python -m bench.reach --record"
P99_MS, MOST_MS = 250, 3_000
START_SECONDS, PATIENCE = 120.0, 20.0
HOUR = 3_600
SQLITE, POSTGRES = "sqlite", "postgres"
CUT, POOLER = "postgres, listening cut", "postgres, pooler=transaction"
LEGS = {"start": "enqueues that start a handler", "result": "results seen", "cancel": "cancels that reach a handler"}


class Sizes(msgspec.Struct, frozen=True):
    """How much is measured."""

    times: int = 500
    workers: int = 4
    running: int = 100
    """Handlers of each worker while jobs are cancelled."""
    lanes: int = 5
    """Callers at once."""
    lanes_with_looks: int = 50
    """Where each may take a second or two."""


QUICK = Sizes(times=20, workers=2, running=10, lanes_with_looks=20)


class Notes:
    """What handlers say, by job."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))
        self._said: dict[tuple[str, str], asyncio.Future[int]] = {}
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._read)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            while True:
                word, id, at = self._socket.recv(100).decode().split()
                said = self._of(word, id)
                if not said.done():
                    said.set_result(int(at))

    def _of(self, word: str, id: str) -> "asyncio.Future[int]":
        return self._said.setdefault((word, id), asyncio.get_running_loop().create_future())

    async def when(self, word: str, id: str, seconds: float = PATIENCE) -> int | None:
        """When it was said; None if it isn't in that time."""
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._of(word, id))
        except TimeoutError:
            return None

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()


@contextmanager
def workers(url: str, notes: Path, sizes: Sizes, looks: bool) -> Iterator[None]:
    """Supervisors with a child each, at work. Leases are renewed every twenty minutes, so that tells of no cancel."""
    environment = {**os.environ, "TENURE_URL": url, NOTES: str(notes), "TENURE_SHUTDOWN_GRACE": "0"}
    if not looks:
        environment |= {NO_POLLS: "1", "TENURE_POLL": str(HOUR), "TENURE_POLL_AT_MOST": str(HOUR)}
    command = [sys.executable, "-m", "tenure", "worker", "bench.reach_jobs:app"]
    command += ["--queues", f"short={sizes.lanes_with_looks},long={sizes.running}"]
    command += ["--concurrency", str(sizes.lanes_with_looks + sizes.running), "--lease", str(HOUR)]
    command += ["--log-level", "error"]
    silent = subprocess.DEVNULL
    processes = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=silent, stderr=silent) for _ in range(sizes.workers)
    ]
    try:
        yield
    finally:
        ended = [process.returncode for process in processes if process.poll() is not None]
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if ended:
            raise SystemExit(f"workers ended by themselves, with {ended}")


@contextmanager
def hints_alone() -> Iterator[None]:
    """This process looks at nothing that it isn't told of."""
    before = handle.POLL_SECONDS, wake.POLL_SECONDS
    handle.POLL_SECONDS = wake.POLL_SECONDS = NEVER
    try:
        yield
    finally:
        handle.POLL_SECONDS, wake.POLL_SECONDS = before


class Times:
    """How long each leg took, in milliseconds; None where it wasn't done in a while."""

    def __init__(self) -> None:
        self.legs: dict[str, list[float | None]] = {leg: [] for leg in LEGS}

    def add(self, leg: str, begun_ns: int, done_ns: int | None) -> None:
        self.legs[leg].append(None if done_ns is None else (done_ns - begun_ns) / 1e6)

    def figures(self) -> Figures:
        return {leg: summary(found) for leg, found in self.legs.items()}


def summary(found: list[float | None]) -> Figures:
    done = sorted(one for one in found if one is not None) or [float("nan")]
    at = {name: done[min(len(done) - 1, int(share * len(done)))] for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99))}
    shown = {name: round(value, 2) for name, value in {**at, "max_ms": done[-1]}.items()}
    return {"times": len(found), "done": sum(one is not None for one in found), **shown}


async def in_lanes(lanes: int, times: int, once: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """So often, by callers that each do one after the other."""
    left = iter(range(times))

    async def lane() -> None:
        for _ in left:
            await asyncio.sleep(random.random() * 0.02)
            await once()

    await asyncio.gather(*(lane() for _ in range(lanes)))


class Caller:
    """The process that asks."""

    def __init__(self, app: Tenure, notes: Notes) -> None:
        self._app = app
        self._notes = notes
        self._running: list[str] = []
        self.times = Times()

    async def call(self) -> None:
        """From the enqueue to the handler, and from the handler's end to its caller."""
        sent = time.monotonic_ns()
        one = await self._app.enqueue(short.build())
        try:
            began, ended = await one.result(timeout=PATIENCE)
        except ResultTimeout:
            self.times.add("start", sent, sent if (await one.get()).attempt else None)
            self.times.add("result", sent, None)
            return
        seen = time.monotonic_ns()
        self.times.add("start", sent, began)
        self.times.add("result", ended, seen)

    async def run(self, number: int, seconds: float = PATIENCE) -> None:
        """Has so many more handlers run until they are cancelled."""
        handles = await self._app.enqueue_many([long.build() for _ in range(number)])
        began = await asyncio.gather(*(self._notes.when("began", one.id, seconds) for one in handles))
        self._running += [one.id for one, at in zip(handles, began, strict=True) if at is not None]

    async def cancel(self) -> None:
        """Of one of those that run; then another begins."""
        if not self._running:
            self.times.add("cancel", 0, None)
            return
        id = self._running.pop(random.randrange(len(self._running)))
        sent = time.monotonic_ns()
        await self._app.cancel(id)
        self.times.add("cancel", sent, await self._notes.when("ended", id))
        await self.run(1)

    async def end(self) -> None:
        await asyncio.gather(*(self._app.cancel(id) for id in self._running))


async def measured(url: str, folder: Path, sizes: Sizes, looks: bool) -> Figures:
    """All legs, on one store."""
    lanes = sizes.lanes_with_looks if looks else sizes.lanes
    app = Tenure(url)
    app.include(jobs)
    async with app:
        notes = Notes(folder / "notes")
        with workers(url, notes.path, sizes, looks), nullcontext() if looks else hints_alone():
            caller = Caller(app, notes)
            await caller.run(sizes.workers * sizes.running, START_SECONDS)  # so all workers are there
            await in_lanes(lanes, sizes.times, caller.call)
            await in_lanes(lanes, sizes.times, caller.cancel)
            await caller.end()
        notes.close()
    return caller.times.figures()


@contextmanager
def deaf(url: str) -> Iterator[str]:
    """A way to the same server on which every connection that begins to listen is cut."""
    parts = urlsplit(url)
    with FaultProxy(parts.port or 5432) as proxy:
        ended = threading.Event()

        def cut() -> None:
            while not ended.is_set():
                fault = proxy.cut(b"LISTEN")
                while not fault.happened.wait(0.1) and not ended.is_set():
                    pass

        cutting = threading.Thread(target=cut)
        cutting.start()
        try:
            yield url.replace(f":{parts.port}/", f":{proxy.port}/")
        finally:
            ended.set()
            cutting.join()


def cases(folder: Path, url: str) -> Iterator[tuple[str, AbstractContextManager[str], bool]]:
    """Each case's name, where its store is, and whether its processes look by themselves."""
    yield SQLITE, nullcontext(f"sqlite:///{folder / 'jobs.db'}"), False
    yield POSTGRES, nullcontext(f"{url}?schema=direct"), False
    yield CUT, deaf(f"{url}?schema=cut"), True
    yield POOLER, nullcontext(f"{url}?schema=pooled&pooler=transaction"), True


def measure(sizes: Sizes, say: Callable[[str], None], anywhere: bool) -> Figures:
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="tenure-reach-") as name, started(anywhere=anywhere) as server:
        settings = server.settings
        say(f"  psycopg {psycopg.__version__}, server {settings['server_version']}; " + versions())
        for number, (case, place, looks) in enumerate(cases(Path(name), server.url)):
            folder = Path(name) / str(number)
            folder.mkdir()
            with place as url:
                found[case] = {"looks": looks, "legs": asyncio.run(measured(url, folder, sizes, looks))}
            say(f"  {case}\n" + "\n".join(f"    {line}" for line in lines(found[case])))
    return {
        "sizes": msgspec.to_builtins(sizes),
        "server": settings,
        "versions": {"psycopg": psycopg.__version__},
        "cases": found,
    }


def versions() -> str:
    known = record.machine()
    return ", ".join(f"{name} {known[name]}" for name in ("tenure", "python", "sqlite"))


def lines(case: Figures) -> Iterator[str]:
    for leg, one in case["legs"].items():
        yield (
            f"{one['done']:>4} of {one['times']} {LEGS[leg]:<32}"
            f"p50 {one['p50_ms']:>8.2f} ms  p99 {one['p99_ms']:>8.2f} ms  at most {one['max_ms']:>8.2f} ms"
        )


def reached(case: Figures) -> bool:
    """Whether all were, in time: by hints nearly at once, else when a process looks."""
    all_done = all(leg["done"] == leg["times"] for leg in case["legs"].values())
    return all_done and all(
        leg["max_ms"] <= MOST_MS if case["looks"] else leg["p99_ms"] < P99_MS for leg in case["legs"].values()
    )


def judged(figures: Figures, names: Sequence[str]) -> tuple[str, bool]:
    """Some of the cases in words, and whether they are all as they must be."""
    cases = {name: figures["cases"][name] for name in names}
    whole = figures["sizes"] == msgspec.to_builtins(Sizes())
    text = "; ".join(f"{name}: {words(case)}" for name, case in cases.items())
    return text, whole and all(map(reached, cases.values()))


def words(case: Figures) -> str:
    """What it comes to, a part for each leg."""
    return ", ".join(
        f"{leg} {one['done']}/{one['times']}, "
        f"p50 {one['p50_ms']:.1f} ms, p99 {one['p99_ms']:.0f} ms, at most {one['max_ms']:.0f} ms"
        for leg, one in case["legs"].items()
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.reach", description=__doc__)
    add_options(parser)
    return parser.parse_args()


def main() -> int:
    options = parse()
    check_disk(None)
    sizes = QUICK if options.quick else Sizes()
    figures = measure(sizes, say, anywhere=options.quick)
    if options.record:
        record.write(options.record / "reach.json", COMMAND, figures)
    return 0 if all(map(reached, figures["cases"].values())) else 1


if __name__ == "__main__":
    sys.exit(main())
