"""`tenure doctor`: looks at a store from outside and says what is wrong and what to do about it."""

import argparse
import asyncio
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenure.domain.errors import NotReady, StoreFrozen, TenureError
from tenure.domain.names import Ms
from tenure.engine.schedules import store_now
from tenure.service.cli.arguments import add_command, add_store
from tenure.service.cli.checks import Check, Level, ok, problem, warning
from tenure.service.cli.output import Column, Out
from tenure.service.cli.place import file_checks
from tenure.service.cli.server import on_server, server_checks
from tenure.service.cli.target import NO_STORE, load_app, names_none, path_of, shown_url, url_of
from tenure.service.cli.unserved import unserved_checks
from tenure.service.cli.words import counted
from tenure.service.cli.workers import cards_of
from tenure.stores.opening import open_store

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands

COLUMNS = (Column("verdict"), Column("check"), Column("what", folds=True))

CLOCK_WARNING: Ms = 1_000
CLOCK_PROBLEM: Ms = 60_000


def declare(commands: "Commands") -> None:
    add_store(add_command(commands, "doctor", run, "check the store and say what to do about problems"))


def run(args: argparse.Namespace, out: Out) -> int:
    declared = None if args.app is None else load_app(args.app)
    url = url_of(args, declared, out)
    if url is None:
        raise NotReady(NO_STORE if args.app is None else names_none(args.app))
    checks = list(looked_at(url))
    healthy = all(check.level is not Level.PROBLEM for check in checks)
    if out.json:
        out.document({"url": shown_url(url), "healthy": healthy, "checks": checks})
    else:
        out.table(COLUMNS, [(check.level, check.name, told(check)) for check in checks])
    return 0 if healthy else 1


def told(check: Check) -> str:
    return f"{check.found}; {check.advice}" if check.advice else check.found


def looked_at(url: str) -> Iterator[Check]:
    """Every check that makes sense for the URL; those after a problem in the way are left out."""
    open_store(url)  # refuses a URL that names no store
    yield ok("url", shown_url(url))
    if url == "memory://":
        yield warning(
            "memory",
            "jobs live in one process and end with it; no other process sees them",
            "use sqlite:///jobs.db to keep them",
        )
        return
    blocked = False
    for check in around(url):
        blocked = blocked or check.level is Level.PROBLEM
        yield check
    if not blocked:
        yield from asyncio.run(store_checks(url))


def around(url: str) -> Iterator[Check]:
    """What is looked at before the store itself is asked: its file, or its server."""
    path = path_of(url)
    if path is not None:
        yield from file_checks(path)
    elif on_server(url):
        yield from server_checks(url)


async def store_checks(url: str) -> list[Check]:
    """Reads and writes as everyone does, and compares clocks."""
    store = open_store(url)
    try:
        workers = await cards_of(store)
        before = _now()
        now = await store_now(store)  # goes the way of a write
        after = _now()
        unserved = await unserved_checks(store, workers)
    except StoreFrozen:
        return [warning("store", "it is frozen for a transfer", "thaw it when the transfer is over")]
    except TenureError as error:
        return [problem("store", str(error), "the message says what is in the way")]
    finally:
        await store.close()
    reachable = ok("store", f"reachable for reading and writing; {counted(len(workers), 'worker')} there")
    clock = clock_check(now, (before + after) // 2)
    return [reachable, *unserved, clock]


def clock_check(store: Ms, host: Ms) -> Check:
    """The store's time against this host's."""
    apart = store - host
    if abs(apart) <= CLOCK_WARNING:
        return ok("clock", f"the store's time and this host's are {abs(apart)} ms apart")
    direction = "ahead of" if apart > 0 else "behind"
    found = f"the store's time is {abs(apart) / 1_000:.1f} s {direction} this host's"
    make = problem if abs(apart) > CLOCK_PROBLEM else warning
    return make("clock", found, "keep the clocks of all hosts right (NTP); until then delays and leases last longer")


def _now() -> Ms:
    return time.time_ns() // 1_000_000
