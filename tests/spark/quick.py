"""What makes Spark cheap where a test is about something else: its processes start, plan and compile less."""

from pathlib import Path

C1 = "-XX:TieredStopAtLevel=1"
"""Java's quick compiler alone: tests end before what the other one makes would pay."""

PLANS = {
    "spark.log.level": "OFF",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}
SMALL = {"spark.driver.extraJavaOptions": C1, "spark.executor.extraJavaOptions": C1, **PLANS}
"""Compiling takes longer than what tests do: a small lake took 28 s with the defaults, 21 s with these."""


def environment(folder: Path) -> dict[str, str]:
    """The same for the sessions of a process that is started with it; the defaults are kept in a file of the folder."""
    lines = (f"{name} {value}\n" for name, value in PLANS.items())
    (folder / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    return {"SPARK_CONF_DIR": str(folder), "SPARK_SUBMIT_OPTS": C1}
