"""Jobs in groups, one at a time in each: `tenure worker bench.postgres.clients.tenure_groups:app --queues grouped`."""

from bench.postgres.clients.tenure_jobs import app, mark


@app.job(queue="grouped")
async def grouped(sent: int) -> None:
    """Nothing, but that it ran."""
    mark(sent)


@app.job(queue="plain")
async def plain(sent: int) -> None:
    """The same, in a queue without groups."""
    mark(sent)
