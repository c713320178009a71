"""`tenure worker`: runs an app's jobs until it is told to stop."""

import argparse
import asyncio
import logging
import os
import random
import signal
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from tenure.domain.errors import InvalidValue, StoreAway
from tenure.engine.app import Tenure
from tenure.engine.worker.supervisor.child import ChildOptions, configure_logging
from tenure.engine.worker.supervisor.supervisor import Supervisor
from tenure.engine.worker.worker import Worker
from tenure.service.cli.arguments import add_command, add_json, names, positive, seconds
from tenure.service.cli.output import Out
from tenure.service.cli.target import URL, check_named, load_app, shown_url

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands

INTERRUPTED = 130
STOPPING = ("stopping; a second signal doesn't wait for the jobs", "stopping at once")
LEVELS = ("debug", "info", "warning", "error")
AWAY_SECONDS = (0.5, 5.0)
"""How often a store that is away is tried when a worker starts: first, and at most."""

log = logging.getLogger("tenure.worker")


class WorkerRun(msgspec.Struct, frozen=True, kw_only=True):
    """What `tenure worker` was asked for. None leaves it to the app."""

    target: str
    """MODULE:APP, for whoever imports the app again."""
    queues: dict[str, int | None] | None = None
    concurrency: int | None = None
    processes: int = 1
    lease: float | None = None
    grace: float | None = None
    name: str | None = None
    tenants: tuple[str, ...] | None = None
    log_level: str = "info"
    json: bool = False


def declare(commands: "Commands") -> None:
    parser = add_command(commands, "worker", run, "run an app's jobs until told to stop")
    parser.add_argument("target", metavar="MODULE:APP", help="the app, as in shop.jobs:app")
    parser.add_argument(
        "--queues", type=queues, metavar="NAME[=N],…", help="what to serve, N at once (default: the app's)"
    )
    parser.add_argument("--concurrency", type=positive, metavar="N", help="jobs at once in one process")
    parser.add_argument("--processes", type=positive, default=1, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--lease", type=seconds, metavar="SECONDS", help="how long it may be silent before others take over"
    )
    parser.add_argument(
        "--grace", type=seconds, metavar="SECONDS", help="how long after that the store still accepts what it says"
    )
    parser.add_argument("--name", help="the worker's name (default: host name, process id and a random part)")
    parser.add_argument("--tenants", type=names, metavar="NAME,…", help="serve these alone (default: all)")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="default: %(default)s")
    parser.add_argument("--url", help="where the store is, for an app that leaves it to TENURE_URL")
    add_json(parser)


def queues(text: str) -> dict[str, int | None]:
    """`mail,video=2`."""
    found: dict[str, int | None] = {}
    for part in names(text):
        name, separator, most = part.partition("=")
        if name in found:
            raise argparse.ArgumentTypeError(f"{name!r} is named twice")
        found[name] = positive(most) if separator else None
    return found


def run(args: argparse.Namespace, out: Out) -> int:
    app = found_app(args.target, args.url)
    for queue in unused(app, args.queues or {}):
        own = ", ".join(own_queues(app)) or "none"
        out.say(f"no job type of {args.target} uses queue {queue!r}; its own are {own}")
    configure_logging(args.log_level)
    options = WorkerRun(
        target=args.target,
        queues=args.queues,
        concurrency=args.concurrency,
        processes=args.processes,
        lease=args.lease,
        grace=args.grace,
        name=args.name,
        tenants=None if args.tenants is None else tuple(args.tenants),
        log_level=args.log_level,
        json=out.json,
    )
    return run_worker(app, options)


def own_queues(app: Tenure) -> list[str]:
    """The queues that the app's jobs go to unless they are sent elsewhere."""
    return sorted({definition.queue for definition in app.definitions.values()})


def unused(app: Tenure, queues: Iterable[str]) -> list[str]:
    """Queues that jobs come to only when they are sent there: rarely meant, mostly mistyped."""
    own = own_queues(app)
    return [queue for queue in queues if queue not in own]


def found_app(target: str, url: str | None) -> Tenure:
    """The app. A worker's store is always the app's own, so a URL must be where the app looks."""
    if url is not None:
        os.environ[URL] = url
    app = load_app(target)
    check_named(app, target)
    if url is not None and app.url != url:
        raise InvalidValue(
            f"{target} has a store of its own ({shown_url(app.url)}): leave out --url, or change it there"
        )
    return app


def run_worker(app: Tenure, options: WorkerRun) -> int:
    """Runs the worker until SIGTERM or SIGINT; a second signal ends it at once.

    A store of one process alone (memory) is served in this one; any other by children under a supervisor.
    """
    out = Out(json=options.json)
    if not app.made().capabilities.multi_process:
        return asyncio.run(_serve(app, options, out))
    return asyncio.run(_supervise(app, options, out))


async def _supervise(app: Tenure, options: WorkerRun, out: Out) -> int:
    worker = worker_of(app, options)  # what makes no sense is refused here, once
    await _open(app)  # and so is a store that can't be opened
    signals: list[int] = []

    def signalled(count: int) -> None:
        signals.append(count)
        out.say(STOPPING[min(count, 2) - 1])

    child = ChildOptions(
        target=options.target,
        name=worker.name,
        slots=4 * worker.options.concurrency,
        queues=options.queues,
        concurrency=options.concurrency,
        tenants=options.tenants,
        lease=options.lease,
        grace=options.grace,
        shutdown_grace=app.settings.shutdown_grace,
        announce=announcement(app, worker, "{worker}", options.json),
        log_level=options.log_level,
    )
    code = await Supervisor(child, options.processes, signalled).run()
    return INTERRUPTED if len(signals) > 1 else code


async def _open(app: Tenure) -> None:
    """Opens the store and leaves it; waits for one whose server is away."""
    wait, longest = AWAY_SECONDS
    away = False
    while True:
        try:
            async with app:
                break
        except StoreAway as error:
            level = logging.DEBUG if away else logging.WARNING
            log.log(level, "the worker waits for its store and tries it at least every %g s: %s", longest, error)
            away = True
        await asyncio.sleep(wait * random.uniform(0.5, 1))
        wait = min(2 * wait, longest)
    if away:
        log.info("the store is there")


def worker_of(app: Tenure, options: WorkerRun) -> Worker:
    return app.worker(
        limits(app, options),
        concurrency=options.concurrency,
        tenants=options.tenants,
        name=options.name,
        lease=options.lease,
        grace=options.grace,
    )


async def _serve(app: Tenure, options: WorkerRun, out: Out) -> int:
    worker = worker_of(app, options)
    stopping = Stopping(worker, out)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.signalled)
    async with app:
        app.on("worker_started")(lambda _: out.line(announcement(app, worker, worker.name, options.json)))
        await worker.run()
    return INTERRUPTED if stopping.signals > 1 else 0


def limits(app: Tenure, options: WorkerRun) -> dict[str, int] | None:
    """How many jobs of each queue at once; one without a limit may use every slot."""
    slots = options.concurrency or app.settings.concurrency
    return None if options.queues is None else {name: most or slots for name, most in options.queues.items()}


def announcement(app: Tenure, worker: Worker, name: str, as_json: bool) -> str:
    """What a worker says when it starts to work."""
    served, url = worker.options.queues, shown_url(app.url)
    if as_json:
        card = {"worker": name, "queues": served, "concurrency": worker.options.concurrency, "url": url}
        return msgspec.json.encode(card).decode()
    return f"worker {name} serves {', '.join(_queue_text(*one) for one in served.items())} at {url}"


def _queue_text(name: str, most: int | None) -> str:
    return name if most is None else f"{name}={most}"


class Stopping:
    """What signals do to a worker: the first asks it to stop, the next ends the patience."""

    def __init__(self, worker: Worker, out: Out) -> None:
        self._worker = worker
        self._out = out
        self.signals = 0

    def signalled(self) -> None:
        self.signals += 1
        self._worker.stop(hard=self.signals > 1)
        self._out.say(STOPPING[min(self.signals, 2) - 1])
