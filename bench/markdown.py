"""docs/benchmarks.md, written from the records alone."""

from pathlib import Path
from statistics import median

from bench import fairness, record
from bench.postgres import page as postgres
from bench.record import ROOT, Figures
from bench.subject import RATES
from bench.table import lines

PAGE = ROOT / "docs" / "benchmarks.md"

INTRO = """# Benchmarks

Written by the commands that record, from `bench/results/`; don't edit it. Only ratios within one run carry over to
another machine: a commit costs what its disk costs. No-op jobs, every answer after its COMMIT; one client process
unless said otherwise.
"""
OF_BARE = ["of bare: enqueue", "claim, settle", "exchange"]


def write(results: Path, page: Path) -> None:
    """The page, from the records in a folder."""
    parts = [INTRO]
    for name, section in SECTIONS:
        figures = record.read(name, results)
        if figures is not None:
            parts.append(section(figures) + "\n" + origin(figures))
            if name == "postgres":
                postgres.write_chart(figures, page.with_name(postgres.CHART))
    page.write_text("\n".join(parts), encoding="utf-8")


def origin(figures: Figures) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in figures["machine"].items())
    changed = ", with uncommitted changes" if figures["changed"] else ""
    return f"Taken {figures['date']} at commit `{figures['commit'][:12]}`{changed}: {machine}.\n"


def throughput(figures: Figures) -> str:
    head = ["jobs/s", "batch", "enqueue", "claim, settle", "exchange", "CPU µs/job", *OF_BARE]
    rows: list[list[object]] = [
        [
            row["subject"],
            row["batch"],
            *(f"{row[field]:,}" for field in RATES),
            row["cpu_micros"],
            *(f"{row[f'{field}_of_bare']:.0%}" for field in RATES),
        ]
        for row in figures["rates"]
    ]
    about = (
        f"On: {figures['features']}. A durable 4 KiB append costs {figures['fsync_micros']:.0f} µs on this disk "
        f"({figures['filesystem']}). Medians of {figures['runs']} interleaved runs. *claim, settle*: two calls and two "
        "commits a batch. *exchange*: settle the last batch and claim the next in one call and one commit. *bare "
        "SQLite*: the same rows deleted and inserted by hand, without the contract: the ceiling. *CPU*: processor time "
        "of claim, settle.\n"
    )
    return f"## Throughput by batch size\n\n{about}\n{lines(head, rows)}"


def growth(figures: Figures) -> str:
    head = ["waiting in the store", "claim µs/job", "of it CPU", "claim + settle", "claim ×", "CPU ×", "both ×"]
    columns = ["case", "claim_micros", "claim_cpu_micros", "both_micros", "claim_ratio", "cpu_ratio", "both_ratio"]
    rows: list[list[object]] = [[*(row[column] for column in columns), row["against"]] for row in figures["cases"]]
    head.append("compared with")
    return f"## Growth, batches of {figures['batch']}\n\n{lines(head, rows)}"


def fair(figures: Figures) -> str:
    head = ["store", "scene", "claims of", "figures", "fair"]
    rows: list[list[object]] = []
    for store, scene, run in fairness.rows(figures):
        facts = ", ".join(f"{k.replace('_', ' ')} {v:,}" for k, v in run.items() if k not in ("ok", "claims_of"))
        rows.append([store, scene.replace("_", " "), run["claims_of"], facts, "yes" if run["ok"] else "NO"])
    return f"## Fairness\n\n{lines(head, rows)}"


def worker(figures: Figures) -> str:
    head = ["whole worker", "drain/s", "enqueue/s", "one by one/s", "start p50 ms", "p99 ms", "idle MiB", "idle CPU"]
    rows: list[list[object]] = [
        [
            name,
            *(f"{row[field]:,.0f}" for field in ("drain", "enqueue", "one_by_one")),
            *(f"{row[field]:.2f}" for field in ("p50_ms", "p99_ms")),
            f"{row['idle_mib']:.0f}",
            f"{row['idle_cpu']:.1%}",
        ]
        for name, row in figures["subjects"].items()
    ]
    about = (
        f"Beside Huey {figures['huey']} on SQLite, each in processes of its own, on one disk ({figures['filesystem']}, "
        f"{figures['fsync_micros']:.0f} µs a durable 4 KiB append). Medians of {figures['runs']} interleaved runs. "
        "*tenure*: `synchronous=FULL`, supervisor, leases, events, history and results on, 500 at once. *huey*: the "
        "fastest of threads 1, 2, 4 and processes 1, 2 (fsync: one process, OFF: one thread); polling every 10 ms "
        "(its default is 100); at-most-once. "
        "*fsync* has Tenure's durability, *synchronous=OFF* none. *drain*: no-op jobs, from the first "
        "start (Tenure: claim) to the last end. *enqueue*: in the fastest way each has; *one by one*: one caller that "
        "waits for each. *start*: from before the enqueue to the handler, another process, on an idle worker. *idle*: "
        "all processes of the worker, shared memory counted once.\n"
    )
    memory = f"\nIn memory, worker and queue in one process: {figures['memory_drain']:,} jobs/s.\n"
    shares = figures["profile"]
    profile = lines(
        ["where a job's time goes", "share"], [[part, f"{part_of:.0%}"] for part, part_of in shares["shares"].items()]
    )
    micros = f"\n{shares['cpu_micros']} µs of processor time a job, in one process on SQLite:\n\n"
    return f"## The whole worker\n\n{about}\n{lines(head, rows)}{memory}{micros}{profile}"


def spark(figures: Figures) -> str:
    read, written = figures["read"], figures["write"]
    about = (
        f"{read['jobs']:,} jobs read and {written['rows']:,} rows enqueued, on SQLite with `synchronous=FULL`, "
        f"{_versions(read['versions'])}, `local[2]`. Medians of {read['runs']} interleaved runs, warm. *rows*: the "
        "same source and sink with Python's values instead of Arrow. *keys*: each row is enqueued once, however often "
        "it is written.\n"
    )
    tables = [
        lines([head, "rows/s"], [[name, f"{rate:,}"] for name, rate in part["rates"].items()])
        for head, part in (("reading", read), ("enqueueing", written))
    ]
    return f"## Spark\n\n{about}\n" + "\n".join(tables)


def spark_postgres(figures: Figures) -> str:
    read, written = figures["read"], figures["write"]
    about = (
        f"{read['jobs']:,} jobs read and {written['rows']:,} rows enqueued, on a server with fsync beside Spark's two "
        f"tasks on the same machine ({figures['filesystem']}), {_versions(figures['versions'])}, `local[2]`. Medians "
        f"of {figures['runs']} interleaved runs, warm. *JDBC*: Spark's own source and sink, 1,000 rows at once, "
        "`reWriteBatchedInserts`. Its tasks each see a state of their own; *records as they lie* have the better part "
        "of a job as bytes that nobody has opened. Its sink fails on a row that is there, so a task that is tried "
        "again fails, or writes twice where there is no primary key. *tenure* checks and types each row, holds its "
        "key as long as its record, and makes a job that can be claimed, with its label and its event. *WAL*: what "
        "the server logs for a row.\n"
    )
    reading = lines(["reading", "rows/s"], [[name, f"{rate:,}"] for name, rate in read["rates"].items()])
    rows = [[name, f"{rate:,}", f"{written['wal_bytes'][name]:,}"] for name, rate in written["rates"].items()]
    writing = lines(["writing", "rows/s", "WAL bytes a row"], rows)
    costs = {f"read, {name}": parts for name, parts in read["micros"].items()} | {"enqueue": written["micros"]}
    parts = [[f"{name}: {part}", micros] for name, found in costs.items() for part, micros in found.items()]
    where = f"What a row costs one process without Spark:\n\n{lines(['part', 'µs a row'], parts)}"
    return f"## Spark on PostgreSQL\n\n{about}\n{reading}\n{writing}\n{where}"


def lake(figures: Figures) -> str:
    head = ["history", "feed to gold s", "events/s", "peak MiB", "1 % more, running s", "of the build", "new process s"]
    subjects = [(f"{int(size):,} events", one) for size, one in figures["sizes"].items()]
    backlog = figures["backlog"]
    subjects.append((f"{backlog['build']['events']:,}, {backlog['jobs']:,} of them open jobs", backlog))
    rows: list[list[object]] = []
    for name, one in subjects:
        build, more = one["build"], median(part["seconds"] for part in one["more"])
        rows.append(
            [
                name,
                f"{build['seconds']:.0f}",
                f"{build['events'] / build['seconds']:,.0f}",
                f"{one['peak_mib']:,}",
                f"{more:.1f}",
                f"{more / build['seconds']:.1%}",
                f"{one['fresh']['build']['seconds']:.0f} + {one['fresh']['session_seconds']:.0f}",
            ]
        )
    most = max(figures["sizes"], key=int)
    parts = [[name, f"{seconds:.1f}"] for name, seconds in figures["sizes"][most]["build"]["parts"].items()]
    about = (
        f"A synthetic history (`python -m bench.history`) in SQLite becomes a lake, {_versions(figures['versions'])}, "
        "`local[*]`, each in a process of its own that begins cold. *peak*: Java and all Python processes, shared "
        "memory counted once. *new process*: the sync, and the start of its session.\n"
    )
    where = f"\nWhere the time of {int(most):,} events goes:\n\n{lines(['table', 's'], parts)}"
    return f"## The lake\n\n{about}\n{lines(head, rows)}{where}"


def _versions(versions: Figures) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


SECTIONS = (
    ("bench", throughput),
    ("growth", growth),
    ("fairness", fair),
    ("worker", worker),
    ("spark", spark),
    ("spark_postgres", spark_postgres),
    ("lake", lake),
    *postgres.SECTIONS,
)
"""Each record and what is written from it."""
