"""Job types that the sink's tests enqueue by name; Spark's processes import this module."""

import os
import signal
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import msgspec

from tenure import Backoff, Context, Fail, Jobs, Tenure

jobs = Jobs()


class Enriched(msgspec.Struct):
    """What `enrich` gives."""

    score: float
    seen: str


@jobs.job(queue="enrichment", max_attempts=2, retry=Backoff.none())
async def enrich(ctx: Context, id: int, name: str) -> Enriched:
    """Knows nothing of every tenth, and of every tenth the second time only."""
    if id % 10 == 3:
        raise Fail(f"nothing is known of {name}")
    if id % 10 == 4 and ctx.attempt == 1:
        raise ConnectionError("busy")
    return Enriched(id / 2, name.upper())


class Place(msgspec.Struct):
    """A struct column."""

    city: str
    zip: int | None


async def kinds(
    id: int,
    amount: Decimal,
    at: datetime,
    day: date,
    raw: bytes,
    place: Place,
    tags: list[str],
    counts: dict[str, int],
    ratio: float | None,
    yes: bool,
) -> str:
    """Every kind of column, as a handler gets it."""
    return repr((amount, at.isoformat(), day.isoformat(), raw, place, tags, counts, ratio, yes))


jobs.job(name="kinds.json", queue="kinds")(kinds)
jobs.job(name="kinds.msgpack", queue="kinds", codec="msgpack", result_codec="msgpack")(kinds)


def die_once(id: int, flag: str) -> int:
    """Asked by the sink for the priority of each row: its process dies at the first row 25 that it meets."""
    if id == 25 and not Path(flag).exists():
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


@jobs.job(queue="mortal", priority=die_once)
async def mortal(id: int, flag: str) -> None: ...


app = Tenure("memory://")
app.include(jobs)
