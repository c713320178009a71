"""The measured app of Procrastinate, which wants it in a module that isn't the main one."""

import os

from procrastinate import App, PsycopgConnector

from bench.worker.board import Marker

app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_POSTGRES"], min_size=2, max_size=8))
mark = Marker()


@app.task(name="noop")  # type: ignore[untyped-decorator]  # not installed where types are checked
async def noop(sent: int) -> None:
    """Nothing, but that it ran."""
    mark(sent)
