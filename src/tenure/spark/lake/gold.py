"""Gold: what happened in each hour, by tenant, queue and job type.

Every measure belongs to the hour of the event that completes it: a wait to the claim, a run to its end, a job's whole
way to its last event. So an hour that is past stays as it is. Hourly rows have exact percentiles and are recomputed
for the hours that new events touch; the other tables are additive, and only grow.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tenure.spark.lake.schemas import (
    BASE,
    COUNTS,
    FAILURES_TABLE,
    HOURLY_TABLE,
    LATENCY_TABLE,
    MEASURES,
    PERCENTILES,
    USAGE_TABLE,
)
from tenure.spark.lake.silver import LOST

WINDOW = ("hour", "tenant", "queue", "job_type")
_HOUR = "date_trunc('HOUR', at) as hour"
_KINDS = {
    "enqueued": "kind = 'enqueued'",
    "started": "kind = 'claimed'",
    "succeeded": "kind = 'succeeded'",
    "failed": "kind = 'failed'",
    "cancelled": "kind = 'cancelled'",
    "expired": "kind = 'cancelled' and reason <=> 'expired'",
    "retries": "kind = 'retry_scheduled'",
    "released": "kind = 'released'",
    "lease_losses": LOST,
}
_COUNTED = (
    "kind in ('enqueued', 'claimed', 'succeeded', 'failed', 'cancelled', 'retry_scheduled', 'released', 'lease_lost')"
)


def hourly(events: DataFrame, jobs: DataFrame, slo_ms: int) -> DataFrame:
    """Windows of all these events, and of these jobs that ended."""
    counted = events.where(f"job_id is not null and {_COUNTED}").selectExpr(
        _HOUR,
        *WINDOW[1:],
        *(f"if({condition}, 1L, 0L) as {name}" for name, condition in _KINDS.items()),
        "coalesce(run_ms, 0L) as busy_ms",
        "if(kind = 'claimed', waited_ms, null) as wait",
        "run_ms as run",
        "cast(null as bigint) as e2e",
        "0L as slo_n",
        "0L as slo_ok",
    )
    ended = jobs.where("state in ('succeeded', 'failed') and e2e_ms is not null").selectExpr(
        "date_trunc('HOUR', finished_at) as hour",
        *WINDOW[1:],
        *(f"0L as {name}" for name in COUNTS),
        "cast(null as bigint) as wait",
        "cast(null as bigint) as run",
        "if(state = 'succeeded', e2e_ms, null) as e2e",
        "1L as slo_n",
        f"if(state = 'succeeded' and e2e_ms <= {slo_ms}, 1L, 0L) as slo_ok",
    )
    shares = F.array(*(F.lit(share) for share in PERCENTILES.values()))
    found = (
        counted.unionByName(ended)
        .groupBy(*WINDOW)
        .agg(
            *(F.sum(name).alias(name) for name in COUNTS),
            *(F.percentile(measure, shares).alias(measure) for measure in MEASURES),
            F.sum("slo_n").alias("slo_n"),
            F.sum("slo_ok").alias("slo_ok"),
        )
    )
    return found.selectExpr(
        *WINDOW,
        *COUNTS,
        *(f"{measure}[{place}] as {measure}_{name}" for measure in MEASURES for place, name in enumerate(PERCENTILES)),
        "slo_n",
        "slo_ok",
    ).select(*HOURLY_TABLE.columns.names)


def latency(events: DataFrame, jobs: DataFrame) -> DataFrame:
    """How often each time was taken, rounded: of new events, and of jobs that ended since."""
    measured = events.where(
        "job_id is not null and (run_ms is not null or (kind = 'claimed' and waited_ms is not null))"
    )
    of_events = measured.selectExpr(
        _HOUR,
        *WINDOW[1:],
        "if(kind = 'claimed', 'wait', 'run') as measure",
        "if(kind = 'claimed', waited_ms, run_ms) as ms",
    )
    of_jobs = jobs.where("state = 'succeeded' and e2e_ms is not null").selectExpr(
        "date_trunc('HOUR', finished_at) as hour", *WINDOW[1:], "'e2e' as measure", "e2e_ms as ms"
    )
    bucket = f"cast(ceil(ln(greatest(ms, 1L)) / ln({BASE}D)) as int) as bucket"
    rows = of_events.unionByName(of_jobs).selectExpr(*WINDOW, "measure", bucket)
    return rows.groupBy(*LATENCY_TABLE.key).agg(F.count("*").alias("n")).select(*LATENCY_TABLE.columns.names)


_REPLACED = (
    ("[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "#"),
    ("0x[0-9a-fA-F]+", "#"),
    ("'[^']*'", "'…'"),
    ('"[^"]*"', '"…"'),
    ("[0-9]+", "#"),
    ("[ \\t\\r\\n]+", " "),
)
"""What differs between two messages of the same failure."""
PATTERN_LENGTH = 200


def failures(events: DataFrame) -> DataFrame:
    """Errors by family and by the pattern of their message, with the first as an example."""
    pattern = F.coalesce("message", F.lit(""))
    for regex, instead in _REPLACED:
        pattern = F.regexp_replace(pattern, regex, instead)
    rows = events.where("job_id is not null and error_family is not null").withColumn(
        "pattern", F.substring(pattern, 1, PATTERN_LENGTH)
    )
    found = (
        rows.selectExpr(_HOUR, "*")
        .groupBy(*FAILURES_TABLE.key)
        .agg(
            F.count("*").alias("n"),
            F.sum(F.expr("if(kind = 'failed', 1L, 0L)")).alias("final"),
            F.expr("min_by(message, struct(pos, idx))").alias("example"),
            F.min("at").alias("first_at"),
            F.max("at").alias("last_at"),
            F.min("pos").alias("first_pos"),
        )
    )
    return found.select(*FAILURES_TABLE.columns.names)


def usage(events: DataFrame) -> DataFrame:
    """How long each worker was busy in each hour: an attempt is cut where an hour ends."""
    ended = events.where("job_id is not null and run_ms is not null and worker is not null").selectExpr(
        "worker",
        *WINDOW[1:],
        "at as ended",
        "timestamp_millis(unix_millis(at) - run_ms) as began",
    )
    slices = ended.selectExpr(
        "*",
        "explode(sequence(date_trunc('HOUR', began), date_trunc('HOUR', ended), interval 1 hour)) as hour",
    ).selectExpr(
        "worker",
        *WINDOW,
        "unix_millis(least(ended, hour + interval 1 hour)) - unix_millis(greatest(began, hour)) as busy_ms",
        "if(hour = date_trunc('HOUR', ended), 1L, 0L) as attempts",
    )
    found = slices.groupBy(*USAGE_TABLE.key).agg(F.sum("busy_ms").alias("busy_ms"), F.sum("attempts").alias("attempts"))
    return found.select(*USAGE_TABLE.columns.names)
