"""A realistic history, written straight into the feed of a SQLite store: `python -m bench.history --help`.

How it is made. The time is cut into hours. Each hour is to bring its share of the events: forty tenants, of sizes by
Zipf's law, each with days, nights and weekends in its own part of the world (world.py). Within an hour tenants enqueue
bursts of like jobs, the larger tenants larger ones, some on the full minute, some for later, some as flows
(arrivals.py). Every job's life is then told at once, from its enqueue to its end (lives.py): claims in batches, runs
by a lognormal with a Pareto tail, retries with errors of its type, lost leases, releases, cancels, replays. In the hour
of a storm nearly every attempt of one type fails. What falls into later hours waits there; what falls past the end of
the history is dropped, so its last jobs are still open. When an hour's arrivals are told, its events are sorted by time
and written as chunks of one tenant and one time (feed.py). The last events are dropped too where there are more than
asked for.

The lines are, to the byte, those that the store itself would write. Jobs and their records are not written: the feed
is all there is. One seed and one end of time give one history.

`bench.history.plain` computes from such a feed what the lake must hold, by plain Python.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from bench.history.arrivals import Arrivals
from bench.history.chance import Chance
from bench.history.feed import Feed
from bench.history.lives import Lives
from bench.history.world import load, storms
from tenure.domain.errors import InvalidValue
from tenure.domain.names import DAY, HOUR, Ms

CLOSED_LATER = 0.1
"""Share of the events that go to ending jobs which an earlier history left open."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    events: int
    chunks: int
    jobs: int
    resumed: int
    """Jobs of an earlier history that went on."""
    first_at: Ms
    last_at: Ms
    seconds: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a history shall be."""

    events: int
    start: Ms
    end: Ms
    seed: int
    open_jobs: int
    open_end: Ms
    """The open jobs are enqueued from the start until then."""


def write_history(
    path: str | Path,
    events: int,
    *,
    days: float = 14,
    seed: int = 7,
    until: Ms | None = None,
    open_jobs: int = 0,
    open_in_a_day: bool = False,
    append: bool = False,
    progress: Callable[[int], object] = lambda written: None,
) -> Stats:
    """Fills the feed of a new store with so many events of the last `days` before `until`, and the open jobs' besides.

    `until` is the last full hour if not given. With `append` the history goes on after the last event that the store
    has, for `days` at most and up to `until` (now, if not given); some jobs that were open go on too.
    """
    place = Path(path)
    if events < 1 or days <= 0 or open_jobs < 0:
        raise InvalidValue("a history needs at least one event, some days, and no fewer than 0 open jobs")
    if place.exists() != append:
        raise InvalidValue(f"{place} {'exists: append to it, or remove it' if not append else 'does not exist'}")
    feed = Feed(place)
    try:
        start, end = _period(feed, days, until, append)
        # Not among the very last events: those are dropped where there are too many.
        open_end = min(end - (end - start) // 50, start + DAY if open_in_a_day else end)
        plan = Plan(events=events, start=start, end=end, seed=seed, open_jobs=open_jobs, open_end=open_end)
        return _write(feed, plan, append, progress)
    finally:
        feed.close()


def _period(feed: Feed, days: float, until: Ms | None, append: bool) -> tuple[Ms, Ms]:
    now = time.time_ns() // 1_000_000
    if not append:
        end = now // HOUR * HOUR if until is None else until
        return end - int(days * DAY), end
    start = feed.mark + 1
    end = min(start + int(days * DAY), now if until is None else until)
    if end <= start:
        raise InvalidValue(f"the history reaches {feed.mark} already: give a later time to end at")
    return start, end


def _write(feed: Feed, plan: Plan, append: bool, progress: Callable[[int], object]) -> Stats:
    began, first = time.perf_counter(), feed.head
    chance = Chance(np.random.default_rng([plan.seed, plan.start]))
    hours = range(plan.start // HOUR, plan.end // HOUR + 1)
    lives = Lives(chance, plan.start, plan.end, storms(chance.rng, hours))
    resumed = _resume(feed, lives, plan) if append else 0
    written, first_at, total = 0, 0, plan.events + plan.open_jobs
    for hour in _arrive(lives, plan, hours):
        bucket = sorted(lives.buckets.pop(hour, []))[: total - written]
        feed.append(bucket)
        first_at = first_at or (bucket[0][0] if bucket else 0)
        written += len(bucket)
        progress(written)
    return Stats(
        events=written,
        chunks=feed.head - first,
        jobs=lives.jobs,
        resumed=resumed,
        first_at=first_at,
        last_at=feed.mark,
        seconds=time.perf_counter() - began,
    )


def _arrive(lives: Lives, plan: Plan, hours: range) -> Iterator[int]:
    """Starts the lives of one hour after the other, and says which hour is complete."""
    arrivals = Arrivals(lives, plan.events)
    spans = [(max(plan.start, hour * HOUR), min(plan.end, (hour + 1) * HOUR)) for hour in hours]
    parts = np.cumsum([load(start).sum() * (end - start) for start, end in spans])
    parts /= parts[-1]
    opened = 0
    for hour, (start, end), part in zip(hours, spans, parts.tolist(), strict=True):
        if end > start:
            waiting = round(plan.open_jobs * min(1.0, (end - plan.start) / (plan.open_end - plan.start)))
            if waiting > opened:
                arrivals.backlog(start, min(end, plan.open_end), waiting - opened)
            opened = waiting
            arrivals.administer(start, end)
            arrivals.fill(start, end, round(plan.events * part) + opened)
        yield hour


def _resume(feed: Feed, lives: Lives, plan: Plan) -> int:
    """Some of the jobs that were left open go on."""
    found = feed.open_jobs()
    count = min(len(found), int(plan.events * CLOSED_LATER / 2))
    for number in lives.chance.rng.permutation(len(found))[:count].tolist():
        one = found[number]
        if one.stands == "running":
            lives.attempt(one.job, one.claimed, one.worker)
        if one.job.ended is None:
            lives.attempts(one.job, lives.chance.below(plan.end - plan.start))
    return count
