"""Reading a lake: its tables for Spark, and plain Parquet for everything else."""

from collections.abc import Callable, Iterable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tenure.domain.errors import InvalidValue
from tenure.spark.lake.log import Log
from tenure.spark.lake.schemas import TABLES, LakeTable, lake_table
from tenure.spark.lake.sync import rows_of


def table(spark: SparkSession, lake: str | Path, name: str) -> DataFrame:
    """A table of a lake as it is now: what is committed later isn't seen. Each key stands in one row."""
    log = Log.open(Path(lake), lake_table(name))
    rows = rows_of(spark, log, log.files)
    rows = _summed(rows, log.table) if log.table.sums else rows
    return rows.selectExpr(*(f"`{column}`" for column in log.table.columns.names), _partition(log.table))


def _partition(table: LakeTable) -> str:
    return f"{table.value} as {table.partition}"


def _summed(rows: DataFrame, table: LakeTable) -> DataFrame:
    """One row a key, of a table that only grows."""
    others = {
        "example": F.expr("min_by(example, first_pos)"),
        "first_at": F.min("first_at"),
        "last_at": F.max("last_at"),
        "first_pos": F.min("first_pos"),
    }
    rest = [name for name in table.columns.names if name not in table.key]
    return rows.groupBy(*table.key).agg(
        *((F.sum(name) if name in table.sums else others[name]).alias(name) for name in rest)
    )


def export(
    spark: SparkSession,
    lake: str | Path,
    to: str | Path,
    tables: Iterable[str] = TABLES,
    told: Callable[[str], None] = lambda _: None,
) -> None:
    """Writes tables as plain Parquet, a folder each, by their partition column."""
    wanted = [lake_table(name) for name in tables]
    taken = [Path(to) / one.name for one in wanted if (Path(to) / one.name).exists()]
    if taken:
        raise InvalidValue(f"{taken[0]} exists: give a folder without it")
    for one in wanted:
        table(spark, lake, one.name).write.partitionBy(one.partition).parquet(str(Path(to) / one.name))
        told(one.name)
