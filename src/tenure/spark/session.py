"""A Spark session that works from pip alone, and what anyone's own session needs for Tenure's sources."""

import os
import sys
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tenure
from tenure.domain.errors import NotReady
from tenure.spark.java import java_home
from tenure.spark.source import TenureSource

OLDEST = (4, 2)
"""The Spark whose Python sources have everything that is used here."""

NEEDED = {"spark.sql.python.filterPushdown.enabled": "true"}
"""Without it Spark refuses a source that can be given filters."""

COMPILED = "1000"
"""Of Spark's own 100 a sync of the lake needs more each time, and then compiles all of them each time: 10 M events took
299 s instead of 236."""

OURS = {
    **NEEDED,
    "spark.sql.codegen.cache.maxEntries": COMPILED,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
JAVA = ("-XX:+UseParallelGC", "-XX:FreqInlineSize=120", "-XX:InlineSmallCode=1200", "-XX:MaxInlineLevel=9")
"""A collector for throughput: silver.jobs of 10 M events took 56 s instead of 66. And less inlining: of 4 M events Java
compiled for 43 s instead of 74, they took 114 s instead of 128, and what it had compiled was no slower."""
ON_ONE_MACHINE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": " ".join(JAVA),
    "spark.driver.host": "127.0.0.1",
}


def session(*, master: str = "local[*]", name: str = "tenure", config: Mapping[str, str] | None = None) -> SparkSession:
    """A session with Tenure's sources registered; the running one if there is one, as Spark has it.

    `config` goes over what is set here. On one machine nothing listens but on loopback.
    """
    local = master.startswith("local")
    os.environ["JAVA_HOME"] = java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else tasks run in whatever `python3` is
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**OURS, **(ON_ONE_MACHINE if local else {}), **(config or {})}.items():
        builder = builder.config(key, value)
    running = SparkSession.getActiveSession()
    spark = builder.getOrCreate()
    try:
        return register(spark)
    except NotReady:
        if running is None:
            spark.stop()
        raise


def register(spark: SparkSession) -> SparkSession:
    """Makes `format("tenure")` known to a session of one's own. Raises `NotReady` for one where it can't work."""
    version = tuple(int(part) for part in spark.version.split(".")[:2])
    if version < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise NotReady(f"this is Spark {spark.version}: Tenure's sources need {wanted} or newer")
    for key, value in NEEDED.items():
        spark.conf.set(key, value)
    if not _in_one_process(spark):
        _check_executors(spark)
    spark.dataSource.register(TenureSource)
    return spark


def _in_one_process(spark: SparkSession) -> bool:
    master = spark.conf.get("spark.master", "") or ""
    return master == "local" or master.startswith("local[")


def _check_executors(spark: SparkSession) -> None:
    """Asks the executors there are which Tenure they have. One that comes later is not asked, and fails its task."""
    tasks = max(2, spark.sparkContext.defaultParallelism)
    try:
        rows = spark.range(0, tasks, 1, tasks).mapInArrow(_version, "version string").distinct().collect()
    except PySparkException as error:
        said = [line for line in str(error).splitlines() if "Error: " in line]
        raise NotReady(
            f"executors can't run Tenure ({said[-1].strip() if said else error}): install tenure[spark] in the Python "
            "that their tasks run, on every node, or set PYSPARK_PYTHON to one that has it"
        ) from error
    others = sorted({row["version"] for row in rows} - {tenure.__version__})
    if others:
        raise NotReady(f"executors have Tenure {', '.join(others)}, the driver {tenure.__version__}: install the same")


def _version(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"version": [tenure.__version__] * batch.num_rows})
