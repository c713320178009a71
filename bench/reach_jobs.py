"""The measured app: `tenure worker bench.reach_jobs:app`. Times are the machine's monotonic clock."""

import asyncio
import os
import random
import socket
import time

from tenure import Context, Jobs, Tenure
from tenure.stores.sql.sqlite import wake

NOTES = "BENCH_NOTES"
"""The datagram socket that is told what handlers see."""
NO_POLLS = "BENCH_NO_POLLS"
NEVER = (3_600.0, 3_600.0)
LONGEST_RUN = 0.05

if NO_POLLS in os.environ:
    wake.POLL_SECONDS = NEVER

app, jobs = Tenure(), Jobs()


def note(word: str, id: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(f"{word} {id} {time.monotonic_ns()}".encode(), os.environ[NOTES])


@jobs.job(queue="short")
async def short() -> tuple[int, int]:
    """When it began and when it ended; as long as jobs are, so that hints and reads cross in all ways."""
    began = time.monotonic_ns()
    await asyncio.sleep(random.random() * LONGEST_RUN)
    return began, time.monotonic_ns()


@jobs.job(queue="long", timeout=3_600)
async def long(ctx: Context) -> None:
    """Until it is cancelled."""
    note("began", ctx.id)
    try:
        await asyncio.Event().wait()
    finally:
        note("ended", ctx.id)


app.include(jobs)
