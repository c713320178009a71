"""Work on real executor processes, some of which are killed: `python -m tests.spark.cluster PART[,…] STORE LAKE`.

Run by test_cluster.py, and in full by test_cluster_story.py, in processes of its own: a driver is killed too.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import venv
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tenure
from bench.lake.check import differences
from bench.lake.memory import tree
from tenure.domain.errors import NotReady
from tenure.spark import enqueue, register, session
from tenure.spark.lake.log import Log
from tenure.spark.lake.sync import Sync
from tests.spark.quick import SMALL

MASTER = "local-cluster[2,1,1024]"
ALONE = "local-cluster[1,1,1024]"
ROWS = 20_000
FEW_ROWS = 4_000
EXECUTOR = b"CoarseGrainedExecutorBackend"


def executors() -> list[int]:
    """Ours, not another session's."""
    found = []
    for pid in tree(os.getpid()):
        try:
            if EXECUTOR in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue  # it has ended
    return found


@contextmanager
def killed(when: Callable[[], bool]) -> Iterator[list[int]]:
    """Kills one executor, once, as soon as something has come true."""
    dead: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while not when():
            if ended.wait(0.005):
                return
        dead.append(executors()[0])
        os.kill(dead[0], signal.SIGKILL)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield dead
    finally:
        ended.set()
        thread.join()


def written(lake: Path) -> set[Path]:
    """Files of bronze, whether a log knows them or not."""
    return set((lake / "bronze" / "events").glob("run=*/date=*/*.parquet"))


def sync(spark: SparkSession, store: Path, lake: Path) -> None:
    """Two batches; an executor dies while it writes the first."""
    size = store.stat().st_size
    before = written(lake)
    with killed(lambda: bool(written(lake) - before)) as dead:
        events = Sync(spark, f"sqlite:///{store}", lake, batch_bytes=size // 3).run()
    print("synced", events, "executors killed", len(dead), "differences", differences(spark, store, lake), flush=True)


def bulk(spark: SparkSession, store: Path, lake: Path) -> None:
    """Rows become jobs of a store beside the other, and an executor dies while it sends them."""
    sent(spark, store.with_name("bulk.db"), ROWS)


def agree(spark: SparkSession, store: Path, lake: Path) -> None:
    """Fewer rows, and a lake of what became of them."""
    sent(spark, store, FEW_ROWS)
    events = Sync(spark, f"sqlite:///{store}", lake).run()
    print("synced", events, "differences", differences(spark, store, lake), flush=True)


def sent(spark: SparkSession, store: Path, count: int) -> None:
    rows = spark.range(count).selectExpr("id as n").repartition(2)
    with killed(lambda: jobs_in(store) > count // 20) as dead:
        summary = enqueue(rows, url=f"sqlite:///{store}", job_type="greet", queue="mail", key_columns=["n"])
    read = spark.read.format("tenure").option("url", f"sqlite:///{store}").option("partitions", "2").load()
    keys = {row["key"] for row in read.select("key").collect()}
    print("rows", summary.rows, "jobs", read.count(), "keys", len(keys), "executors killed", len(dead), flush=True)


def jobs_in(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM job").fetchone()[0])
    except sqlite3.Error:
        return 0  # it isn't there yet


def cut(spark: SparkSession, store: Path, lake: Path) -> None:
    """The driver dies in the middle of a commit: its files are there, the log doesn't know them."""
    commit = Log.commit

    def die(log: Log, *args: Any, **kwargs: Any) -> None:
        if log.table.name == "silver.jobs":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(log, *args, **kwargs)

    Log.commit = die  # type: ignore[method-assign, assignment]
    Sync(spark, f"sqlite:///{store}", lake).run()


def versions(spark: SparkSession, store: Path, lake: Path) -> None:
    """A driver whose Tenure is another than its executors'."""
    here = tenure.__version__
    tenure.__version__ = "0.0.1"
    try:
        register(spark)
    except NotReady as error:
        print(str(error).replace(here, "VERSION"), flush=True)
    finally:
        tenure.__version__ = here


def bare(spark: SparkSession, store: Path, lake: Path) -> None:
    """Executors whose Python has nothing installed, in the Java that runs already; it ends the session."""
    spark.stop()
    python = store.with_name("bare")
    venv.create(python, symlinks=True)
    os.environ["PYSPARK_PYTHON"] = str(python / "bin" / "python")
    try:
        session(master=ALONE, config=SMALL)
    except NotReady as error:
        print(error, flush=True)


PARTS = {"sync": sync, "bulk": bulk, "cut": cut, "versions": versions, "agree": agree, "bare": bare}


def run(parts: str, store: Path, lake: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", __name__, parts, str(store), str(lake)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def main() -> None:
    parts, store, lake = sys.argv[1:]
    spark = session(master=MASTER, config=SMALL)
    for part in parts.split(","):
        PARTS[part](spark, Path(store), Path(lake))
    spark.stop()


if __name__ == "__main__":
    main()
