"""The measured peer: `huey_consumer bench.worker.huey_jobs.huey`."""

import os

from huey import SqliteHuey  # type: ignore[import-untyped]  # Huey has no types

from bench.worker.board import Marker

huey = SqliteHuey("bench", filename=os.environ["BENCH_HUEY"], fsync=os.environ["BENCH_HUEY_FSYNC"] == "1")
mark = Marker()


@huey.task()  # type: ignore[untyped-decorator]  # Huey has no types
def noop(sent: int) -> None:
    """Nothing, but that it ran."""
    mark(sent)
