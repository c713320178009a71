"""A DataFrame into jobs and back: `python -m examples.enrich.run [ROWS] [RATE]`."""

import asyncio
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from examples.enrich.app import URL, app, configure
from tenure import State
from tenure.spark import enqueue, results, session

HERE = "examples.enrich.app:app"
KEY = ["ip"]
"""What makes a row the same row: an address is looked up once, whoever asks for it again."""

LIVE = (State.PENDING, State.RUNNING)


def main(rows: int, rate: str) -> int:
    spark = session(config={"spark.sql.shuffle.partitions": "4"})  # one machine needs no 200
    try:
        seen = customers(spark, rows)
        start = time.perf_counter()
        summary = enqueue(seen.select("ip"), url=URL, job_type="locate", key_columns=KEY, app=HERE)
        print(f"{summary.enqueued} addresses to look up, {summary.duplicate} asked for before ({_since(start)})")

        start = time.perf_counter()
        asyncio.run(work(rate))
        print(f"looked up, at most {rate} ({_since(start)})")

        found = results(seen, url=URL, job_type="locate", key_columns=KEY, schema="country string, trust double")
        for row in found.groupBy("state", "result.country").count().orderBy("state", "country").collect():
            print(f"{row['state']:>10} {row['country'] or '':>3} {row['count']:>8}")
    finally:
        spark.stop()
    return 0


def customers(spark: SparkSession, rows: int) -> DataFrame:
    """Customers with the address that they were last seen at; every hundredth one is in a private network."""
    n = f.col("id")
    net = f.when(n % 100 == 0, "10").otherwise((11 + n % 80).cast("string"))
    rest = [(n / 65_536).cast("int") % 256, (n / 256).cast("int") % 256, n % 256]
    return spark.range(rows).select(n.alias("customer"), f.concat_ws(".", net, *rest).alias("ip"))


async def work(rate: str) -> None:
    """Workers would run elsewhere and all the time. Here one runs until no lookup is left."""
    async with app:
        await configure(rate)
        async with app.worker(concurrency=200):
            while await app.jobs(job_type="locate", state=LIVE, limit=1):  # noqa: ASYNC110 workers may be anywhere
                await asyncio.sleep(0.2)


def _since(start: float) -> str:
    return f"{time.perf_counter() - start:.1f} s"


if __name__ == "__main__":
    rows, rate = [*sys.argv[1:], *("100000", "5000/s")[len(sys.argv) - 1 :]]
    sys.exit(main(int(rows), rate))
