"""Dead letters in bulk: look through them, replay them, discard them. One job's are `app.replay` and `app.discard`."""

import asyncio
import inspect
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from tenure.blobs import BlobNotFound
from tenure.blobs.spill import inner_codec
from tenure.domain.calls import AnyCommand, CommandReply, Discard, JobView, Replay, Replayed
from tenure.domain.errors import AlreadyReplayed, InvalidValue, OutcomeUnknown, Refused, StoreFrozen, TenureError
from tenure.domain.rate import Rate
from tenure.domain.states import Disposition, State
from tenure.domain.store import Store
from tenure.engine.bodies import to_replay, with_payload_if_there
from tenure.engine.durations import rate as rate_of
from tenure.engine.filters import AnyDisposition
from tenure.engine.handle import Job
from tenure.engine.listing import Listing

if TYPE_CHECKING:
    from tenure.engine.app import Tenure
    from tenure.engine.surface import Surface

EXAMPLES = 100
"""Refusals that a summary tells one by one."""
DEADLINE_SECONDS = 30.0
RETRY_SECONDS = (0.05, 2.0)

Edit = Callable[[Job], Mapping[str, Any] | None]
"""Gives the arguments to replay a job with; None leaves them."""


class LetterWhere(TypedDict, total=False):
    """Which jobs' dead letters are meant; what isn't given may be anything."""

    queue: str
    job_type: str
    labels: Mapping[str, str]
    enqueued_from: datetime
    enqueued_before: datetime


class Refusal(msgspec.Struct, frozen=True):
    """A dead letter that stays as it was, and why."""

    id: str
    reason: str


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What came of many dead letters. After a dry run, what would have been asked for."""

    matched: int = 0
    replayed: int = 0
    discarded: int = 0
    already: int = 0
    """Those that had been replayed, or discarded, before."""
    refused: int = 0
    reasons: dict[str, int] = {}
    """How many were refused for what: QueueFull, KeyHeld, …"""
    examples: tuple[Refusal, ...] = ()
    """The first that were refused."""


Told = Callable[[Summary], Awaitable[None] | None]
Sleep = Callable[[float], Awaitable[None]]


class DeadLetters(Listing):
    """Failed jobs with their dead letters, newest first, read page by page.

    `async for job in app.dead_letters()`, `await app.dead_letters(queue="mail").replay(rate="50/s")`.
    """

    def __init__(
        self,
        surface: "Surface",
        disposition: AnyDisposition | None,
        where: Mapping[str, Any],
        limit: int | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        chosen = {"state": State.FAILED} if disposition is None else {"dead_letter": disposition}
        super().__init__(surface, {**chosen, **where}, limit)
        self._sleep = sleep

    async def replay(
        self,
        *,
        dry_run: bool = False,
        edit: Edit | None = None,
        rate: str | None = None,
        progress: Told | None = None,
    ) -> Summary:
        """Makes a new job of each, at most `rate` ("50/s") of them. A letter replayed before isn't replayed again.

        `edit` may give a job other arguments. `progress` is told after each batch. Safe to run again: it goes on
        with what is left.
        """

        def command(view: JobView) -> AnyCommand:
            spec, payload = view.job.spec, None if edit is None else edit(self._surface._job_of(view))
            body = None if payload is None else self._surface._encoded(spec, payload)
            return Replay(
                tenant=spec.tenant,
                id=spec.id,
                new_id=self._surface.app.new_id(),
                payload=body,
                codec=None if body is None else inner_codec(spec.codec),
            )

        return await self._all(command, Disposition.REPLAYED, dry_run, rate, progress)

    async def discard(self, *, dry_run: bool = False, rate: str | None = None, progress: Told | None = None) -> Summary:
        """Closes each for good. A letter that was replayed stays so."""

        def command(view: JobView) -> AnyCommand:
            return Discard(tenant=view.job.spec.tenant, id=view.job.spec.id)

        return await self._all(command, Disposition.DISCARDED, dry_run, rate, progress)

    async def _all(
        self,
        command: Callable[[JobView], AnyCommand],
        wanted: Disposition,
        dry_run: bool,
        rate: str | None,
        progress: Told | None,
    ) -> Summary:
        pace = _Pace(None if rate is None else rate_of("rate", rate), self._sleep)
        store, count = await self._surface.store(), _Count(wanted)
        async for page in self._surface.pages(self._where, self._limit):
            for batch in pace.batches(page):
                await pace.wait(0 if dry_run else len(batch))
                await _deal(self._surface.app, store, batch, command, count, dry_run)
                if progress is not None:
                    told = progress(count.summary())
                    if inspect.isawaitable(told):
                        await told
        return count.summary()


async def _deal(
    app: "Tenure",
    store: Store,
    batch: Sequence[JobView],
    command: Callable[[JobView], AnyCommand],
    count: "_Count",
    dry_run: bool,
) -> None:
    """One batch: what can't even be asked for is refused here, the rest goes to the store in one call."""
    asked: list[tuple[JobView, AnyCommand]] = []
    for view in batch:
        try:
            made = command(await with_payload_if_there(app, view))
            if isinstance(made, Replay) and made.payload is None and not dry_run:
                await to_replay(app, view, made.new_id)
            asked.append((view, made))
        except (InvalidValue, BlobNotFound) as error:
            count.refused(view, error)
    if dry_run:
        for view, _ in asked:
            count.planned(view)
    elif asked:
        replies = await _insist(store, [one for _, one in asked])
        for (view, _), reply in zip(asked, replies, strict=True):
            count.answered(view, reply)


async def _insist(store: Store, commands: Sequence[AnyCommand]) -> list[CommandReply | Refused]:
    """Commands; while the outcome is unknown, asks again with the same ones, which is safe (§5a)."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_SECONDS
    wait, longest = RETRY_SECONDS
    while True:
        try:
            return await store.command(commands)
        except OutcomeUnknown:
            if loop.time() + wait > deadline:
                raise
        await asyncio.sleep(wait * random.uniform(0.5, 1))
        wait = min(2 * wait, longest)


class _Pace:
    """Batches, and the pauses between them that keep to a rate."""

    def __init__(self, rate: Rate | None, sleep: Sleep) -> None:
        self._seconds = 0.0 if rate is None else rate.period / 1_000 / rate.count
        """Between two jobs."""
        self._sleep = sleep
        self._start: float | None = None
        self._sent = 0

    def batches(self, page: Sequence[JobView]) -> list[Sequence[JobView]]:
        """What goes out in one call: about a second's worth."""
        size = len(page) if not self._seconds else max(1, min(len(page), int(1 / self._seconds)))
        return [page[start : start + size] for start in range(0, len(page), size)]

    async def wait(self, jobs: int) -> None:
        """Returns when so many more may go out."""
        if not self._seconds or not jobs:
            return
        now = asyncio.get_running_loop().time()
        if self._start is None:
            self._start = now
        early = self._start + self._sent * self._seconds - now
        self._sent += jobs
        if early > 0:
            await self._sleep(early)


class _Count:
    """The summary while it grows."""

    def __init__(self, wanted: Disposition) -> None:
        self._wanted = wanted
        self._matched = self._done = self._already = 0
        self._reasons: Counter[str] = Counter()
        self._examples: list[Refusal] = []

    def planned(self, view: JobView) -> None:
        """Would be asked for."""
        self._add(already=view.dead_letter in (self._wanted, Disposition.REPLAYED))

    def answered(self, view: JobView, reply: CommandReply | Refused) -> None:
        if isinstance(reply, StoreFrozen):
            raise reply
        if isinstance(reply, Refused) and not isinstance(reply, AlreadyReplayed):
            self.refused(view, reply)
            return
        before = isinstance(reply, AlreadyReplayed) or (isinstance(reply, Replayed) and not reply.created)
        self._add(already=before or (self._wanted is Disposition.DISCARDED and view.dead_letter is self._wanted))

    def _add(self, *, already: bool) -> None:
        self._matched += 1
        if already:
            self._already += 1
        else:
            self._done += 1

    def refused(self, view: JobView, reason: TenureError) -> None:
        self._matched += 1
        self._reasons[type(reason).__name__] += 1
        if len(self._examples) < EXAMPLES:
            self._examples.append(Refusal(view.job.spec.id, str(reason)))

    def summary(self) -> Summary:
        replays = self._wanted is Disposition.REPLAYED
        return Summary(
            matched=self._matched,
            replayed=self._done if replays else 0,
            discarded=0 if replays else self._done,
            already=self._already,
            refused=self._reasons.total(),
            reasons=dict(self._reasons),
            examples=tuple(self._examples),
        )
