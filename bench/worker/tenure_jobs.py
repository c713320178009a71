"""The measured app: `tenure worker bench.worker.tenure_jobs:app`."""

from bench.worker.board import Marker
from tenure import Tenure

app = Tenure()
mark = Marker()


@app.job
async def noop(sent: int) -> None:
    """Nothing, but that it ran."""
    mark(sent)
