"""The child's main program: `python -m tenure.engine.worker.supervisor.child LINE MEMORY OPTIONS`."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from typing import Any

import msgspec

from tenure.domain.errors import StoreError, TenureError
from tenure.engine.app import Tenure
from tenure.engine.importing import PATH, import_app
from tenure.engine.worker.supervisor.link import Link
from tenure.engine.worker.supervisor.wire import STOP_AT_ONCE, Deadlines, Hello
from tenure.engine.worker.worker import Worker

MISUSED = 64
"""The exit code of a child that could never start: trying again won't help."""
UNAVAILABLE = 69
"""The exit code of a child whose store can't be used now: another may have more luck."""
ORPHANED = 75
LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
COLLECT = (20_000, 10, 10)
"""A batch of 500 jobs makes some 10,000 objects that come and go together: Python's usual 700 would have the collector
look at them ten times, in vain (4 of 50 µs a job).
"""


class ChildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is told to serve. None leaves it to the app."""

    target: str
    name: str
    slots: int
    queues: dict[str, int | None] | None = None
    concurrency: int | None = None
    tenants: tuple[str, ...] | None = None
    lease: float | None = None
    grace: float | None = None
    shutdown_grace: float = 30
    announce: str | None = None
    """What to say on stdout when it starts to work; `{worker}` stands for its name."""
    log_level: str = "info"
    python_path: str | None = None
    """The PYTHONPATH of whoever started the worker; the supervisor sets it."""
    processes: int = 1
    """How many there are of it; the supervisor sets it."""


def main() -> int:
    line = socket.socket(fileno=int(sys.argv[1]))
    options = msgspec.json.decode(sys.argv[3], type=ChildOptions)
    deadlines = Deadlines(int(sys.argv[2]), options.slots)
    put_back(options.python_path)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to everyone; the supervisor passes on SIGTERM
    try:
        app = import_app(options.target)
        configure_logging(options.log_level)
        if app.url is None:
            raise TenureError(f"{options.target} has no store: give Tenure(...) a URL, or set TENURE_URL")
        gc.freeze()  # what was imported stays: the collector needn't walk it again and again
        gc.set_threshold(*COLLECT)
        asyncio.run(work(app, options, line, deadlines))
    except TenureError as error:
        sys.stderr.write(f"tenure: {error}\n")
        return UNAVAILABLE if isinstance(error, StoreError) else MISUSED
    return 0


async def work(app: Tenure, options: ChildOptions, line: socket.socket, deadlines: Deadlines) -> None:
    """Runs a worker until it is told to stop, or its supervisor is gone."""
    queues: Any = options.queues
    if queues is not None and all(most is None for most in queues.values()):
        queues = list(queues)
    worker = app.worker(
        queues,
        concurrency=options.concurrency,
        tenants=options.tenants,
        name=options.name,
        lease=options.lease,
        grace=options.grace,
    )
    if options.announce is not None:
        line_to_say = options.announce.replace("{worker}", worker.name)
        app.on("worker_started")(lambda _: _say(line_to_say))
    hello = Hello(app.url or "", worker.name, app.settings.cancel_grace)
    link = Link(line, deadlines, hello, lambda: orphaned(worker, app.settings.cancel_grace))
    worker.kept_by(link, crowded=options.processes > cores())
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: worker.stop(hard=worker.stopping))
    loop.add_signal_handler(STOP_AT_ONCE, lambda: worker.stop(hard=True))
    async with app:
        await worker.run()


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def put_back(python_path: str | None) -> None:
    """The supervisor's import path is for this process, not for what handlers start: another Python, perhaps."""
    if python_path is None:
        os.environ.pop(PATH, None)
    else:
        os.environ[PATH] = python_path


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def orphaned(worker: Worker, grace: float) -> None:
    """Nobody renews any more: give back what can be given back, and end, whatever hangs."""
    worker.stop(hard=True)
    timer = threading.Timer(2 * grace + 1, os._exit, [ORPHANED])
    timer.daemon = True
    timer.start()


def configure_logging(level: str) -> None:
    """What `tenure worker` logs, in the supervisor as in its children; what an app has set up itself stays."""
    logging.basicConfig(level=level.upper(), format=LOG_FORMAT, stream=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
