"""Dead letters in bulk: finding them, replaying and discarding them, again and again without harm."""

from typing import Any, cast

import pytest

from tenure import Fail, InvalidValue, Tenure
from tenure.domain.errors import OutcomeUnknown, StoreFrozen
from tenure.domain.names import HOUR
from tenure.domain.states import Disposition, State
from tenure.domain.store import Store
from tenure.engine import surface
from tenure.engine.dead_letters import EXAMPLES, DeadLetters, Summary
from tenure.engine.definition import Definition
from tenure.engine.handle import Job
from tenure.testing.clock import ManualClock
from tests.engine.kit import Between, Meddle


@pytest.fixture
def send(app: Tenure) -> Definition[[int], None]:
    """Fails for odd numbers."""

    @app.job(queue="mail")
    async def send(n: int) -> None:
        if n % 2:
            raise Fail("odd")

    return send


async def run(app: Tenure) -> None:
    """Works until nothing is left to do."""
    async with app.worker(["mail", "other"]) as worker:
        await worker.idle()


async def failed(app: Tenure, send: Definition[[int], None], count: int, **options: Any) -> list[str]:
    """As many jobs that failed; their ids in order of arrival."""
    handles = await app.enqueue_many([send.options(**options).build(2 * n + 1) for n in range(count)])
    await run(app)
    return [handle.id for handle in handles]


# Looking


async def test_open_letters_newest_first(app: Tenure, send: Definition[[int], None]) -> None:
    ids = await failed(app, send, 3)
    await send.enqueue(2)
    await run(app)
    assert [job.id async for job in app.dead_letters()] == list(reversed(ids))
    assert [job.id for job in await app.dead_letters(limit=2)] == [ids[2], ids[1]]
    assert await app.dead_letters(limit=0) == []
    (job, *_) = await app.dead_letters()
    assert (job.state, job.dead_letter, job.payload, job.reason) == (
        State.FAILED,
        Disposition.OPEN,
        {"n": 5},
        "permanent",
    )


async def test_a_limit_holds_over_pages(
    app: Tenure, send: Definition[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surface, "PAGE", 2)
    ids = await failed(app, send, 6)
    assert [job.id for job in await app.dead_letters(limit=3)] == [ids[5], ids[4], ids[3]]
    assert [job.id for job in await app.dead_letters(limit=4)] == [ids[5], ids[4], ids[3], ids[2]]
    assert len(await app.dead_letters(limit=9)) == 6


async def test_letters_by_filter(app: Tenure, send: Definition[[int], None], clock: ManualClock) -> None:
    (mail,) = await failed(app, send, 1)
    clock.advance(HOUR)
    (other,) = await failed(app, send, 1, queue="other", labels={"team": "crm"})

    async def found(**where: Any) -> list[str]:
        return [job.id for job in await app.dead_letters(**where)]

    assert await found() == [other, mail]
    assert await found(queue="mail") == [mail]
    assert await found(job_type="send") == [other, mail]
    assert await found(job_type="other") == []
    assert await found(labels={"team": "crm"}) == [other]
    job = await app.get(other)
    assert await found(enqueued_from=job.enqueued_at) == [other]
    assert await found(enqueued_before=job.enqueued_at) == [mail]
    assert [letter.id for letter in await app.tenant("acme").dead_letters()] == []


async def test_letters_by_disposition(app: Tenure, send: Definition[[int], None]) -> None:
    open_, replayed, discarded = await failed(app, send, 3)
    await app.replay(replayed)
    await app.discard(discarded)

    async def found(disposition: Any) -> list[str]:
        return [job.id for job in await app.dead_letters(disposition=disposition)]

    assert await found("open") == [open_]
    assert await found("replayed") == [replayed]
    assert await found(Disposition.DISCARDED) == [discarded]
    assert await found(None) == [discarded, replayed, open_]


async def test_what_makes_no_sense_is_refused(app: Tenure, send: Definition[[int], None]) -> None:
    with pytest.raises(InvalidValue, match="give one of open, replayed, discarded"):
        await app.dead_letters(**cast(Any, {"disposition": "opened"}))
    with pytest.raises(InvalidValue, match="did you mean 'queue'"):
        await app.dead_letters(**cast(Any, {"queues": "mail"}))
    with pytest.raises(InvalidValue, match="give a rate such as '100/s'"):
        await app.dead_letters().replay(rate="fast")


# Replaying


async def test_replaying_them_all(app: Tenure, send: Definition[[int], None]) -> None:
    ids = await failed(app, send, 3)
    assert await app.dead_letters().replay() == Summary(matched=3, replayed=3)
    assert await app.dead_letters() == []
    for id in ids:
        old = await app.get(id)
        new = await app.get(old.replayed_as or "")
        assert (old.dead_letter, new.replay_of, new.payload) == (Disposition.REPLAYED, id, old.payload)
        assert (new.state, new.attempt) == (State.PENDING, 0)


async def test_only_what_matches_is_replayed(app: Tenure, send: Definition[[int], None]) -> None:
    await failed(app, send, 2)
    (other,) = await failed(app, send, 1, queue="other")
    assert (await app.dead_letters(queue="other").replay()).replayed == 1
    assert (await app.get(other)).dead_letter is Disposition.REPLAYED
    assert len(await app.dead_letters()) == 2
    assert (await app.dead_letters(limit=1).replay()).matched == 1
    assert len(await app.dead_letters()) == 1


async def test_replaying_again_makes_no_more_jobs(app: Tenure, send: Definition[[int], None]) -> None:
    await failed(app, send, 3)
    await app.dead_letters().replay()
    before = len(await app.jobs())
    assert await app.dead_letters().replay() == Summary()
    assert await app.dead_letters(disposition=None).replay() == Summary(matched=3, already=3)
    assert len(await app.jobs()) == before == 6


async def test_a_replay_that_is_run_while_another_runs(
    app: Tenure, between: Between, send: Definition[[int], None]
) -> None:
    """Both saw the same letters; each becomes one new job."""
    await failed(app, send, 3)
    inner: list[Summary] = []

    async def overtaken(verb: Meddle, commands: Any) -> Any:
        between.meddle.clear()
        inner.append(await app.dead_letters().replay())
        return await verb(commands)

    between.meddle["command"] = overtaken
    outer = await app.dead_letters().replay()
    assert (inner, outer) == ([Summary(matched=3, replayed=3)], Summary(matched=3, already=3))
    assert len(await app.jobs()) == 6


async def test_discarded_letters_can_be_replayed(app: Tenure, send: Definition[[int], None]) -> None:
    await failed(app, send, 2)
    await app.dead_letters().discard()
    assert await app.dead_letters().replay() == Summary()
    assert (await app.dead_letters(disposition="discarded").replay()).replayed == 2


async def test_a_dry_run_changes_nothing(app: Tenure, between: Between, send: Definition[[int], None]) -> None:
    *_, replayed = await failed(app, send, 4)
    await app.replay(replayed)
    between.calls.clear()
    assert await app.dead_letters().replay(dry_run=True, rate="1/h") == Summary(matched=3, replayed=3)
    assert await app.dead_letters(disposition=None).replay(dry_run=True) == Summary(matched=4, replayed=3, already=1)
    assert await app.dead_letters(disposition=None).discard(dry_run=True) == Summary(matched=4, discarded=3, already=1)
    assert between.of("command") == []
    assert len(await app.dead_letters()) == 3


async def test_arguments_may_be_edited(app: Tenure, send: Definition[[int], None]) -> None:
    await failed(app, send, 3)

    def edit(job: Job) -> dict[str, Any] | None:
        return None if job.payload["n"] == 1 else {"n": job.payload["n"] + 1}

    summary = await app.dead_letters().replay(edit=edit)
    assert summary == Summary(matched=3, replayed=3)
    await run(app)
    replays = [job for job in await app.jobs() if job.replay_of is not None]
    assert sorted((job.payload["n"], job.state.value) for job in replays) == [
        (1, "failed"),
        (4, "succeeded"),
        (6, "succeeded"),
    ]


@pytest.mark.parametrize("dry_run", [True, False])
async def test_an_edit_that_doesnt_fit_refuses_its_own_letter(
    app: Tenure, send: Definition[[int], None], dry_run: bool
) -> None:
    ids = await failed(app, send, 3)
    summary = await app.dead_letters().replay(
        dry_run=dry_run, edit=lambda job: {"n": "three"} if job.payload["n"] == 3 else None
    )
    assert (summary.matched, summary.replayed, summary.refused) == (3, 2, 1)
    assert summary.reasons == {"InvalidValue": 1}
    (example,) = summary.examples
    assert example.id == ids[1]
    assert "Expected `int`" in example.reason
    assert (await app.get(ids[1])).dead_letter is Disposition.OPEN


async def test_an_edit_of_a_type_that_isnt_known_here(app: Tenure, store: Store, send: Definition[[int], None]) -> None:
    await failed(app, send, 1, codec="msgpack")
    producer = Tenure(store=store)
    assert (await producer.dead_letters().replay(edit=lambda job: {"n": 8})).replayed == 1
    (new,) = [job for job in await app.jobs() if job.replay_of is not None]
    assert new.payload == {"n": 8}
    assert (await app.view(new.id)).job.spec.codec == "msgpack"


async def test_refusals_have_reasons(app: Tenure, send: Definition[[int], None]) -> None:
    first, second = await failed(app, send, 2)
    (keyed,) = await failed(app, send, 1, queue="other", key="k")
    holder = await send.options(queue="other", key="k").enqueue(1)
    await app.queue("mail").configure(max_depth=1)
    summary = await app.dead_letters().replay()
    assert (summary.matched, summary.replayed, summary.already, summary.refused) == (3, 1, 0, 2)
    assert summary.reasons == {"KeyHeld": 1, "QueueFull": 1}
    assert {(one.id, one.reason) for one in summary.examples} == {
        (keyed, f"the key is held by job {holder.id}"),
        (first, "the queue already holds its 1 waiting jobs"),
    }
    assert (await app.get(second)).dead_letter is Disposition.REPLAYED
    assert {job.id for job in await app.dead_letters()} == {first, keyed}


async def test_a_summary_stays_small(
    app: Tenure, send: Definition[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page: what is held at once doesn't grow with the letters."""
    monkeypatch.setattr(surface, "PAGE", 50)
    await failed(app, send, 130)
    await app.queue("mail").configure(max_depth=0)
    seen: list[int] = []
    summary = await app.dead_letters().replay(progress=lambda so_far: seen.append(so_far.matched))
    assert (summary.refused, len(summary.examples)) == (130, EXAMPLES)
    assert seen == [50, 100, 130]


async def test_a_lost_answer_replays_once(app: Tenure, between: Between, send: Definition[[int], None]) -> None:
    await failed(app, send, 3)
    lost = 2

    async def losing(verb: Meddle, commands: Any) -> Any:
        nonlocal lost
        answer = await verb(commands)
        if lost:
            lost -= 1
            raise OutcomeUnknown
        return answer

    between.meddle["command"] = losing
    assert await app.dead_letters().replay() == Summary(matched=3, replayed=3)
    assert len(await app.jobs()) == 6
    first, second, third = between.of("command")
    assert first == second == third


async def test_a_frozen_store_stops_it(app: Tenure, store: Store, send: Definition[[int], None]) -> None:
    await failed(app, send, 1)
    await store.freeze()
    with pytest.raises(StoreFrozen):
        await app.dead_letters().replay()


# Pace and progress


async def test_a_rate_is_kept(app: Tenure, between: Between, send: Definition[[int], None]) -> None:
    """Three a day: one at once, the second eight hours later, the third after sixteen."""
    await failed(app, send, 3)
    between.calls.clear()
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        assert len(between.of("command")) == len(pauses), "it pauses between batches, not after the last"

    letters = DeadLetters(app, "open", {}, sleep=sleep)
    assert (await letters.replay(rate="3/d")).replayed == 3
    assert pauses == [pytest.approx(8 * 3_600, abs=60), pytest.approx(16 * 3_600, abs=60)]
    assert [len(batch) for batch in between.of("command")] == [1, 1, 1]


async def test_a_batch_is_a_seconds_worth(app: Tenure, between: Between, send: Definition[[int], None]) -> None:
    await failed(app, send, 25)
    between.calls.clear()
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    assert (await DeadLetters(app, "open", {}, sleep=sleep).discard(rate="600/min")).discarded == 25
    assert [len(batch) for batch in between.of("command")] == [10, 10, 5]
    assert len(waited) == 2


async def test_progress_is_told(app: Tenure, send: Definition[[int], None]) -> None:
    await failed(app, send, 3)
    seen: list[Summary] = []

    async def progress(so_far: Summary) -> None:
        seen.append(so_far)

    async def sleep(seconds: float) -> None: ...

    summary = await DeadLetters(app, "open", {}, sleep=sleep).replay(rate="1/h", progress=progress)
    assert [so_far.replayed for so_far in seen] == [1, 2, 3]
    assert seen[-1] == summary


# Discarding


async def test_discarding_them_all(app: Tenure, send: Definition[[int], None]) -> None:
    ids = await failed(app, send, 3)
    new = await app.replay(ids[0])
    assert await app.dead_letters().discard() == Summary(matched=2, discarded=2)
    assert await app.dead_letters() == []
    assert await app.dead_letters(disposition=None).discard() == Summary(matched=3, already=3)
    dispositions = [(await app.get(id)).dead_letter for id in ids]
    assert dispositions == [Disposition.REPLAYED, Disposition.DISCARDED, Disposition.DISCARDED]
    assert (await app.get(ids[0])).replayed_as == new.id


async def test_each_tenant_deals_with_its_own(app: Tenure, send: Definition[[int], None]) -> None:
    await failed(app, send, 1)
    await failed(app, send, 2, tenant="acme")
    acme = app.tenant("acme")
    assert (await acme.dead_letters().replay()).replayed == 2
    assert len(await app.dead_letters()) == 1
    assert (await app.dead_letters().discard()).discarded == 1


def test_from_code_without_a_loop(app: Tenure) -> None:
    assert list(app.sync.dead_letters(queue="mail")) == []
    assert app.sync.dead_letters().replay(dry_run=True) == Summary()
    assert app.sync.tenant("acme").dead_letters().discard() == Summary()
