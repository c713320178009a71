"""On executors that are processes of their own: one is killed in the middle of its work, others lack Tenure.

`make cluster` runs the longer story, in which the driver is killed too.
"""

from pathlib import Path

from tests.spark.cluster import FEW_ROWS, run


def test_source_sink_and_lake_agree_on_a_cluster_and_executors_without_the_package_are_found(tmp_path: Path) -> None:
    done = run("versions,agree,bare", tmp_path / "jobs.db", tmp_path / "lake")
    assert done.returncode == 0, done.stderr[-2_000:]
    *said, refused = done.stdout.splitlines()
    assert said == [
        "executors have Tenure VERSION, the driver 0.0.1: install the same",
        f"rows {FEW_ROWS} jobs {FEW_ROWS} keys {FEW_ROWS} executors killed 1",
        f"synced {FEW_ROWS} differences {{}}",
    ]
    assert refused.startswith("executors can't run Tenure (ModuleNotFoundError: "), refused
    assert "install tenure[spark] in the Python that their tasks run" in refused
