"""A sweep takes orphans, and nothing else."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tenure.blobs import (
    BlobNotFound,
    BlobPage,
    BlobRef,
    BlobStore,
    DirectoryBlobs,
    MemoryBlobs,
    TenantBlobs,
    sweep_blobs,
)
from tenure.blobs.directory import UNFINISHED, Place
from tenure.blobs.sweep import SweptBlobs
from tenure.domain.calls import Claim, JobView, Reading, Succeed
from tenure.domain.calls import Settle as SettleCall
from tenure.domain.errors import InvalidValue, Refused, StoreFrozen
from tenure.domain.job import NewJob
from tenure.domain.names import DAY, HOUR
from tenure.engine.worker.sweeper import Sweeper
from tenure.stores.memory import MemoryStore
from tenure.testing.clock import START, ManualClock

from .kit import all_of, run


def id_of(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012x}"


class World:
    """A job store and a blob store with one clock."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.clock = ManualClock()
        self.store = store or MemoryStore(clock=self.clock)
        self.blobs: BlobStore = MemoryBlobs(clock=self.clock)

    async def job(self, number: int, tenant: str = "acme") -> str:
        job = NewJob(tenant=tenant, id=id_of(number), queue="q", job_type="t", payload=b"1")
        await self.store.enqueue([job])
        return job.id

    async def put(self, owner: str, tenant: str = "acme") -> BlobRef:
        return await self.blobs.put(tenant, b"x", owner=owner)

    async def finish(self) -> None:
        """Runs everything that waits."""
        claim = Claim(claim_id=b"c" * 16, worker="w", queues=(("q", None),), n=100)
        claimed = await self.store.claim(claim)
        assert not isinstance(claimed, Refused)
        await self.store.settle([SettleCall(job.token, Succeed()) for job in claimed.jobs])

    async def sweep(self, **options: Any) -> SweptBlobs:
        return await sweep_blobs(self.blobs, self.store, **options)

    async def left(self) -> set[str]:
        return {info.key.id for info in await all_of(self.blobs)}


def test_only_blobs_of_jobs_that_arent_there_go() -> None:
    async def main() -> None:
        world = World()
        alive = await world.put(await world.job(1))
        orphan = await world.put(id_of(2))
        world.clock.advance(DAY + 1)
        young = await world.put(id_of(3))
        assert await world.sweep() == SweptBlobs(deleted=1, kept=1, young=1)
        assert await world.left() == {alive.id, young.id}
        assert orphan.id not in await world.left()

    run(main())


def test_a_job_of_the_same_id_in_another_tenant_keeps_nothing() -> None:
    async def main() -> None:
        world = World()
        await world.job(1, "globex")
        await world.put(id_of(1), "acme")
        kept = await world.put(id_of(1), "globex")
        world.clock.advance(DAY + 1)
        assert await world.sweep() == SweptBlobs(deleted=1, kept=1)
        assert await world.left() == {kept.id}

    run(main())


def test_blobs_go_when_their_job_is_purged_and_not_before() -> None:
    async def main() -> None:
        world = World()
        ref = await world.put(await world.job(1))
        await world.finish()
        world.clock.advance(7 * DAY)
        assert await world.store.purge() is None
        assert await world.sweep() == SweptBlobs(kept=1)
        world.clock.advance(2 * DAY)
        assert await world.store.purge() is not None
        assert await world.left() == {ref.id}
        assert await world.sweep() == SweptBlobs(deleted=1)
        assert await world.left() == set()

    run(main())


def test_a_blob_put_before_its_job_waits_for_it() -> None:
    async def main() -> None:
        world = World()
        ref = await world.put(id_of(1))
        world.clock.advance(HOUR)
        assert await world.sweep(older_than_seconds=3_600) == SweptBlobs(young=1)
        await world.job(1)
        world.clock.advance(DAY)
        assert await world.sweep(older_than_seconds=3_600) == SweptBlobs(kept=1)
        assert await world.left() == {ref.id}

    run(main())


def test_a_blob_with_a_time_goes_when_it_is_over() -> None:
    async def main() -> None:
        world = World()
        await TenantBlobs(world.blobs, "acme", world.clock).put(b"x", ttl=3_600)
        world.clock.advance(HOUR - 1)
        assert await world.sweep() == SweptBlobs(kept=1)
        world.clock.advance(1)
        assert await world.sweep() == SweptBlobs(deleted=1)

    run(main())


def test_a_frozen_store_isnt_believed() -> None:
    async def main() -> None:
        world = World()
        await world.put(id_of(1))
        world.clock.advance(2 * DAY)
        await world.store.freeze()
        assert await world.sweep() == SweptBlobs()
        assert await world.sweep(after="here") == SweptBlobs(cursor="here")
        assert len(await world.left()) == 1
        await world.store.thaw()
        assert await world.sweep() == SweptBlobs(deleted=1)

    run(main())


class Refusing(MemoryStore):
    """Refuses to tell about any job."""

    async def get(self, refs: Any, reading: Reading = Reading()) -> list[JobView | Refused]:  # noqa: B008 frozen
        return [StoreFrozen() for _ in refs]


def test_only_a_job_that_isnt_found_is_gone() -> None:
    async def main() -> None:
        world = World(Refusing(clock=ManualClock(1_900_000_000_000)))
        await world.put(id_of(1))
        assert await world.sweep() == SweptBlobs(kept=1)

    run(main())


def test_a_sweep_goes_on_where_it_stopped() -> None:
    async def main() -> None:
        world = World()
        kept = {(await world.put(await world.job(number))).id for number in range(0, 20, 2)}
        for number in range(1, 20, 2):
            await world.put(id_of(number))
        world.clock.advance(2 * DAY)
        cursor, deleted, steps = None, 0, 0
        while steps == 0 or cursor is not None:
            swept = await world.sweep(limit=3, after=cursor)
            assert swept.deleted + swept.kept + swept.young <= 3
            cursor, deleted, steps = swept.cursor, deleted + swept.deleted, steps + 1
        assert (deleted, steps) == (10, 7)
        assert await world.left() == kept

    run(main())


def test_what_interrupted_puts_left_goes_too(tmp_path: Path) -> None:
    async def main() -> None:
        world = World()
        world.blobs = DirectoryBlobs(tmp_path)
        ref = await world.put(await world.job(1))
        left = tmp_path / UNFINISHED / "0123"
        left.touch()
        for file in (left, tmp_path.joinpath(*Place.of(ref.key))):
            os.utime(file, (START / 1_000, START / 1_000))
        world.clock.advance(DAY)
        assert await world.sweep() == SweptBlobs(young=1)
        world.clock.advance(1)
        assert await world.sweep() == SweptBlobs(kept=1, unfinished=1)
        assert not left.exists()

    run(main())


@pytest.mark.parametrize("limit", [0, 1_001])
def test_a_step_is_bounded(limit: int) -> None:
    with pytest.raises(InvalidValue, match="limit"):
        run(World().sweep(limit=limit))


def test_a_bucket_that_isnt_there_ends_no_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at again and again; leases are taken all the while."""
    monkeypatch.setattr("tenure.engine.worker.sweeper.PURGE_SECONDS", 0)

    class Absent(MemoryBlobs):
        asked = 0

        async def list(self, *, after: str | None = None, limit: int = 500) -> BlobPage:
            self.asked += 1
            if self.asked == 2:
                again.set()
            raise BlobNotFound()

    async def main() -> None:
        sweeping = asyncio.create_task(Sweeper(MemoryStore(), 0.05, Absent()).run())
        waiting = asyncio.create_task(again.wait())
        done, _ = await asyncio.wait([sweeping, waiting], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert done == {waiting}
        sweeping.cancel()
        await asyncio.wait([sweeping])

    again = asyncio.Event()
    asyncio.run(main())
