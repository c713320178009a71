"""Gold tables made up for tests of the report: rows as the lake has them, and two weeks of a shop that might exist."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from tenure.spark.report.read import COUNTED, TABLES

HOUR = timedelta(hours=1)
MONDAY = datetime(2026, 11, 2, tzinfo=UTC)
"""The first hour of the second week of the shop."""

PERCENTILES = [f"{measure}_p{share}" for measure in ("wait", "run", "e2e") for share in (50, 95, 99)]

Row = dict[str, Any]


def bucket(milliseconds: float) -> int:
    return math.ceil(math.log(max(milliseconds, 1)) / math.log(1.02))


class Lake:
    """Rows of the gold tables, kept until they are written."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES}

    def hour(
        self, at: datetime, tenant: str = "acme", queue: str = "mail", job_type: str = "send", **counted: int
    ) -> None:
        """A row of gold.hourly: what isn't named is 0, and percentiles are null."""
        key = {"hour": at, "tenant": tenant, "queue": queue, "job_type": job_type}
        self.rows["hourly"].append({**key, **dict.fromkeys(COUNTED, 0), **dict.fromkeys(PERCENTILES), **counted})

    def durations(
        self,
        at: datetime,
        measure: str,
        values: Iterable[float],
        tenant: str = "acme",
        queue: str = "mail",
        job_type: str = "send",
    ) -> None:
        key = {"hour": at, "tenant": tenant, "queue": queue, "job_type": job_type, "measure": measure}
        self.rows["latency"] += [{**key, "bucket": one, "n": n} for one, n in Counter(map(bucket, values)).items()]

    def failure(self, at: datetime, family: str, message: str = "", n: int = 1, final: int = 0, **place: Any) -> None:
        key = {"hour": at, "tenant": "acme", "queue": "mail", "job_type": "send", "pattern": message[:200], **place}
        seen = {"first_at": at + timedelta(minutes=1), "last_at": at + timedelta(minutes=50)}
        self.rows["failures"].append(
            {**key, **seen, "error_family": family, "n": n, "final": final, "example": message}
        )

    def usage(self, at: datetime, busy_ms: int, attempts: int = 1, worker: str = "w1", **place: Any) -> None:
        key = {"hour": at, "tenant": "acme", "queue": "mail", "job_type": "send", **place}
        self.rows["usage"].append({**key, "worker": worker, "busy_ms": busy_ms, "attempts": attempts})

    def write(self, path: Path, *, tables: Iterable[str] = tuple(TABLES)) -> Path:
        """Each table in two commits, as a lake that grew; what is additive has some of its keys in both."""
        for name in tables:
            rows = [{**row, "day": f"{row['hour']:%Y-%m-%d}"} for row in self.rows[name]]
            half = len(rows) // 2
            for part in (rows[:half], rows[half:]):
                table = pa.Table.from_pylist(part, schema=_schema(name))
                write_deltalake(
                    path / "gold" / name,
                    table,
                    mode="append",
                    partition_by=["day"],
                )
        return path


def _schema(name: str) -> pa.Schema:
    schema = TABLES[name].append(pa.field("day", pa.string()))
    for column in PERCENTILES if name == "hourly" else ():
        schema = schema.append(pa.field(column, pa.float64()))
    return schema


# The shop

TYPES = {
    "send_receipt": ("mail", 40, 800, 0.7),
    "send_newsletter": ("mail", 25, 1_200, 0.6),
    "deliver_webhook": ("webhooks", 60, 2_500, 1.1),
    "render_thumbnail": ("media", 30, 6_000, 0.8),
    "transcode_video": ("media", 3, 240_000, 1.0),
    "nightly_report": ("reports", 2, 90_000, 0.9),
    "reindex_catalogue": ("reports", 1, 400_000, 0.5),
}
"""Queue, jobs in a usual hour, median run in milliseconds, and how much runs vary."""

TENANTS = {"northwind": 0.46, "contoso": 0.22, "fabrikam": 0.14, "adventure-works": 0.08, "tailspin": 0.04} | {
    f"shop-{number:02}": 0.06 / 14 for number in range(1, 15)
}
"""Their shares of the load."""

FAILURES = {
    "send_receipt": ("SMTPRecipientsRefused", "550 mailbox '{n}@example.org' unavailable"),
    "send_newsletter": ("SMTPRecipientsRefused", "550 mailbox '{n}@example.org' unavailable"),
    "deliver_webhook": ("ConnectTimeout", "timed out after {n} ms connecting to hooks.example.org:443"),
    "render_thumbnail": ("UnidentifiedImageError", "cannot identify image file 'upload-{n}.heic'"),
    "transcode_video": ("MemoryError", "frame buffer of {n} bytes can't be had"),
    "nightly_report": ("KeyError", "'region'"),
    "reindex_catalogue": ("TimeLimitExceeded", "ran longer than 600 s"),
}

STORM = MONDAY + timedelta(days=3, hours=14)
SILENT = MONDAY + timedelta(days=4, hours=3)
"""An hour with no row at all."""


def shop(*, weeks: int = 2, seed: int = 7) -> Lake:
    """Two weeks of diurnal load, tenants of very different size, failures, a storm of retries, an hour of silence."""
    chance, lake = random.Random(seed), Lake()
    for index in range(weeks * 168):
        at = MONDAY - timedelta(days=7 * (weeks - 1)) + HOUR * index
        if at == SILENT:
            continue
        for job_type, (queue, rate, median, spread) in TYPES.items():
            jobs = rate * _diurnal(at) * (1.15 if at >= MONDAY else 1.0)
            for tenant, share in TENANTS.items():
                number = _poisson(chance, jobs * share * 2)
                if number:
                    slower = 1.6 if job_type == "render_thumbnail" and at >= MONDAY else 1.0
                    _fill(lake, chance, at, tenant, queue, job_type, number, median * slower, spread)
    return lake


def _fill(
    lake: Lake,
    chance: random.Random,
    at: datetime,
    tenant: str,
    queue: str,
    job_type: str,
    number: int,
    median: float,
    spread: float,
) -> None:
    """One window: jobs that come, wait, run, and mostly succeed."""
    storm = job_type == "deliver_webhook" and STORM <= at < STORM + 3 * HOUR
    failed = sum(chance.random() < (0.08 if storm else 0.012) for _ in range(number))
    retries = sum(chance.random() < (1.4 if storm else 0.03) for _ in range(number * (2 if storm else 1)))
    started = number + retries
    runs = [chance.lognormvariate(math.log(median), spread) for _ in range(started)]
    crowded = _diurnal(at) ** 3 * (6 if storm else 1)
    waits = [chance.expovariate(1) * 180 * crowded + 8 for _ in range(started)]
    ended = number - failed
    place: Row = {"tenant": tenant, "queue": queue, "job_type": job_type}
    lake.hour(
        at,
        **place,
        enqueued=number,
        started=started,
        succeeded=ended,
        failed=failed,
        retries=retries,
        lease_losses=int(chance.random() < 0.01),
        busy_ms=int(sum(runs)),
        slo_n=number,
        slo_ok=sum(wait + run < 60_000 for wait, run in zip(waits[:ended], runs[:ended], strict=True)),
    )
    lake.durations(at, "wait", waits, **place)
    lake.durations(at, "run", runs, **place)
    lake.durations(at, "e2e", [wait + run for wait, run in zip(waits[:ended], runs[:ended], strict=True)], **place)
    if failed or retries:
        family, message = FAILURES[job_type]
        example = message.replace("{n}", str(chance.randint(100, 99_999)))
        lake.failure(at, family, example, failed + retries, failed, **place, pattern=message.replace("{n}", "#"))
    if at >= MONDAY + timedelta(days=2) and job_type == "send_newsletter" and failed:
        lake.failure(at, "TemplateSyntaxError", "unexpected end of 'block' in line 12", failed, failed, **place)
    busy: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        busy[f"{queue}-{chance.randint(1, 3)}"].append(run)
    for worker, mine in busy.items():
        lake.usage(at, int(sum(mine)), len(mine), worker, **place)


def _diurnal(at: datetime) -> float:
    """More by day than by night, and less at weekends."""
    day = (
        0.25 + 0.75 * max(0.0, math.sin((at.hour - 5) / 24 * 2 * math.pi)) + 0.2 * math.exp(-((at.hour - 14) ** 2) / 8)
    )
    return day * (0.45 if at.weekday() >= 5 else 1.0)


def _poisson(chance: random.Random, mean: float) -> int:
    limit, product, number = math.exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        number += 1
    return number
