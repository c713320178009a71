"""What is promised about the app and the worker."""

from collections.abc import Iterator

from bench import before, reach
from bench.promises.line import Promise, Shown, fresh, ran, recorded, tested
from bench.record import Figures
from bench.worker import measure, profile
from bench.worker.subjects import HueyFsync, HueyUnsafe, TenureWorker

SUPERVISOR = "tests/engine/test_supervisor.py::"
FSYNC_TIMES, UNSAFE_TIMES = 8, 2
KEPT = 0.85


def fleet(figures: Figures) -> Shown:
    kills = figures["child_kills"] + figures["supervisor_kills"]
    text = (
        f"{figures['jobs']:,} jobs, {figures['child_kills']} children and {figures['supervisor_kills']} supervisors "
        f"killed, {figures['crashed']} jobs retried at once, {figures['leases_lost']} leases lost, "
        f"lost {figures['lost']}, settled twice {figures['settled_twice']}, {len(figures['faults'])} faults"
    )
    clean = not figures["faults"] and not figures["lost"] and not figures["settled_twice"]
    return text, clean and kills >= 50 and figures["jobs"] >= 20_000


def drain(figures: Figures) -> Shown:
    rows = figures["subjects"]
    rates = ", ".join(f"{name} {row['drain']:,.0f}/s" for name, row in rows.items())
    _, ours = measure.best(figures, "tenure")
    fsync, unsafe = (rows[peer.name]["drain"] for peer in (HueyFsync, HueyUnsafe))
    text = f"{measure.ratios(figures)}; {rates}; in memory {figures['memory_drain']:,}/s"
    return text, ours >= FSYNC_TIMES * fsync and ours >= UNSAFE_TIMES * unsafe and figures["sizes"]["scale"] >= 1


def latency(figures: Figures) -> Shown:
    rows = figures["subjects"]
    text = ", ".join(f"{name} p50 {row['p50_ms']:.2f} ms, p99 {row['p99_ms']:.2f} ms" for name, row in rows.items())
    ours = rows[TenureWorker.name]["p50_ms"]
    return text, all(ours <= rows[peer.name]["p50_ms"] for peer in (HueyFsync, HueyUnsafe))


def idle(figures: Figures) -> Shown:
    rows = figures["subjects"].items()
    return ", ".join(f"{name} {row['idle_mib']:.0f} MiB, {row['idle_cpu']:.1%} CPU" for name, row in rows), True


def where_time_goes(figures: Figures) -> Shown:
    shares = figures["profile"]
    return f"{shares['cpu_micros']} µs of processor time a job: {profile.words(shares)}", shares["samples"] >= 500


WORKER = "python -m bench worker --record"


def kept_up(figures: Figures) -> Shown:
    return before.words(figures), min(figures["paired"].values()) >= KEPT


def by_hints(figures: Figures) -> Shown:
    return reach.judged(figures, [reach.SQLITE])


def promises() -> Iterator[Promise]:
    yield recorded("fresh", "make test and make demo in a fresh clone", "python -m bench.fresh --record", fresh)
    yield tested("correct and incorrect calls through mypy and pyright", "tests/types")
    yield tested(
        "the code in README and docs runs, and so do the command lines", "tests/test_docs.py", "tests/test_console.py"
    )
    yield tested(
        "SIGSTOP past the lease: settle, renew and progress refused, handler cancelled, slot freed once",
        SUPERVISOR + "test_a_worker_that_slept_through_its_lease_settles_nothing",
    )
    yield tested(
        "a blocked loop and a held GIL for 3 leases: renewed, never run twice at once",
        SUPERVISOR + "test_what_blocks_a_process_doesnt_cost_the_lease",
    )
    yield tested(
        "a hung handler past its timeout: its child is killed, the others' jobs released",
        SUPERVISOR + "test_a_hung_handler_costs_its_process_and_nobody_else",
    )
    yield tested(
        "a delay of 30 days under a lease of 30 s: delivered once",
        "tests/engine/test_worker.py",
        "-k",
        "thirty_days",
    )
    yield tested(
        "SIGKILL on the last attempt: dead-lettered, the queue goes on",
        SUPERVISOR + "test_dying_on_the_last_attempt_leaves_a_dead_letter_and_the_queue_goes_on",
    )
    yield tested(
        "SIGTERM with 100 jobs in flight: all drained or released with refund",
        SUPERVISOR + "test_a_worker_told_to_stop_gives_everything_back",
    )
    yield tested("200 jobs × 8 workers: each once, more than one took part", "tests/test_fleet.py")
    yield recorded(
        "fleet",
        "20,000 jobs × 4 workers, ≥ 50 SIGKILLs of children and supervisors, lease 1 s: history and fsck clean",
        "python -m tests.fleet --record bench/results/fleet.json",
        fleet,
    )
    yield recorded(
        "worker", f"drain ≥ {FSYNC_TIMES}× Huey with fsync and ≥ {UNSAFE_TIMES}× without, at FULL", WORKER, drain
    )
    yield recorded("worker", "from enqueue to start on an idle worker: p50 at or below Huey's", WORKER, latency)
    yield recorded("worker", "memory and processor of an idle worker", WORKER, idle)
    yield recorded("worker", "where the time of a job goes", WORKER, where_time_goes)
    yield recorded("before", f"a task a job: the drain keeps ≥ {KEPT:.0%} of what it was", before.COMMAND, kept_up)
    yield recorded(
        "reach",
        f"between processes on SQLite, by hints alone: every start, result and cancel, p99 < {reach.P99_MS} ms",
        reach.COMMAND,
        by_hints,
    )
    yield tested(
        "tracebacks of failed attempts: kept by the worker, read by handle and command line",
        *("tests/engine", "tests/cli", "tests/stores/test_attached.py", "-k", "traceback or attached"),
    )
    yield tested("rolling deploys: what only other workers take is given back", "tests/engine/test_deploys.py")
    yield tested("periodic jobs that code declares, on every store", "tests/engine/test_periodic.py")
    yield tested("Django's test runner: jobs reach the test database only", "tests/contrib")
    yield ran("the suite on Python 3.11, 3.12 and 3.13", "tests.pythons")
    yield tested("every command of the command line", "tests/cli")
    yield tested("the demo's last line", "tests/test_demo.py")
