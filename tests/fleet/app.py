"""The app of a fleet: every process that uses it writes a history of its own calls."""

import asyncio
import os
import time
from pathlib import Path

from tenure import Context, Retry, Tenure
from tenure.domain.retry import RetryPolicy
from tenure.domain.store import Store
from tenure.stores.clock import system_clock
from tenure.stores.opening import register
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.history import JsonLines, RecordingStore

SCHEME = "recorded"


def recorded(url: str) -> Store:
    """`recorded:///folder`: the store in that folder, each call written down before it is sent."""
    folder = Path(url.removeprefix(f"{SCHEME}://"))
    name = f"{os.environ.get('FLEET_NAME', 'client')}-{os.getpid()}"
    sink = JsonLines(folder / "histories" / f"{name}.jsonl")
    return RecordingStore(SqliteStore(folder / "jobs.db"), sink, name, system_clock)


register(SCHEME, recorded)
app = Tenure()


@app.job(max_attempts=200, retry=RetryPolicy.none())
async def quick(number: int) -> int:
    return number


@app.job(max_attempts=200, retry=RetryPolicy.none())
async def slow(number: int) -> int:
    await asyncio.sleep(number % 10 / 20)
    return number


@app.job(max_attempts=200, retry=RetryPolicy.none())
async def flaky(ctx: Context, number: int) -> int:
    if ctx.attempt == 1:
        raise Retry("not yet", after=0.05)
    return number


@app.job(max_attempts=200, retry=RetryPolicy.none())
def threaded(number: int) -> int:
    time.sleep(number % 10 / 40)
    return number
