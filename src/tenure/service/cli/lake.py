"""`tenure lake`: a store's history in a folder of tables, kept up to date, exported, cleaned."""

import argparse
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tenure.domain.errors import InvalidValue
from tenure.service.cli.arguments import add_command, add_group, add_json, add_store, names, positive, seconds
from tenure.service.cli.extras import spark_extra
from tenure.service.cli.output import Advance, Column, Out
from tenure.service.cli.target import app_of, check_there
from tenure.service.cli.words import size_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tenure.service.cli.arguments import Commands
    from tenure.spark.lake.sync import Sync, Synced

ACTIONS = ("status", "sync", "export", "vacuum", "erase")

EVERY_SECONDS = 10.0
MASTER = "local[*]"

COLUMNS = (
    Column("table"),
    Column("position", right=True),
    Column("rows", right=True),
    Column("files", right=True),
    Column("size", right=True),
)


def declare(commands: "Commands") -> None:
    actions = add_group(commands, "lake", "keep a store's history in a lake of tables, through Spark")
    _add_sync(add_command(actions, "sync", run_sync, "bring a lake up to its store, making it if it isn't there"))
    status = add_command(actions, "status", run_status, "say how the tables of a lake stand")
    _add_lake(status)
    add_json(status)
    export = add_command(actions, "export", run_export, "write tables of a lake as plain Parquet")
    _add_lake(export)
    export.add_argument("--to", required=True, type=Path, metavar="DIR", help="a folder for them")
    export.add_argument("--tables", type=names, metavar="NAME[,…]", help="as in silver.jobs,gold.hourly (default: all)")
    _add_spark(export)
    vacuum = add_command(actions, "vacuum", run_vacuum, "put small files together and delete those no longer needed")
    _add_lake(vacuum)
    vacuum.add_argument("--keep-hours", type=int, metavar="N", help="versions that can still be read (default: 168)")
    add_json(vacuum)
    erase = add_command(actions, "erase", run_erase, "take everything of a tenant out of a lake")
    _add_lake(erase)
    erase.add_argument("--tenant", required=True, help="whose")
    erase.add_argument("--yes", action="store_true", help="don't ask")
    add_json(erase)


def _add_lake(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lake", required=True, type=Path, metavar="DIR", help="the folder of the lake")


def _add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--master", default=MASTER, help="where Spark runs (default: %(default)s)")
    parser.add_argument(
        "--memory", default="2g", metavar="SIZE", help="of Spark's driver, as in 4g (default: %(default)s)"
    )


def _add_sync(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, type=Path, metavar="DIR", help="the folder of the lake")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="end when the lake is up to date (default)")
    how.add_argument("--follow", action="store_true", help="go on until stopped")
    parser.add_argument(
        "--every", type=seconds, default=EVERY_SECONDS, metavar="SECONDS", help="how often, with --follow (default: 10)"
    )
    parser.add_argument("--slo", type=seconds, metavar="SECONDS", help="a job's way from due to done (default: 60)")
    parser.add_argument("--accept-gap", action="store_true", help="go on where retention took events before they came")
    parser.add_argument("--batch", type=positive, metavar="MIB", help="of the feed at once (default: 512)")
    _add_spark(parser)
    add_store(parser)


# Sync


def run_sync(args: argparse.Namespace, out: Out) -> int:
    url = _url(args, out)
    with _spark(args) as spark:
        sync = _sync_of(args, spark, url)
        _say_synced(args, out, _once(sync, out))
        if args.follow:
            _follow(args, out, sync)
    return 0


def _follow(args: argparse.Namespace, out: Out, sync: "Sync") -> None:
    with Stopped() as stopped:
        while not stopped.wait(args.every):
            events = _once(sync, out)
            if events:
                _say_synced(args, out, events)


def _sync_of(args: argparse.Namespace, spark: "SparkSession", url: str) -> "Sync":
    from tenure.spark.lake.sync import BATCH_BYTES, Sync

    return Sync(
        spark,
        url,
        args.to.absolute(),
        slo_ms=None if args.slo is None else round(args.slo * 1_000),
        accept_gap=args.accept_gap,
        batch_bytes=BATCH_BYTES if args.batch is None else args.batch << 20,
    )


def _once(sync: "Sync", out: Out) -> int:
    with out.progress("chunks of the feed", None) as advance:
        return sync.run(_Progress(advance))


class _Progress:
    """How far the feed was taken, for a bar."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance
        self._position = 0

    def __call__(self, step: "Synced") -> None:
        self._advance(step.position - self._position)
        self._position = step.position


def _say_synced(args: argparse.Namespace, out: Out, events: int) -> None:
    if out.json:
        out.item({"lake": str(args.to), "events": events})
    else:
        out.line(f"{events:,} events came; {args.to} is up to date")


class Stopped:
    """Whether somebody asked for the end: a sync that is under way is brought to its end first."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stopped":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()

    def wait(self, timeout: float) -> bool:
        return self._asked.wait(timeout)


# The others


def run_status(args: argparse.Namespace, out: Out) -> int:
    with spark_extra():
        from tenure.spark.lake.upkeep import state
    tables = state(args.lake.absolute())
    if out.json:
        out.document({"tables": tables})
        return 0
    rows = [
        (
            one.name,
            "-" if one.position is None else f"{one.position:,}",
            f"{one.rows:,}",
            f"{one.files:,}",
            size_text(one.bytes),
        )
        for one in tables
    ]
    out.table(COLUMNS, rows)
    return 0


def run_export(args: argparse.Namespace, out: Out) -> int:
    with _spark(args) as spark, out.progress("tables", None) as advance:
        from tenure.spark.lake.reading import export
        from tenure.spark.lake.schemas import TABLES

        export(spark, args.lake.absolute(), args.to.absolute(), args.tables or TABLES, lambda _: advance(1))
    out.line(f"written to {args.to}")
    return 0


def run_vacuum(args: argparse.Namespace, out: Out) -> int:
    with spark_extra():
        from tenure.spark.lake.upkeep import KEEP_HOURS, vacuum
    hours = KEEP_HOURS if args.keep_hours is None else args.keep_hours
    if hours < 0:
        raise InvalidValue(f"--keep-hours {hours}: give 0 or more")
    with out.progress("tables", None) as advance:
        cleaned = vacuum(args.lake.absolute(), hours, lambda _: advance(1))
    if out.json:
        out.document(cleaned)
    else:
        out.line(f"{cleaned.compacted:,} files fewer by putting small ones together, {cleaned.deleted:,} deleted")
    return 0


def run_erase(args: argparse.Namespace, out: Out) -> int:
    with spark_extra():
        from tenure.spark.lake.upkeep import erase
    if not args.yes and not out.ask(f"erase everything of {args.tenant} from {args.lake}, for good?"):
        return 1
    with out.progress("tables", None) as advance:
        rows = erase(args.lake.absolute(), args.tenant, lambda _: advance(1))
    if out.json:
        out.document({"tenant": args.tenant, "rows": rows})
    else:
        out.line(f"{rows:,} rows of {args.tenant} erased; its events in the store are past the lake, and stay there")
    return 0


# Spark


def _url(args: argparse.Namespace, out: Out) -> str:
    url = app_of(args, out).url
    check_there(url)
    return str(url)


@contextmanager
def _spark(args: argparse.Namespace) -> Iterator["SparkSession"]:
    """A session for one command; the one that runs if there is one."""
    with spark_extra():
        from pyspark.sql import SparkSession

        from tenure.spark import session
    running = SparkSession.getActiveSession()
    config = {"spark.driver.memory": args.memory, "spark.sql.shuffle.partitions": "8"}
    with nullcontext() if args.debug else _silent_children():
        spark = session(master=args.master, name="tenure lake", config=config) if running is None else running
    try:
        yield spark
    finally:
        if running is None:
            spark.stop()


@contextmanager
def _silent_children() -> Iterator[None]:
    """Java keeps the stderr that it starts with, and has much to say there; what goes wrong is raised here anyway."""
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
