"""Tenure's history in Spark, through PySpark. Needs the extra `spark`.

spark = tenure.spark.session()
spark.read.format("tenure").option("url", "sqlite:////var/lib/shop/jobs.db").load()
"""

from importlib.util import find_spec

from tenure.domain.extras import Extra, needs

if any(find_spec(name) is None for name in ("pyspark", "pyarrow", "deltalake")):
    raise ImportError(needs("tenure.spark", Extra.SPARK))

from tenure.spark.batches import batch_summary, enqueue, results
from tenure.spark.lake.reading import table
from tenure.spark.session import register, session
from tenure.spark.summary import BatchSummary, Rejected

__all__ = ["BatchSummary", "Rejected", "batch_summary", "enqueue", "register", "results", "session", "table"]
