"""Where the time of a job goes: `python -m bench.worker.profile [--jobs 40000]`.

The worker runs in this process on a SQLite file, and a thread looks a thousand times a second at what its event loop
and its writer do. A thread that waits for work counts as idle and is left out.
"""

import argparse
import asyncio
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from bench.folder import on_disk
from bench.record import Figures
from tenure import Tenure

JOBS = 40_000
EVERY = 0.001
SWITCH = 0.0001
"""How long a thread may keep the interpreter for itself meanwhile: so that the sampler comes in time."""
IDLE = {
    ("selectors.py", "select"),
    ("writer.py", "_next_group"),
    ("wake.py", "_run"),
    ("threading.py", "wait"),
    ("thread.py", "_worker"),
}

PARTS: tuple[tuple[str, str], ...] = (
    ("tenure/engine/worker/", "engine: take, run, settle"),
    ("tenure/engine/", "engine: arguments, context"),
    ("tenure/codecs/", "codecs"),
    ("tenure/domain/", "store: rules of the domain"),
    ("tenure/stores/sql/hot.py", "store: rules of the domain"),
    ("tenure/stores/sql/sqlite/writer.py", "store: begin and commit, with the disk"),
    ("tenure/stores/", "store: statements and rows"),
    ("/asyncio/", "asyncio: tasks and their steps"),
    ("bench/", "the handler itself"),
)
"""What a piece of code belongs to: the first part whose text its file's path has."""


class Sampler(threading.Thread):
    """Counts what the other threads do."""

    def __init__(self) -> None:
        super().__init__(name="sampler", daemon=True)
        self.counts: Counter[str] = Counter()
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(EVERY):
            for thread, frame in sys._current_frames().items():
                part = None if thread == self.ident else part_of(frame)
                if part is not None:
                    self.counts[part] += 1

    def stop(self) -> None:
        self._done.set()
        self.join()


def part_of(frame: FrameType) -> str | None:
    """What a thread is at; None if it is idle."""
    if (Path(frame.f_code.co_filename).name, frame.f_code.co_name) in IDLE:
        return None
    inner: FrameType | None = frame
    while inner is not None:
        path = inner.f_code.co_filename
        for text, part in PARTS:
            if text in path:
                return part
        inner = inner.f_back
    return "other"


async def _drain(folder: Path, jobs: int) -> tuple[float, Counter[str]]:
    app = Tenure(f"sqlite:///{folder / 'jobs.db'}")

    @app.job
    async def noop(sent: int) -> None: ...

    async with app:
        for start in range(0, jobs, 1_000):
            await app.enqueue_many([noop.build(0) for _ in range(min(1_000, jobs - start))])
        sampler = Sampler()
        sampler.start()
        processor = time.process_time()
        async with app.worker(concurrency=500) as worker:
            await worker.idle()
            processor = time.process_time() - processor
        sampler.stop()
    return processor / jobs * 1e6, sampler.counts


def measure(parent: Path | None, jobs: int) -> Figures:
    """Shares of the time by part, the largest first, and the processor time of a job in microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        with on_disk(parent) as folder:
            micros, counts = asyncio.run(_drain(folder, jobs))
    finally:
        sys.setswitchinterval(before)
    samples = max(1, counts.total())
    shares = {part: round(count / samples, 3) for part, count in counts.most_common()}
    return {"jobs": jobs, "cpu_micros": round(micros, 1), "samples": counts.total(), "shares": shares}


def words(figures: Figures) -> str:
    return ", ".join(f"{share:.0%} {part}" for part, share in figures["shares"].items() if share >= 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.worker.profile", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--dir", type=Path, help="put the store there (a folder on a real disk)")
    options = parser.parse_args()
    figures = measure(options.dir, options.jobs)
    print(f"{figures['cpu_micros']} µs of processor time a job, {figures['samples']:,} samples")
    for part, share in figures["shares"].items():
        print(f"{share:>6.1%}  {part}")


if __name__ == "__main__":
    main()
