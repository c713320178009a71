"""The measured app: `tenure worker bench.postgres.clients.tenure_jobs:app`. On uvloop, as its users may have it."""

import os

from bench.worker.board import Marker
from tenure import Tenure

if "BENCH_ASYNCIO" not in os.environ:
    try:
        import uvloop

        uvloop.install()
    except ImportError:  # an environment without peers
        pass

app = Tenure()
mark = Marker()
RESULT = {"sent": True, "message": "0190-12345"}

if "BENCH_RESULTS" in os.environ:

    @app.job
    async def noop(sent: int) -> dict[str, object]:
        """Nothing, but that it ran, and a result to keep."""
        mark(sent)
        return RESULT

else:

    @app.job
    async def noop(sent: int) -> None:
        """Nothing, but that it ran."""
        mark(sent)
