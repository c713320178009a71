"""Rates of the Spark source and sink: `python -m bench.spark_rates [--record] [--jobs 200_000]`."""

import argparse
import sys
from pathlib import Path

from bench import markdown, record, spark_read, spark_write
from bench.record import RESULTS
from tenure.spark import session


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_rates", description=__doc__)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="put the stores there (a folder on a real disk)")
    parser.add_argument("--record", action="store_true", help="keep the figures in bench/results/spark.json")
    options = parser.parse_args()
    spark = session(master="local[2]", config={"spark.log.level": "OFF"})
    try:
        print("reading", flush=True)
        read = spark_read.measure(options.jobs, parent=options.dir, runs=options.runs, spark=spark)
        print("writing", flush=True)
        written = spark_write.measure(options.rows, spark, parent=options.dir, runs=options.runs)
    finally:
        spark.stop()
    if options.record:
        record.write(RESULTS / "spark.json", "python -m bench.spark_rates --record", {"read": read, "write": written})
        markdown.write(RESULTS, markdown.PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
