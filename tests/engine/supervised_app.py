"""Jobs that hang, block, die and hold on, for workers in processes of their own."""

import asyncio
import ctypes
import os
import signal
import threading
import time
from pathlib import Path

from tenure import Context, Tenure
from tenure.domain.retry import RetryPolicy

app = Tenure()
NOW = RetryPolicy.none()


@app.job
async def quick(number: int) -> int:
    return number + 1


@app.job(lease=6)
async def blocks(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


@app.job(lease=6)
async def holds_the_gil(seconds: float) -> str:
    ctypes.PyDLL(None).usleep(round(seconds * 1_000_000))
    return "done"


@app.job(timeout=0.5, max_attempts=1)
async def hangs() -> None:
    ctypes.PyDLL(None).usleep(600_000_000)


@app.job(max_attempts=5, retry=NOW)
async def dies(ctx: Context, times: int) -> str:
    if ctx.attempt <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"alive at {ctx.attempt}"


@app.job(max_attempts=2, retry=NOW)
async def dies_and_leaves(ctx: Context, folder: str) -> str:
    """What it leaves has its process's line to the supervisor too."""
    if ctx.attempt == 1:
        left = os.fork()
        if not left:
            threading.Event().wait()
        Path(folder, "left").write_text(str(left), encoding="ascii")
        os.kill(os.getpid(), signal.SIGKILL)
    return f"alive at {ctx.attempt}"


@app.job(max_attempts=2, retry=NOW)
async def waits(ctx: Context, folder: str) -> str:
    """Waits for a file; leaves a note when it is told to end instead."""
    try:
        while not Path(folder, "go").exists():
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        Path(folder, f"cancelled-{ctx.attempt}").touch()
        raise
    return f"attempt {ctx.attempt}"


@app.job(queue="lanes", lease=0.5, grace=0.2, retry=NOW)
async def in_a_lane(ctx: Context, folder: str) -> str:
    """The first attempt never ends by itself."""
    if ctx.attempt > 1:
        return "second"
    Path(folder, "started").touch()
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        Path(folder, f"cancelled-{ctx.cancelled.reason}").touch()
        raise
    return "first"


@app.job
async def tells(ctx: Context, folder: str) -> str:
    await ctx.progress(0.25, "a quarter")
    while not Path(folder, "go").exists():
        await asyncio.sleep(0.02)
    return "told"


@app.job(max_attempts=1)
def never_returns() -> None:
    threading.Event().wait()


@app.job(max_attempts=1)
def tells_plainly(ctx: Context) -> str:
    ctx.report(0.5, "half")
    return "told"


LONG = 3_600
"""A lease that nobody renews while a test runs."""


@app.job(lease=LONG)
async def ends_when_told(ctx: Context, folder: str) -> None:
    Path(folder, "started").touch()
    try:
        await ctx.cancelled.wait()
    finally:
        Path(folder, f"told-{ctx.cancelled.reason}").touch()


@app.job(lease=LONG)
def ends_when_told_in_a_thread(ctx: Context, folder: str) -> None:
    Path(folder, "started").touch()
    ctx.cancelled.wait_sync(LONG)
    Path(folder, f"told-{ctx.cancelled.reason}").touch()


@app.job(lease=LONG, executor="process")
def ends_when_told_in_a_process(ctx: Context, folder: str) -> None:
    Path(folder, "started").touch()
    ctx.cancelled.wait_sync(LONG)
    Path(folder, f"told-{ctx.cancelled.reason}").touch()
