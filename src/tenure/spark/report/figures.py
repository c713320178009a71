"""The numbers of a report: what happened in a period, beside what happened in the one before."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, tzinfo
from typing import Any, TypeVar

import msgspec

from tenure.spark.report.histogram import Histogram, merged
from tenure.spark.report.read import Gold, Slice, Totals
from tenure.spark.report.workers import Load, Staffing, slots_needed

K = TypeVar("K")

HOUR_MS = 3_600_000
FINEST = timedelta(days=15)
"""Longer periods are drawn by day instead of by hour."""

FEW_RUNS = 30
"""Below so many, an hour's service times say too little, and the period's are taken."""

NOTABLE = 100
"""Jobs that something must have had in one of the periods for its change to mean anything."""


class Step(msgspec.Struct, frozen=True):
    """One point of the time axis: an hour or a day. Hours in which nothing happened are there too."""

    at: datetime
    totals: Totals
    wait: tuple[float | None, ...]
    run: tuple[float | None, ...]


class Side(msgspec.Struct, frozen=True):
    """What is said of a whole period."""

    totals: Totals
    wait_p95: float | None
    e2e_p95: float | None


class TenantRow(msgspec.Struct, frozen=True):
    """One tenant, or the rest of them under the name of None."""

    tenant: str | None
    totals: Totals
    wait_p95: float | None
    ended_before: int
    members: int = 1


class FailureRow(msgspec.Struct, frozen=True):
    """Errors of one family that read alike."""

    family: str
    pattern: str
    n: int
    final: int
    types: tuple[str, ...]
    first_at: datetime
    last_at: datetime
    example: str
    before: int = 0


class TypeRow(msgspec.Struct, frozen=True):
    """How long a type's runs take."""

    job_type: str
    runs: int
    p50: float
    p95: float
    busy_ms: int
    p95_before: float | None


class UsageRow(msgspec.Struct, frozen=True):
    """What a tenant used, cut at the ends of the period."""

    tenant: str
    attempts: int
    busy_ms: int
    busy_ms_before: int


class WorkerRow(msgspec.Struct, frozen=True):
    """How busy a worker was, over the hours in which it did anything."""

    worker: str
    attempts: int
    busy_ms: int
    hours: int
    peak_slots: float

    @property
    def slots(self) -> float:
        return self.busy_ms / HOUR_MS / self.hours


class QueueRow(msgspec.Struct, frozen=True):
    """A queue in its busiest hour: what came, how it went, and how many slots it would take to keep the target."""

    queue: str
    hour: datetime
    load: Load
    wait_p95: float | None
    busy_slots: float
    mean_busy_slots: float
    needed: Staffing


class Move(msgspec.Struct, frozen=True):
    """Something that changed: of what, whose, from what to what. None: it had none."""

    kind: str
    name: str
    measure: str
    before: float | None
    now: float | None
    weight: float


class Changes(msgspec.Struct, frozen=True):
    """What is different from the period before."""

    moves: tuple[Move, ...]
    new_failures: tuple[FailureRow, ...]
    gone_failures: tuple[FailureRow, ...]


# The whole


def side(part: Slice) -> Side:
    return Side(part.totals(), part.histogram("wait").quantile(0.95), part.histogram("e2e").quantile(0.95))


SHARES = (0.5, 0.95, 0.99)


def steps(part: Slice, zone: tzinfo) -> list[Step]:
    """The period by hour, or by day of the zone where that would be too many points."""
    place = _by_hour if part.period.length <= FINEST else _by_day(zone)
    totals = _gathered(part.totals_by("hour"), place, _added)
    waits = _gathered(part.histograms("wait", "hour"), place, merged)
    runs = _gathered(part.histograms("run", "hour"), place, merged)
    axis = list(dict.fromkeys(place(hour) for hour in part.period.hours()))
    return [Step(at, totals.get(at, Totals()), _quantiles(waits.get(at)), _quantiles(runs.get(at))) for at in axis]


def _by_hour(hour: datetime) -> datetime:
    return hour


def _by_day(zone: tzinfo) -> Callable[[datetime], datetime]:
    return lambda hour: hour.astimezone(zone).replace(hour=0, minute=0)


def _gathered(
    values: Mapping[datetime, K], place: Callable[[datetime], datetime], join: Callable[[list[K]], K]
) -> dict[datetime, K]:
    parts = defaultdict(list)
    for hour, value in values.items():
        parts[place(hour)].append(value)
    return {at: join(found) for at, found in parts.items()}


def _added(parts: Iterable[Totals]) -> Totals:
    rows = [msgspec.structs.astuple(part) for part in parts]
    return Totals(*map(sum, zip(*rows, strict=True))) if rows else Totals()


def _quantiles(histogram: Histogram | None) -> tuple[float | None, ...]:
    return tuple((histogram or Histogram()).quantile(share) for share in SHARES)


def heat(part: Slice, zone: tzinfo) -> list[list[float | None]]:
    """Attempts started an hour, by weekday (Monday first) and hour of day; None where the period has no such hour."""
    started = {hour: totals.started for hour, totals in part.totals_by("hour").items()}
    cells: dict[tuple[int, int], list[int]] = defaultdict(list)
    for hour in part.period.hours():
        local = hour.astimezone(zone)
        cells[local.weekday(), local.hour].append(started.get(hour, 0))
    return [[_mean(cells[day, hour]) for hour in range(24)] for day in range(7)]


def _mean(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


# Who and what


def tenants(now: Slice, before: Slice, most: int) -> list[TenantRow]:
    """The largest by jobs ended, then all others in one row."""
    waits, earlier = now.histograms("wait", "tenant"), before.totals_by("tenant")
    found = sorted(now.totals_by("tenant").items(), key=lambda item: (-item[1].ended, -item[1].busy_ms, item[0]))
    rows = [
        TenantRow(name, totals, _p95(waits.get(name)), earlier.get(name, Totals()).ended)
        for name, totals in found[:most]
    ]
    rest = [name for name, _ in found[most:]]
    if rest:
        wait = merged(waits[name] for name in rest if name in waits)
        ended = sum(earlier.get(name, Totals()).ended for name in rest)
        rows.append(TenantRow(None, _added(totals for _, totals in found[most:]), _p95(wait), ended, len(rest)))
    return rows


def _p95(histogram: Histogram | None) -> float | None:
    return None if histogram is None else histogram.quantile(0.95)


def failures(now: Slice, before: Slice) -> list[FailureRow]:
    """Errors that read alike, the most frequent first."""
    earlier = {(row.family, row.pattern): row.n for row in _families(before)}
    return [msgspec.structs.replace(row, before=earlier.get((row.family, row.pattern), 0)) for row in _families(now)]


def _families(part: Slice) -> list[FailureRow]:
    rows = defaultdict(list)
    for row in part.failures.to_pylist():
        rows[row["error_family"], row["pattern"] or ""].append(row)
    found = [_family(*key, alike) for key, alike in rows.items()]
    return sorted(found, key=lambda row: (-row.n, row.family, row.pattern))


def _family(family: str, pattern: str, rows: list[dict[str, Any]]) -> FailureRow:
    types: Counter[str] = Counter()
    for row in rows:
        types[row["job_type"]] += row["n"]
    earliest = min(rows, key=lambda row: row["first_at"])
    return FailureRow(
        family=family,
        pattern=pattern,
        n=sum(row["n"] for row in rows),
        final=sum(row["final"] for row in rows),
        types=tuple(name for name, _ in types.most_common()),
        first_at=earliest["first_at"],
        last_at=max(row["last_at"] for row in rows),
        example=earliest["example"] or "",
    )


def types(now: Slice, before: Slice, most: int) -> list[TypeRow]:
    """Those with the longest runs, by p95."""
    runs, earlier = now.histograms("run", "job_type"), before.histograms("run", "job_type")
    busy = now.totals_by("job_type")
    rows = [
        TypeRow(
            job_type=name,
            runs=found.n,
            p50=found.quantile(0.5) or 0.0,
            p95=found.quantile(0.95) or 0.0,
            busy_ms=busy.get(name, Totals()).busy_ms,
            p95_before=_p95(earlier.get(name)),
        )
        for name, found in runs.items()
    ]
    return sorted(rows, key=lambda row: (-row.p95, row.job_type))[:most]


def usage(now: Slice, before: Slice) -> list[UsageRow]:
    """Every tenant that used anything, the largest first."""
    used, earlier = now.usage_by("tenant"), before.usage_by("tenant")
    rows = [UsageRow(name, attempts, busy, earlier.get(name, (0, 0))[0]) for name, (busy, attempts) in used.items()]
    return sorted(rows, key=lambda row: (-row.busy_ms, row.tenant))


def workers(now: Slice) -> list[WorkerRow]:
    """Every worker that did anything, the busiest first."""
    hours: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (worker, _), used in now.usage_by("worker", "hour").items():
        hours[worker].append(used)
    rows = [
        WorkerRow(
            worker=worker,
            attempts=sum(attempts for _, attempts in used),
            busy_ms=sum(busy for busy, _ in used),
            hours=len(used),
            peak_slots=max(busy for busy, _ in used) / HOUR_MS,
        )
        for worker, used in hours.items()
    ]
    return sorted(rows, key=lambda row: (-row.busy_ms, row.worker))


def busy_slots(now: Slice) -> dict[datetime, float]:
    """Slots busy on average, in every hour of the period."""
    used = now.usage_by("hour")
    return {hour: used.get(hour, (0, 0))[0] / HOUR_MS for hour in now.period.hours()}


# Workers that a queue needs


def queues(now: Slice, target_seconds: float) -> list[QueueRow]:
    """Every queue in the hour that brought it the most work, the largest first."""
    totals, waits = now.totals_by("queue", "hour"), now.histograms("wait", "queue", "hour")
    runs, used = now.histograms("run", "queue", "hour"), now.usage_by("queue", "hour")
    whole = now.histograms("run", "queue")
    rows = []
    for queue in sorted({queue for queue, _ in totals}):
        loads = {
            hour: _load(found.arrivals, runs.get((queue, hour)), whole.get(queue))
            for (name, hour), found in totals.items()
            if name == queue
        }
        hour = max(loads, key=lambda hour: (loads[hour].offered, loads[hour].per_second, -hour.timestamp()))
        busy = sum(found for (name, _), (found, _) in used.items() if name == queue)
        rows.append(
            QueueRow(
                queue=queue,
                hour=hour,
                load=loads[hour],
                wait_p95=_p95(waits.get((queue, hour))),
                busy_slots=used.get((queue, hour), (0, 0))[0] / HOUR_MS,
                mean_busy_slots=busy / HOUR_MS / max(len(now.period.hours()), 1),
                needed=slots_needed(loads[hour], target_seconds),
            )
        )
    return sorted(rows, key=lambda row: (-row.load.offered, row.queue))


def _load(arrivals: int, hour: Histogram | None, whole: Histogram | None) -> Load:
    service = hour if hour is not None and hour.n >= FEW_RUNS else whole or Histogram()
    return Load(arrivals / 3_600, service.mean() / 1_000, service.variability())


# What changed


def changes(now: Slice, before: Slice, most: int) -> Changes:
    """The largest moves of types, queues and tenants, and the failures that came and went."""
    moves = [move for kind, column in KINDS for move in _moves(kind, column, now, before)]
    mine, theirs = failures(now, before), failures(before, now)
    return Changes(
        moves=tuple(sorted(moves, key=lambda move: (-move.weight, move.kind, move.name, move.measure))[:most]),
        new_failures=tuple(row for row in mine if not row.before),
        gone_failures=tuple(row for row in theirs if not row.before),
    )


KINDS = (("type", "job_type"), ("queue", "queue"), ("tenant", "tenant"))
CHANGED = math.log(1.25)
"""Less than a quarter more or less is no news."""

WEIGHTY = 0.03
"""Nor is a doubling of what is a fifth of a per cent of the jobs."""


def _moves(kind: str, column: str, now: Slice, before: Slice) -> Iterable[Move]:
    """Moves weigh by how large they are, and by the square root of the share of jobs that they are about."""
    mine, theirs = now.totals_by(column), before.totals_by(column)
    measured = {
        f"{measure} p95": (now.histograms(measure, column), before.histograms(measure, column))
        for measure in (("wait",) if kind == "tenant" else ("wait", "run"))
    }
    everything = max(sum(row.ended for row in mine.values()), sum(row.ended for row in theirs.values()), 1)
    for name in sorted({*mine, *theirs}):
        new, old = mine.get(name, Totals()), theirs.get(name, Totals())
        if max(new.ended, old.ended) < NOTABLE:
            continue
        share = math.sqrt(max(new.ended, old.ended) / everything)
        pairs: dict[str, tuple[float | None, float | None]] = {"jobs": (old.ended, new.ended)}
        if min(new.ended, old.ended) >= NOTABLE:
            if _differ(old, new):
                pairs["failed"] = (old.failed / old.ended, new.failed / new.ended)
            for measure, (here, there) in measured.items():
                pairs[measure] = (_p95(there.get(name)), _p95(here.get(name)))
        for measure, (was, is_) in pairs.items():
            size = _size(measure, was, is_)
            if size >= CHANGED and size * share >= WEIGHTY:
                yield Move(kind, name, measure, was, is_, size * share)


def _differ(old: Totals, new: Totals) -> bool:
    """Whether two shares of failures are further apart than chance makes them, by three standard errors."""
    pooled = (old.failed + new.failed) / (old.ended + new.ended)
    error = math.sqrt(pooled * (1 - pooled) * (1 / old.ended + 1 / new.ended))
    return abs(old.failed / old.ended - new.failed / new.ended) > 3 * error


FLOORS = {"jobs": 10.0, "failed": 0.005, "wait p95": 50.0, "run p95": 50.0}
"""Added to both sides, so that a change of next to nothing counts for little."""


def _size(measure: str, was: float | None, is_: float | None) -> float:
    if was is None or is_ is None:
        return 0.0
    floor = FLOORS[measure]
    return abs(math.log((is_ + floor) / (was + floor)))


def compares(gold: Gold) -> bool:
    """Whether there is anything to compare with."""
    return bool(gold.before.hourly.num_rows)


def begins_late(gold: Gold) -> bool:
    """Whether the lake begins within the period that is compared with."""
    return gold.first is not None and gold.before.period.since < gold.first < gold.before.period.until
