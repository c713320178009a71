"""Blobs in the hands of jobs: references as arguments and results, and large bodies that move by themselves."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from tenure import Context, JobFailed, Tenure
from tenure.blobs import BlobKey, BlobNotFound, BlobRef, MemoryBlobs
from tenure.domain.errors import InvalidValue, NotReady
from tenure.stores.memory import MemoryStore

from .kit import all_of, run

TEXT = random.Random(3).randbytes(70_000).hex()
"""140,000 bytes as JSON: above both thresholds."""


def app_with(blobs: Any) -> Tenure:
    return Tenure(store=MemoryStore(), blobs=blobs)


def test_references_travel_and_blobs_belong_to_their_jobs() -> None:
    app = app_with("memory://")

    @app.job
    async def shout(ctx: Context, text: BlobRef) -> BlobRef:
        return await ctx.blobs.put((await ctx.blobs.read(text)).upper(), content_type="text/plain")

    async def main() -> None:
        async with app, app.worker():
            id = app.new_id()
            given = await app.blobs.put(b"hello", job_id=id)
            handle = await shout.options(id=id).enqueue(given)
            made = await handle.result(timeout=10)
            assert handle.id == given.owner == made.owner == id
            assert await app.blobs.read(made) == b"HELLO"

    run(main())


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_the_same_from_plain_code(tmp_path: Path, kind: str) -> None:
    app = app_with("memory://" if kind == "memory" else f"file://{tmp_path}/blobs")

    @app.job
    def shout(ctx: Context, text: BlobRef) -> BlobRef:
        blobs = ctx.blobs.sync
        assert blobs.metadata(text).size == 400_000
        with blobs.open(text) as pieces:
            loud = blobs.put((piece.upper() for piece in pieces), content_type="text/plain")
        again = blobs.keep(loud)
        blobs.delete(loud)
        return again

    async def main() -> BlobRef:
        async with app, app.worker():
            return await (await shout.options(id=id).enqueue(given)).result(timeout=10)

    id = app.new_id()
    given = app.sync.blobs.put(b"hi" * 200_000, job_id=id)
    app.sync.close()
    made = run(main())
    assert given.owner == made.owner == id
    assert (made.size, made.content_type) == (400_000, "text/plain")
    assert app.sync.blobs.read(made) == b"HI" * 200_000


def test_plain_code_puts_what_it_has(tmp_path: Path) -> None:
    app = app_with("memory://")
    blobs = app.sync.tenant("acme").blobs
    (tmp_path / "file").write_bytes(b"abc")
    with (tmp_path / "file").open("rb") as lines:
        kinds: list[Any] = [b"abc", tmp_path / "file", iter([b"a", b"", b"bc"]), lines]
        refs = [blobs.put(data, ttl=60) for data in kinds]
    assert [(ref.tenant, blobs.read(ref)) for ref in refs] == [("acme", b"abc")] * 4
    with pytest.raises(BlobNotFound):
        app.sync.blobs.read(refs[0])
    with pytest.raises(BlobNotFound), app.sync.blobs.open(refs[0]):
        raise AssertionError("it was opened")
    with pytest.raises(InvalidValue, match="gave int, not bytes"):
        blobs.put(bytearray(b"abc"), ttl=60)  # type: ignore[arg-type]  # the subject of the test
    with pytest.raises(InvalidValue, match="how long the blob lives"):
        blobs.put(b"abc")
    with pytest.raises(NotReady, match="TENURE_BLOBS"):
        app_with(None).sync.blobs.put(b"abc", ttl=60)


def test_leaving_a_blob_early_lets_go_of_it(tmp_path: Path) -> None:
    app = app_with(f"file://{tmp_path}/blobs")
    ref = app.sync.blobs.put(b"x" * 1_000_000, ttl=60)
    with pytest.raises(ZeroDivisionError), app.sync.blobs.open(ref) as pieces:
        raise ZeroDivisionError(len(next(pieces)))
    app.sync.blobs.delete(ref)
    with pytest.raises(BlobNotFound):
        app.sync.blobs.metadata(ref)


def test_another_tenants_reference_fails_the_job_that_uses_it() -> None:
    app = app_with("memory://")

    @app.job(max_attempts=1)
    async def peek(ctx: Context, ref: BlobRef) -> str:
        return (await ctx.blobs.read(ref)).decode()

    async def main() -> None:
        async with app, app.worker():
            secret = await app.tenant("globex").blobs.put(b"secret", ttl=60)
            with pytest.raises(JobFailed, match="BlobNotFound"):
                await (await app.tenant("acme").enqueue(peek.build(secret))).result(timeout=10)
            assert await (await app.tenant("globex").enqueue(peek.build(secret))).result(timeout=10) == "secret"

    run(main())


def test_large_bodies_move_by_themselves_and_come_back() -> None:
    blobs = MemoryBlobs()
    app = app_with(blobs)

    @app.job
    async def echo(text: str) -> str:
        return text

    async def main() -> None:
        async with app, app.worker():
            handle = await echo.options(key="once", unique="retained").enqueue(TEXT)
            again = await echo.options(key="once", unique="retained").enqueue(TEXT)
            assert (again.id, again.created) == (handle.id, False)
            assert await handle.result(timeout=10) == TEXT
            view = await app.view(handle.id)
            assert view.job.spec.codec == "json.blob"
            assert len(view.payload) < 200
            assert view.result is not None
            assert view.result.codec == "json.blob"
            assert (await handle.get()).payload == {"text": TEXT}
            owners = [info.key.owner for info in await all_of(blobs)]
            assert owners.count(handle.id) == 2
            assert len(owners) == 3  # and the payload of the call that was a duplicate: an orphan

    run(main())


def test_without_a_blob_store_nothing_changes() -> None:
    app = app_with(None)

    @app.job
    async def echo(text: str) -> str:
        return text

    async def main() -> None:
        async with app, app.worker():
            assert await (await echo.enqueue("x" * 60_000)).result(timeout=10) == "x" * 60_000
            with pytest.raises(JobFailed, match="without a blob store"):
                await (await echo.enqueue(TEXT)).result(timeout=10)
            with pytest.raises(NotReady, match="TENURE_BLOBS"):
                await app.blobs.put(b"x", ttl=1)

    run(main())


def test_a_payload_that_is_gone_fails_its_job() -> None:
    blobs = MemoryBlobs()
    app = app_with(blobs)

    @app.job
    async def echo(text: str) -> None: ...

    async def main() -> None:
        async with app:
            handle = await echo.enqueue(TEXT)
            await blobs.delete([info.key for info in await all_of(blobs)])
            async with app.worker():
                with pytest.raises(JobFailed, match="invalid_payload"):
                    await handle.result(timeout=10)

    run(main())


def test_a_replay_has_a_payload_of_its_own() -> None:
    blobs = MemoryBlobs()
    app = app_with(blobs)
    broken = True

    @app.job(max_attempts=1)
    async def echo(text: str) -> int:
        if broken:
            raise ValueError("not yet")
        return len(text)

    async def main() -> None:
        nonlocal broken
        async with app, app.worker():
            for bulk in (False, True):
                broken = True
                failed = await echo.enqueue(TEXT)
                with pytest.raises(JobFailed):
                    await failed.result(timeout=10)
                broken = False
                if bulk:
                    assert (await app.dead_letters().replay()).replayed == 1
                    replayed = (await app.view(failed.id)).replayed_as
                else:
                    replayed = (await app.replay(failed.id)).id
                assert replayed is not None
                assert await app.handle(replayed).result(timeout=10) == len(TEXT)
                owners = {info.key.owner for info in await all_of(blobs)}
                assert {failed.id, replayed} <= owners

    run(main())


def test_an_edited_replay_of_a_large_payload() -> None:
    app = app_with("memory://")

    @app.job(max_attempts=1)
    async def small(text: str) -> int:
        if len(text) > 10:
            raise ValueError("too long")
        return len(text)

    async def main() -> None:
        async with app, app.worker():
            for edit in (False, True):
                failed = await small.enqueue(TEXT)
                with pytest.raises(JobFailed):
                    await failed.result(timeout=10)
                if edit:
                    await app.dead_letters().replay(edit=lambda job: {"text": job.payload["text"][:3]})
                    handle = app.handle((await app.view(failed.id)).replayed_as or "")
                else:
                    handle = await app.replay(failed.id, payload={"text": "abc"})
                assert await handle.result(timeout=10) == 3

    run(main())


def test_carried_jobs_flows_and_parents() -> None:
    app = app_with("memory://")

    @app.job
    async def length(text: str) -> int:
        return len(text)

    @app.job
    async def carries(ctx: Context, text: str) -> str:
        return ctx.enqueue(length.build(text)).id

    @app.job
    async def echo(text: str) -> str:
        return text

    @app.job
    async def joined(ctx: Context) -> int:
        return sum(len(text) for text in await ctx.parents.results())

    async def main() -> None:
        async with app, app.worker():
            child = await (await carries.enqueue(TEXT)).result(timeout=10)
            assert await app.handle(child).result(timeout=10) == len(TEXT)
            assert (await app.view(child)).job.spec.codec == "json.blob"
            flow = app.flow()
            last = flow.group([echo.build(TEXT), echo.build("abc")], then=joined.build())
            await flow.enqueue()
            assert await last.result(timeout=10) == len(TEXT) + 3

    run(main())


class Away(MemoryBlobs):
    away = False

    async def read(self, tenant: str, ref: BlobRef) -> bytes:
        from tenure.domain.errors import StoreUnavailable

        if self.away:
            raise StoreUnavailable("away")
        return await super().read(tenant, ref)


def test_a_blob_store_that_is_away_costs_an_attempt_and_no_more() -> None:
    blobs = Away()
    app = app_with(blobs)

    from tenure import Backoff

    @app.job(retry=Backoff.none(), max_attempts=1_000)
    async def length(text: str) -> int:
        return len(text)

    async def main() -> None:
        async with app, app.worker():
            blobs.away = True
            handle = await length.enqueue(TEXT)
            while (await handle.get()).attempt < 2:
                await asyncio.sleep(0.01)
            blobs.away = False
            assert await handle.result(timeout=10) == len(TEXT)

    run(main())


def test_an_id_made_ahead_is_an_option_of_a_call_only() -> None:
    app = app_with(None)
    with pytest.raises(InvalidValue, match="'id'"):
        app.job(id="x")


def test_from_a_url(tmp_path: Path) -> None:
    app = app_with(f"file://{tmp_path}/blobs")

    async def main() -> None:
        async with app:
            ref = await app.blobs.put(b"x", ttl=60)
            assert BlobKey("default", ref.owner, ref.id) == ref.key
            assert (tmp_path / "blobs").is_dir()

    run(main())
