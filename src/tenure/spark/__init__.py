"""Tenure's history in Spark, through PySpark. Needs the extra `spark`.

spark = tenure.spark.session()
spark.read.format("tenure").option("url", "sqlite:////var/lib/shop/jobs.db").load()
"""

from importlib.util import find_spec

if find_spec("pyspark") is None or find_spec("pyarrow") is None:
    raise ImportError("tenure.spark needs the extra 'spark': pip install 'tenure[spark]'")

from tenure.spark.session import register, session

__all__ = ["register", "session"]
