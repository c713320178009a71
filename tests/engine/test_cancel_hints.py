"""A cancel reaches a running handler of another process by a hint: no lease of these jobs is renewed for an hour."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.engine import supervised_app as jobs
from tests.engine.test_supervisor import MAIN, _seen, client, worker

IN_PROCESS = """
import asyncio
from tests.engine.supervised_app import app

async def main():
    async with app.worker():
        await asyncio.Event().wait()

asyncio.run(main())
"""
KINDS = {
    "inline": jobs.ends_when_told,
    "thread": jobs.ends_when_told_in_a_thread,
    "process": jobs.ends_when_told_in_a_process,
}


@pytest.mark.parametrize("main", [MAIN, IN_PROCESS], ids=["supervised", "in process"])
@pytest.mark.parametrize("mode", ["now", "request"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_is_told_by_a_hint(tmp_path: Path, main: str, kind: str, mode: Literal["now", "request"]) -> None:
    job: Any = KINDS[kind]

    async def scene() -> None:
        async with client(tmp_path) as app:
            with worker(tmp_path, main=main):
                for folder in (tmp_path / "first", tmp_path / "second"):  # by the second one it surely listens
                    folder.mkdir()
                    handle = await app.enqueue(job.build(str(folder)))
                    await _seen(folder / "started")
                    assert (await handle.cancel(mode=mode)).was_running
                    await _seen(folder / ("told-cancelled" if mode == "now" else "told-cancel_requested"))

    asyncio.run(scene())


def test_of_many_jobs_the_cancelled_ones_are_told(tmp_path: Path) -> None:
    """Also those that were claimed while another was cancelled."""

    async def scene() -> None:
        async with client(tmp_path) as app:
            with worker(tmp_path, processes=2):
                folders = [tmp_path / str(number) for number in range(20)]
                for folder in folders:
                    folder.mkdir()
                handles = await app.enqueue_many([jobs.ends_when_told.build(str(folder)) for folder in folders])
                following, left = app.events(), len(handles) - 1
                async with asyncio.timeout(60):
                    async for event in following:
                        if event.kind == "claimed" and event.job_id != handles[-1].id:
                            await app.cancel(str(event.job_id))
                            left -= 1
                        if not left:
                            break
                for folder in folders[:-1]:
                    await _seen(folder / "told-cancelled")
                assert not list(folders[-1].glob("told-*"))

    asyncio.run(scene())
