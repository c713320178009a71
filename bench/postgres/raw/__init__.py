"""The raw limit: what the server itself can do with the same rows of the same tables.

pgbench runs statements that write what Tenure's enqueue, claim and settle write: same tables, indexes, widths and
chunks of events, in batches of the same size, by as many clients as there are processors. Nothing is checked, and
nothing but the arrival numbers travels. What Tenure does on top, and what Python costs, is the difference.
"""

import asyncio
import os
import re
import subprocess
from pathlib import Path

from bench.postgres.server import Server
from bench.record import Figures
from tenure.stores.sql.postgres import PostgresStore
from tenure.testing.postgres import find_binaries

FOLDER = Path(__file__).parent
BATCH = 500
"""Of an enqueuer's flush, and of a claim by a worker with 500 slots."""
TRANSACTIONS = re.compile(r"tps = ([0-9.]+)")


def measure(server: Server, jobs: int) -> Figures:
    """Jobs a second: one by one from one client, in batches, and through claim and settle."""
    with server.database() as url:
        asyncio.run(_install(url))
        clients = os.cpu_count() or 1
        batches = max(1, jobs // BATCH // clients)
        with server.connect(url) as connection:
            connection.execute("ALTER DATABASE " + url.rpartition("/")[2] + " SET plan_cache_mode = force_generic_plan")
        return {
            "clients": clients,
            "batch": BATCH,
            "one": round(_pgbench(url, "enqueue", 1, 1, max(10, jobs // 40))),
            "bulk": round(_pgbench(url, "enqueue", BATCH, clients, batches)),
            "drain": round(_pgbench(url, "work", BATCH, clients, batches)),
        }


async def _install(url: str) -> None:
    store = PostgresStore(url)
    await store.migrate()
    await store.close()


def _pgbench(url: str, script: str, batch: int, clients: int, transactions: int) -> float:
    pgbench = [str(find_binaries() / "pgbench"), "--no-vacuum", "--protocol", "prepared", "-D", f"batch={batch}"]
    size = ["-c", str(clients), "-j", str(clients), "-t", str(transactions)]
    done = subprocess.run(
        [*pgbench, *size, "-f", str(FOLDER / f"{script}.sql"), url], capture_output=True, text=True, check=False
    )
    found = TRANSACTIONS.search(done.stdout)
    if done.returncode or found is None:
        raise AssertionError(f"pgbench {script}: {done.stderr[-1000:]}")
    return float(found[1]) * batch


def words(figures: Figures) -> str:
    rates = f"one by one {figures['one']:,}/s, bulk {figures['bulk']:,}/s, claim and settle {figures['drain']:,}/s"
    return f"{'raw limit':<22}{rates} ({figures['clients']} clients, batches of {figures['batch']})"
