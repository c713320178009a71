# mypy: ignore-errors
"""What users get wrong: both checkers must complain about each line marked so, and about no other.

The first line keeps this file out of the project's own check; the test takes it away.
"""

from datetime import datetime
from typing import Any

from tenure import Backoff, Context, Handle, Tenure

app = Tenure("memory://")


@app.job
async def send(ctx: Context, to: str, times: int = 1) -> str:
    return to * times


@app.job(queue="mail")
def plain(n: int) -> int:
    return n


@app.stub(name="elsewhere")
async def stub(n: int) -> int:
    raise NotImplementedError


def wants_number(n: int) -> None: ...


async def wrong_arguments() -> None:
    await send.enqueue()  # error
    await send.enqueue(5)  # error
    await send.enqueue("a", "b")  # error
    await send.enqueue("a", 1, 2)  # error
    await send.enqueue("a", tims=2)  # error
    await send.call(b"a")  # error
    send.build(None)  # error
    send.sync.enqueue(5)  # error
    send.sync.call("a", times="2")  # error
    await plain.enqueue("1")  # error
    await stub.enqueue("1")  # error
    await send.options(delay=5).enqueue(5)  # error


async def wrong_options() -> None:
    await send.options(dealy=5).enqueue("a")  # error
    await send.options(delay="5").enqueue("a")  # error
    await send.options(run_at="tomorrow").enqueue("a")  # error
    await send.options(unique="forever").enqueue("a")  # error
    await send.options(labels={"a": 1}).enqueue("a")  # error
    await send.options(retry=5).enqueue("a")  # error
    app.job(executor="gpu")  # error
    app.job(queue=5)  # error
    app.job(max_attempts="5")  # error
    app.job(retry=Backoff.exponential)  # error
    await app.queue("mail").configure(mode="fifo")  # error
    await app.queue("mail").configure(rate=5)  # error
    await app.queue("mail").configure(limits=5)  # error


async def wrong_results(handle: Handle[str]) -> None:
    wants_number(await send.call("a"))  # error
    wants_number(await handle.result(5))  # error
    wants_number(await send.enqueue("a"))  # error
    wants_number(send.sync.call("a"))  # error
    wants_number(await app.execute_now(send.build("a")))  # error
    number: Handle[int] = await send.enqueue("a")  # error
    await handle.cancel(mode="kill")  # error
    await handle.result(timeout="5")  # error
    await app.jobs(states="failed")  # error
    await app.jobs(enqueued_from="today")  # error
    await app.jobs(state="lost")  # error
    await app.jobs(state=["failed", "lost"])  # error
    await app.jobs(dead_letter="gone")  # error
    app.dead_letters(disposition="gone")  # error
    await app.enqueue(send(Any, "a"))  # error
    await app.enqueue_many([send(Any, "a")])  # error
    app.worker(queues={"mail": "40"})  # error
    app.worker(concurrency="5")  # error
    wants_number(number.id)  # error


async def right(handle: Handle[str], anything: Any) -> None:
    """Nothing to complain about."""
    await send.enqueue("a", 2)
    await send.options(run_at=datetime.fromisoformat("2027-01-01T00:00:00Z")).enqueue(anything)
    wants_number(len(await handle.result()))
