"""Where a walk over one tenant's only queue ends, without walking."""

import asyncio
import random

import msgspec
import pytest

from tenure.domain.calls import Claim, Claimed, Cursor, Document
from tenure.domain.config import TENANT, TenantConfig
from tenure.domain.job import NewJob
from tenure.domain.model.claim import lone_cursor
from tenure.stores.memory import MemoryStore


@pytest.mark.parametrize("seed", range(40))
def test_it_ends_where_the_walk_does(seed: int) -> None:
    chance = random.Random(seed)
    weight, jobs, wanted = chance.randint(1, 5), chance.randint(0, 12), chance.randint(1, 15)
    at = Cursor(chance.choice(["", "a", "m", "z"]), chance.randint(0, 6), chance.randint(0, 3))

    async def main() -> Claimed:
        store = MemoryStore()
        await store.migrate()
        config = Document(tenant="m", kind=TENANT, name="m", body=msgspec.json.encode(TenantConfig(weight=weight)))
        await store.put_document(config)
        made = [
            NewJob(tenant="m", id=f"01900000-0000-7000-8000-{n:012x}", queue="q", job_type="t", payload=b"{}")
            for n in range(jobs)
        ]
        if made:
            await store.enqueue(made)
        request = Claim(claim_id=bytes(16), worker="w", queues=(("q", None),), n=wanted, cursor=at)
        claimed = await store.claim(request)
        assert isinstance(claimed, Claimed)
        return claimed

    claimed = asyncio.run(main())
    assert lone_cursor(at, "m", weight, len(claimed.jobs)) == claimed.cursor
