"""Jobs whose handlers run in processes of their own."""

import asyncio
import os
import signal
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from tenure import Context, Fail, Jobs, Retry, Snooze, Tenure
from tenure.domain.errors import NotReady
from tests.engine.process_jobs import elsewhere

app = Tenure("memory://")
jobs = Jobs()
VARIABLE: ContextVar[str | None] = ContextVar("variable", default=None)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class OwnFail(Fail):
    reason = "own"


class WithAfter(Exception):
    after = "soon"


ERRORS: dict[str, Any] = {
    "exit": lambda: SystemExit(3),
    "interrupt": lambda: KeyboardInterrupt(),
    "bare": lambda: BaseException("bare"),
    "cancelled": lambda: asyncio.CancelledError(),
    "memory": lambda: MemoryError(),
    "unprintable": lambda: Unprintable(),
    "strange": lambda: type("Strange\nName", (Exception,), {})("x"),
    "long": lambda: ValueError("x" * 5_000),
    "surrogate": lambda: ValueError("\ud800"),
    "own after": lambda: WithAfter("x"),
    "fail": lambda: Fail("no"),
    "own fail": lambda: OwnFail("no"),
    "retry": lambda: Retry("later", after=9),
    "retry by policy": lambda: Retry("later"),
    "retry in the past": lambda: Retry(after=-1),
    "retry soon": lambda: Retry(after="soon"),  # type: ignore[arg-type]  # the subject of the test
    "snooze": lambda: Snooze("not now", after=9),
    "snooze for nan": lambda: Snooze(after=float("nan")),
}


def raising(name: str) -> None:
    raise ERRORS[name]()


@jobs.job(executor="process")
def plain(name: str) -> None:
    raising(name)


@jobs.job(executor="process")
async def on_a_loop(name: str) -> None:
    raising(name)


@jobs.job
async def inline(name: str) -> None:
    raising(name)


@jobs.job
async def child(n: int = 0) -> int:
    return n


@jobs.job(executor="process")
async def makes() -> str:
    """Into the memory of its own process: only whose it is counts here."""
    return (await child.enqueue(1)).tenant


@jobs.job(executor="process")
def makes_plainly() -> str:
    return child.sync.enqueue(1).tenant


@jobs.job(executor="process")
def number() -> int:
    return os.getpid()


@jobs.job(executor="process")
def sets_a_variable() -> str | None:
    before = VARIABLE.get()
    VARIABLE.set("left behind")
    return before


@jobs.job(executor="process")
async def sets_one_on_a_loop() -> str | None:
    return sets_a_variable.function()  # type: ignore[no-any-return]  # any function may be a job


@jobs.job(executor="process")
def forks() -> str:
    return "parent" if os.fork() else "child"


@jobs.job(executor="process", max_attempts=1)
def dies_and_leaves(folder: str) -> None:
    """What it leaves has its end of the line too."""
    left = os.fork()
    if not left:
        threading.Event().wait()
    Path(folder, "left").write_text(str(left), encoding="ascii")
    os.kill(os.getpid(), signal.SIGKILL)


@jobs.job(executor="process")
async def in_a_transaction(ctx: Context) -> str:
    try:
        async with ctx.transaction():
            return "entered"
    except NotReady as error:
        return str(error)


class Broken:
    """A codec that breaks in a way of its own."""

    name = "broken"

    def encode(self, value: Any) -> bytes:
        raise LookupError(f"no way to write {value}")

    def decode(self, body: bytes, type: Any = Any) -> Any:
        raise LookupError("no way to read")


@jobs.job(executor="process", result_codec="broken")
def unkept() -> int:
    return 7


@jobs.job(executor="process")
def told_plainly(ctx: Context, folder: str) -> str | None:
    Path(folder, "started").touch()
    ctx.cancelled.wait_sync(60)
    return ctx.cancelled.reason


@jobs.job(executor="process")
async def told(ctx: Context, folder: str) -> str | None:
    Path(folder, "started").touch()
    return await ctx.cancelled.wait()


@jobs.job(executor="process")
async def broken_off(ctx: Context, folder: str) -> str:
    Path(folder, "started").touch()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return f"saved: {ctx.cancelled.reason}"
    return "never"


@jobs.job(executor="process")
def deaf(folder: str) -> None:
    Path(folder, "started").touch()
    threading.Event().wait()


app.codec(Broken())
app.include(jobs)
app.include(elsewhere)
