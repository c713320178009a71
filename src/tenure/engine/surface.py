"""What can be done with the jobs of one tenant. The app itself has this surface for its default tenant."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from tenure.blobs.spill import inner_codec
from tenure.domain.calls import (
    AnyCommand,
    Cancel,
    CommandReply,
    Discard,
    Enqueued,
    JobView,
    Reading,
    Replay,
    Replayed,
    Reprioritise,
    RequestCancel,
    Reschedule,
)
from tenure.domain.errors import EnqueueFailed, InvalidValue, NotReady, Refused
from tenure.domain.job import Alike, NewJob, Spec
from tenure.domain.names import tenant_name
from tenure.domain.states import Disposition, State
from tenure.domain.store import Store
from tenure.engine.blobs import AppBlobs
from tenure.engine.bodies import to_enqueue, to_enqueue_here, to_replay, with_payload_if_there
from tenure.engine.client import FLUSH_JOBS
from tenure.engine.context import CURRENT, NO_BLOBS
from tenure.engine.dead_letters import DeadLetters, LetterWhere
from tenure.engine.definition import Call, checked
from tenure.engine.durations import Seconds, milliseconds
from tenure.engine.feed import Events
from tenure.engine.filters import AnyDisposition, Where, job_filter
from tenure.engine.flows import Flow
from tenure.engine.handle import CancelMode, CancelResult, Handle, Job, cancel_result, job_of
from tenure.engine.listing import Listing
from tenure.engine.options import CALL_OPTIONS, Options, check_names, new_job
from tenure.engine.queue import Queue
from tenure.engine.schedules import CatchUp, Schedule, Schedules, When
from tenure.engine.transactions import enqueue_joined, enqueue_joined_async

if TYPE_CHECKING:
    from tenure.engine.app import Tenure

R = TypeVar("R")

PAGE = 200
LIVE = (State.BLOCKED, State.PENDING, State.RUNNING)


class Surface:
    """The jobs of one tenant, and nothing of anyone else's."""

    def __init__(self, app: "Tenure", tenant: str) -> None:
        self._app = app
        self._tenant = tenant_name(tenant)

    @property
    def _listed(self) -> str | None:
        """Whose jobs lists show."""
        return self._tenant

    @property
    def app(self) -> "Tenure":
        return self._app

    @property
    def tenant_name(self) -> str:
        return self._tenant

    async def store(self) -> Store:
        """The store below, opened."""
        return await self._app.opened()

    @property
    def blobs(self) -> AppBlobs:
        """Bytes too large for a payload, for producers: `ref = await app.blobs.put(data, job_id=…)`, or `ttl=`."""
        if self._app.blob_store is None:
            raise NotReady(NO_BLOBS)
        return AppBlobs(self._app.blob_store, self._tenant)

    # Enqueue

    async def enqueue(self, call: Call[R]) -> Handle[R]:
        """Puts one job in; it is durable when this returns. Raises what the store refused it with.

        A duplicate is no error: `handle.created` is False and the handle is that of the job that holds the key.
        """
        home = self._home_of(checked(call).options)
        jobs = [call.new_job(self._app, home.tenant_name)]
        if self._app.blob_store is not None:
            jobs = await to_enqueue(self._app, jobs)
        (reply,) = await self._put_in([call.options], jobs)
        if isinstance(reply, Refused):
            raise reply
        return Handle(home, reply.id, call.definition, reply.created)

    async def enqueue_many(self, calls: Iterable[Call[R]]) -> list[Handle[R]]:
        """Puts many jobs in, in order. Raises `EnqueueFailed` with every result after all were tried.

        Of a list none is sent if one of its calls is invalid. An iterator is read while the jobs before are on their
        way: what it raises, or is invalid of it, is raised once those are in, with a note of how many they are.
        """
        results = await (self._enqueue_read(calls) if isinstance(calls, Iterator) else self._enqueue(list(calls)))
        handles = [result for result in results if isinstance(result, Handle)]
        if len(handles) < len(results):
            raise EnqueueFailed(results)
        return handles

    async def _enqueue(self, calls: Sequence[Call[R]]) -> list[Handle[R] | Refused]:
        homes = self._homes_of(calls)
        if len(calls) > FLUSH_JOBS and self._app.blob_store is None:
            replies = await self._put_in_parts(calls, homes)
        else:
            jobs = [call.new_job(self._app, home.tenant_name) for call, home in zip(calls, homes, strict=True)]
            replies = await self._put_in([call.options for call in calls], await to_enqueue(self._app, jobs))
        return _results(calls, homes, replies)

    async def _put_in_parts(self, calls: Sequence[Call[R]], homes: "list[Surface]") -> list[Enqueued | Refused]:
        """Many jobs: while the first are on their way the next are made. What can be refused is before any leaves."""
        _refuse_connections(call.options for call in calls)
        enqueuer = await self._app.enqueuer()
        parts = [slice(start, start + FLUSH_JOBS) for start in range(0, len(calls), FLUSH_JOBS)]
        kind = self._kind_of(calls, homes)
        if kind is None:
            jobs = [call.new_job(self._app, home.tenant_name) for call, home in zip(calls, homes, strict=True)]
            return await enqueuer.enqueue_parts(jobs[part] for part in parts)
        payloads = self._payloads_of(kind, calls)
        cut = (payloads[part] for part in parts)
        return await enqueuer.enqueue_parts(Alike(kind, self._app.new_ids(len(some)), some) for some in cut)

    async def _enqueue_read(self, calls: Iterator[Call[R]]) -> list[Handle[R] | Refused]:
        """Jobs whose calls are made while the jobs before are on their way."""
        first = list(islice(calls, FLUSH_JOBS + 1))
        if len(first) <= FLUSH_JOBS or self._app.blob_store is not None:
            return await self._enqueue([*first, *calls])
        made: list[Call[R]] = []
        homes: list[Surface] = []

        def parts() -> Iterator[Sequence[NewJob]]:
            read = chain(first, calls)
            while some := list(islice(read, FLUSH_JOBS)):
                theirs = self._homes_of(some)
                _refuse_connections(call.options for call in some)
                kind = self._kind_of(some, theirs)
                if kind is not None:
                    yield Alike(kind, self._app.new_ids(len(some)), self._payloads_of(kind, some))
                else:
                    yield [call.new_job(self._app, home.tenant_name) for call, home in zip(some, theirs, strict=True)]
                made.extend(some)
                homes.extend(theirs)

        return _results(made, homes, await (await self._app.enqueuer()).enqueue_parts(parts()))

    def _payloads_of(self, kind: NewJob, calls: Sequence[Call[Any]]) -> list[bytes]:
        encode, codec = calls[0].definition.signature.encode, self._app.codecs.get(kind.codec)
        return [encode(call.arguments, codec) for call in calls]

    def _kind_of(self, calls: Sequence[Call[R]], homes: "list[Surface]") -> NewJob | None:
        """The kind that all calls are of, if they are of one."""
        first, home = calls[0], homes[0]
        if all(call.built_like(first) for call in calls) and all(one is home for one in homes):
            return first.kind(self._app, home.tenant_name)
        return None

    async def _put_in(self, options: Sequence[Options], jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        connection = _connection_of(options)
        if connection is None:
            return await (await self._app.enqueuer()).enqueue(jobs)
        return await enqueue_joined_async(self._app.made(), connection, jobs[0])

    def enqueue_here(self, call: Call[R]) -> Handle[R]:
        """Enqueues in the user's transaction, in this very thread."""
        home = self._home_of(checked(call).options)
        job = to_enqueue_here(self._app, call.new_job(self._app, home.tenant_name))
        (reply,) = enqueue_joined(self._app.made(), _connection_of([call.options]), job)
        if isinstance(reply, Refused):
            raise reply
        return Handle(home, reply.id, call.definition, reply.created)

    def _homes_of(self, calls: "Sequence[Call[Any]]") -> "list[Surface]":
        """Whose each job is. Calls that were built the same way have one home."""
        homes: list[Surface] = []
        options: Options | None = None
        home: Surface = self
        for call in calls:
            if checked(call).options is not options:
                options = call.options
                home = self._home_of(options)
            homes.append(home)
        return homes

    def _home_of(self, options: Options) -> "Surface":
        """Whose a new job is: as told, else this surface's; what the app itself makes in a handler is the handler's."""
        job = CURRENT.get()
        inherited = self._tenant if job is None or self is not job.app else job.tenant
        tenant = options.get("tenant", inherited)
        return self if tenant == self._tenant else self._app.tenant(tenant)

    async def send(
        self, name: str, payload: Mapping[str, Any] | None = None, /, **options: Unpack[Options]
    ) -> Handle[Any]:
        """Enqueues a job by its type's name, its arguments as a mapping: for producers without the handler's code."""
        check_names(options, CALL_OPTIONS, "send()")
        if not isinstance(payload, Mapping | None):
            raise InvalidValue(f"payload {payload!r:.80}: give the arguments by name")
        arguments = dict(payload or {})
        known = self._app.definitions.get(name)
        if known is not None:
            return await self.enqueue(Call(known, known.signature.bind((), arguments), options))
        codec = self._app.codecs.get(options.get("codec", "json"))
        home = self._home_of(options)
        job = new_job(
            tenant=home.tenant_name,
            id=options.get("id") or self._app.new_id(),
            job_type=name,
            payload=codec.encode(arguments),
            codec=codec.name,
            arguments=lambda: arguments,
            options=options,
        )
        (reply,) = await self._put_in([options], await to_enqueue(self._app, [job]))
        if isinstance(reply, Refused):
            raise reply
        return Handle(home, reply.id, None, reply.created)

    def flow(self) -> Flow:
        """Jobs that wait for jobs: `flow.add(…)` them, then `await flow.enqueue()`."""
        return Flow(self._home_of(Options()))

    # Schedule

    async def schedule(
        self, name: str, when: When, call: Call[Any], *, tz: str = "UTC", catch_up: CatchUp = "latest"
    ) -> Schedule:
        """Lets a job come again and again: `schedule("nightly", "0 3 * * *", report.build(), tz="Europe/Rome")`.

        `when` is a cron expression, or an interval of 1 second or more. Workers fire it; what nobody fired within a
        minute was missed, and `catch_up` says what becomes of it: the latest one fires, all do (the newest 1,000), or
        none. The same again changes nothing, so call it at every start; other times start anew from now. Each tick's
        job has a key of its own instead of the call's. It goes on until it is removed, whatever code runs; one that a
        worker's code should keep alive is declared there: `@app.job(cron=…)`.
        """
        return await Schedules(self).declare(name, when, call, tz, catch_up)

    async def schedules(self) -> list[Schedule]:
        """The schedules, by name."""
        return await Schedules(self).all()

    async def unschedule(self, name: str) -> bool:
        """Removes a schedule; whether there was one. Jobs that it enqueued stay. One that workers declare is refused:
        they would write it down again.
        """
        return await Schedules(self).remove(name)

    async def pause_schedule(self, name: str) -> Schedule:
        """It fires nothing until `resume_schedule`, also when it is declared again."""
        return await Schedules(self).pause(name)

    async def resume_schedule(self, name: str) -> Schedule:
        """It goes on from now: ticks of the pause are gone."""
        return await Schedules(self).resume(name)

    # Look

    async def view(self, id: str, reading: Reading = Reading()) -> JobView:  # noqa: B008 frozen
        """The record itself. Raises `JobNotFound`."""
        (view,) = await (await self.store()).get([(self._tenant, id)], reading)
        if isinstance(view, Refused):
            raise view
        return view

    async def get(self, id: str, *, explain: bool = False, tracebacks: bool = False) -> Job:
        """A job as it stands. Raises `JobNotFound`; another tenant's job is not found either.

        `explain` says what holds it back, `tracebacks` what its last failed attempts raised.
        """
        view = await self.view(id, Reading(explain=explain, tracebacks=tracebacks))
        return self._job_of(await with_payload_if_there(self._app, view))

    async def get_many(self, ids: Sequence[str]) -> list[Job | None]:
        """Jobs as they stand, in the order asked for; None for those that aren't there."""
        views = await (await self.store()).get([(self._tenant, id) for id in ids])
        return [None if isinstance(view, Refused) else self._job_of(view) for view in views]

    def handle(self, id: str) -> Handle[Any]:
        """The handle of a job that is known by its id."""
        return Handle(self, id)

    def jobs(self, *, limit: int | None = None, **where: Unpack[Where]) -> "Listing":
        """Jobs, newest first: `async for job in app.jobs(state="failed")`, or `await app.jobs(limit=20)` as a list."""
        return Listing(self, where, limit)

    def dead_letters(
        self,
        *,
        disposition: AnyDisposition | None = Disposition.OPEN,
        limit: int | None = None,
        **where: Unpack[LetterWhere],
    ) -> DeadLetters:
        """Failed jobs whose dead letter is open (or as `disposition` says; None: any), to look through, replay or
        discard: `await app.dead_letters(queue="mail").replay(rate="50/s")`.
        """
        return DeadLetters(self, disposition, where, limit)

    def _job_of(self, view: JobView) -> Job:
        try:
            payload = self._app.codecs.get(view.job.spec.codec).decode(view.payload)
        except InvalidValue:
            payload = None
        return job_of(view, payload)

    def events(self, *, after: str | None = None, follow: bool = True) -> Events:
        """What happened, from a cursor on, and what happens next unless `follow=False`.

        `after` None is the beginning, "latest" the end: only what happens from now on.
        """
        return Events(self.store, self._tenant, after, follow)

    # Command

    async def command(self, command: AnyCommand) -> CommandReply:
        """One command. Raises what it was refused with."""
        (reply,) = await (await self.store()).command([command])
        if isinstance(reply, Refused):
            raise reply
        return reply

    @overload
    async def cancel(self, id: str, *, mode: CancelMode = "now") -> CancelResult: ...
    @overload
    async def cancel(self, *, mode: CancelMode = "now", **where: Unpack[Where]) -> int: ...
    async def cancel(self, id: str | None = None, *, mode: CancelMode = "now", **where: Any) -> CancelResult | int:
        """Calls off one job, or all that match: `app.cancel(queue="mail")`; the latter answers how many.

        `mode="request"` only asks running ones.
        """
        if mode not in ("now", "request"):
            raise InvalidValue(f"mode {mode!r}: give 'now' or 'request'")
        if id is None:
            return await self._cancel_many(mode, where)
        if where:
            raise InvalidValue("cancel(): give an id or a filter, not both")
        (reply,) = await (await self.store()).command([self._cancel(id, mode)])
        return cancel_result(reply)

    def _cancel(self, id: str, mode: CancelMode) -> AnyCommand:
        return Cancel(tenant=self._tenant, id=id) if mode == "now" else RequestCancel(tenant=self._tenant, id=id)

    async def _cancel_many(self, mode: CancelMode, where: Mapping[str, Any]) -> int:
        if all(value is None or value == {} for value in where.values()):
            raise InvalidValue("cancel(): give an id or a filter; state=('blocked', 'pending', 'running') means all")
        store, done = await self.store(), 0
        async for page in self.pages({"state": LIVE, **where}):
            replies = await store.command([self._cancel(view.job.spec.id, mode) for view in page])
            done += sum(1 for reply in replies if not isinstance(reply, Refused))
        return done

    async def pages(self, where: Mapping[str, Any], limit: int | None = None) -> AsyncIterator[Sequence[JobView]]:
        """Records that match, newest first, page by page; at most `limit` of them."""
        store, chosen, cursor = await self.store(), job_filter(self._listed, where, "filter"), None
        left = float("inf") if limit is None else limit
        while left > 0:
            page = await store.query(chosen, after=cursor, limit=int(min(PAGE, left)))
            if page.jobs:
                yield page.jobs
            left -= len(page.jobs)
            cursor = page.cursor
            if cursor is None:
                return

    async def reschedule(self, id: str, *, delay: Seconds) -> None:
        """Lets a waiting job run `delay` from now."""
        await self.command(Reschedule(tenant=self._tenant, id=id, delay=milliseconds("delay", delay)))

    async def reprioritise(self, id: str, priority: int) -> None:
        """Gives a waiting job another priority."""
        await self.command(Reprioritise(tenant=self._tenant, id=id, priority=priority))

    async def replay(self, id: str, *, payload: Mapping[str, Any] | None = None, again: bool = False) -> Handle[Any]:
        """Makes a new job of a failed one, with the arguments edited if `payload` gives others.

        Asked again it answers the same new job; `again=True` makes another.
        """
        body, codec, new_id = None, None, self._app.new_id()
        if payload is not None:
            body, codec = await self._edited(id, payload)
        else:
            await to_replay(self._app, await self.view(id), new_id)
        reply = await self.command(
            Replay(tenant=self._tenant, id=id, new_id=new_id, payload=body, codec=codec, again=again)
        )
        if not isinstance(reply, Replayed):
            raise AssertionError(f"a replay answered {reply!r}")
        return Handle(self, reply.new_id, created=reply.created)

    async def _edited(self, id: str, payload: Mapping[str, Any]) -> tuple[bytes, str]:
        spec = (await self.view(id)).job.spec
        return self._encoded(spec, payload), inner_codec(spec.codec)

    def _encoded(self, spec: Spec, payload: Mapping[str, Any]) -> bytes:
        """Other arguments for a job, checked if its type is known here."""
        codec = self._app.codecs.get(inner_codec(spec.codec))
        known = self._app.definitions.get(spec.job_type)
        return codec.encode(payload) if known is None else known.signature.encode(payload, codec)

    async def discard(self, id: str) -> None:
        """Closes a failed job's dead letter for good."""
        await self.command(Discard(tenant=self._tenant, id=id))

    # Configure

    def queue(self, name: str) -> Queue:
        """A queue of this tenant, to configure, pause and resume."""
        return Queue(self.store, self._tenant, name)


def _results(
    calls: Sequence[Call[R]], homes: Sequence[Surface], replies: Sequence[Enqueued | Refused]
) -> list[Handle[R] | Refused]:
    return [
        Handle(home, reply.id, call.definition, reply.created) if isinstance(reply, Enqueued) else reply
        for call, home, reply in zip(calls, homes, replies, strict=True)
    ]


def _connection_of(options: Sequence[Options]) -> Any:
    """The user's connection, if there is one."""
    if len(options) == 1:
        return options[0].get("connection")
    return _refuse_connections(options)


def _refuse_connections(options: Iterable[Options]) -> None:
    """Such a job never leaves together with others."""
    if any(given.get("connection") is not None for given in options):
        raise InvalidValue("connection: enqueue such jobs one by one")
