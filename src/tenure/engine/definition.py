"""A job type: a handler with its options, and the typed ways to enqueue it."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, cast, overload

import msgspec

from tenure.domain import names
from tenure.domain.errors import InvalidValue, NotReady
from tenure.domain.job import NewJob, Parent
from tenure.engine.context import Context
from tenure.engine.durations import milliseconds
from tenure.engine.options import (
    CALL_OPTIONS,
    JOB_OPTIONS,
    OF_ONE_JOB,
    JobOptions,
    Options,
    check_names,
    check_values,
    merged,
    new_job,
    same_for_all,
)
from tenure.engine.periodic import PERIODIC_OPTIONS, periodic
from tenure.engine.signature import HandlerSignature

if TYPE_CHECKING:
    from tenure.engine.app import Tenure
    from tenure.engine.handle import Handle
    from tenure.engine.sync import SyncWays

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

KEPT_TENANTS = 1_000
"""Of how many tenants a way of enqueueing keeps what its jobs share."""


class Call(msgspec.Struct, Generic[R_co], eq=False, gc=False):
    """A job with its arguments, not yet enqueued: `send_email.build(...)`.

    Of calls that were built the same way, `_made` keeps the first job of each tenant: the others are made after it, in
    a fifth of the time. The garbage collector needn't follow calls: it would look at each of 40,000 again and again.
    """

    definition: "Definition[Any, R_co]"
    arguments: dict[str, Any]
    options: Options
    _made: dict[str, NewJob] = {}

    def __repr__(self) -> str:
        return f"<call of {self.definition.name}>"

    def new_job(self, app: "Tenure", tenant: str, *, id: str | None = None, parents: tuple[Parent, ...] = ()) -> NewJob:
        """The job as the store takes it; everything that can be refused without the store is refused here.

        Its id is the one given here, else the one that was made ahead for it (`options(id=…)`), else a new one.
        """
        signature = self.definition.signature
        known = None if parents else self._made.get(tenant)
        if known is not None:
            own = app.new_id() if id is None else names.job_id(id)
            return known.like(own, signature.encode(self.arguments, app.codecs.get(known.codec)))
        definition, options = self.definition, merged(self.definition.declared, self.options)
        codec = app.codecs.get(options.get("codec", "json"))
        job = new_job(
            tenant=tenant,
            id=id or options.get("id") or app.new_id(),
            job_type=definition.name,
            payload=signature.encode(self.arguments, codec),
            codec=codec.name,
            arguments=lambda: signature.with_defaults(self.arguments),
            options=options,
            parents=parents,
        )
        if not parents and same_for_all(options):
            if len(self._made) >= KEPT_TENANTS:
                self._made.clear()
            self._made[tenant] = job
        return job

    def kind(self, app: "Tenure", tenant: str) -> NewJob | None:
        """A job like this one and all others that were built the same way; None if their options tell them apart."""
        if tenant not in self._made:
            self.new_job(app, tenant)
        return self._made.get(tenant)

    def built_like(self, other: "Call[Any]") -> bool:
        """Whether the two were built the same way, so that they are of one kind."""
        return self._made is other._made


def checked(call: Call[R]) -> Call[R]:
    """Refuses what is no call, such as a job type without its arguments."""
    if not isinstance(call, Call):
        raise InvalidValue(f"{call!r:.80}: give a job with its arguments, as in send_email.build(...)")
    return call


class Ways(Generic[P, R]):
    """How a job type can be enqueued, under some options."""

    def __init__(self, definition: "Definition[P, R]", options: Options) -> None:
        self._definition = definition
        self._options = options
        self._made: dict[str, NewJob] = {}

    def options(self, **options: Unpack[Options]) -> "Ways[P, R]":
        """The same with these options over the declared ones: `.options(delay=60).enqueue(...)`."""
        check_names(options, CALL_OPTIONS, f"{self._definition.name}.options()")
        if not options.keys() <= OF_ONE_JOB:
            check_values(self._definition.name, options)
            self._definition.check_codecs(options)
        return Ways(self._definition, merged(self._options, options))

    def build(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The job with its arguments, for `app.enqueue`, `app.enqueue_many`, flows and schedules."""
        definition = self._definition
        return Call(definition, definition.signature.bind(args, kwargs), self._options, self._made)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        """Puts the job into its queue; it is durable when this returns."""
        return await self._definition.app.enqueue(self.build(*args, **kwargs))

    async def call(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Enqueues the job and waits for its result.

        Raises `JobFailed`, `JobCancelled`, or `ResultTimeout` after `call_timeout` (default 60 s).
        """
        handle = await self.enqueue(*args, **kwargs)
        return await handle.result(timeout=self._options.get("call_timeout", 60))

    @property
    def app(self) -> "Tenure":
        """The app that the job belongs to."""
        return self._definition.app

    @property
    def sync(self) -> "SyncWays[P, R]":
        """The same from code without an event loop."""
        from tenure.engine.sync import SyncWays

        return SyncWays(self)


class Definition(Ways[P, R]):
    """A job type. Calling it calls the function itself, here and now."""

    def __init__(self, function: Callable[..., Any], options: JobOptions, handled: bool = True) -> None:
        check_names(options, JOB_OPTIONS, "job")
        _check_function(function)
        own = dict(options)
        self.function = function
        self.handled = handled
        """False for a stub: typed, but run elsewhere."""
        self.name = names.name("job type", str(own.pop("name", None) or getattr(function, "__name__", "")))
        self.executor = _executor(self.name, function, own.pop("executor", None))
        self.limits = _limits(self.name, self.executor, own.pop("memory", None), own.pop("cpu", None))
        """(MiB of memory, seconds of processor time) of a handler in a process."""
        self.periodic = periodic(self.name, own)
        """When the job comes by itself, if it does."""
        for option in PERIODIC_OPTIONS:
            own.pop(option, None)
        self.declared = cast(Options, own)
        """The options it was declared with."""
        check_values(self.name, own)
        self.signature = HandlerSignature(self.name, function)
        if self.periodic is not None:
            self._check_periodic()
        self._apps: list[Tenure] = []
        self.__doc__ = function.__doc__
        super().__init__(self, Options())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    def _check_periodic(self) -> None:
        """Refuses what a worker could never enqueue by itself."""
        if not self.handled:
            raise InvalidValue(f"job {self.name}: workers declare when a job comes, and a stub has none; use @app.job")
        if missing := self.signature.required:
            raise InvalidValue(
                f"job {self.name}: nobody gives {missing[0]!r} when it comes by itself; give every parameter a "
                "default, or use app.schedule, which takes arguments"
            )

    @property
    def queue(self) -> str:
        return self.declared.get("queue", "default")

    @property
    def app(self) -> "Tenure":
        """The app that the job belongs to."""
        if len(self._apps) == 1:
            return self._apps[0]
        if not self._apps:
            raise NotReady(f"job {self.name} belongs to no app yet: call app.include(jobs) with its Jobs first")
        raise NotReady(f"job {self.name} belongs to {len(self._apps)} apps: use app.enqueue({self.name}.build(...))")

    def joined(self, app: "Tenure") -> None:
        """Notes that an app has this job type."""
        if app not in self._apps:
            self._apps.append(app)

    def check_codecs(self, options: Mapping[str, Any], app: "Tenure | None" = None) -> None:
        """Refuses a codec that an app of this job type doesn't know."""
        for name in ("codec", "result_codec"):
            if name in options:
                for one in self._apps if app is None else [app]:
                    try:
                        one.codecs.get(options[name])
                    except InvalidValue as error:
                        raise InvalidValue(f"job {self.name}: {error}; app.codec(…) makes one known") from None


class AsyncDefinition(Definition[P, R]):
    """One whose function is async: a call gives a coroutine, which type checkers refuse where a job is wanted."""

    def __call__(self, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, R]:
        return cast(Coroutine[Any, Any, R], self.function(*args, **kwargs))


def _check_function(function: Any) -> None:
    if inspect.isclass(function):
        raise InvalidValue(f"job {function.__name__}: a class can't be a job; give a function")
    if not callable(function):
        raise InvalidValue(f"job {function!r:.80}: give a function")


def _executor(name: str, function: Callable[..., Any], asked: Any) -> str:
    is_async = inspect.iscoroutinefunction(function)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise InvalidValue(f"job {name}: a generator has no single result; return a value instead of yielding")
    if asked is None:
        return "inline" if is_async else "thread"
    if asked not in ("inline", "thread", "process"):
        raise InvalidValue(f"job {name}: executor {asked!r}: give 'inline', 'thread' or 'process'")
    if asked == "thread" and is_async:
        raise InvalidValue(
            f"job {name}: an async function runs inline or in a process; make it a plain def for threads"
        )
    if asked == "inline" and not is_async:
        raise InvalidValue(f"job {name}: a plain function would block the event loop; use 'thread' or 'process'")
    return str(asked)


def _limits(name: str, executor: str, memory: Any, cpu: Any) -> tuple[int | None, float | None]:
    if (memory is not None or cpu is not None) and executor != "process":
        raise InvalidValue(f"job {name}: memory and cpu can be limited in a process only; add executor='process'")
    if memory is not None:
        names.integer(f"job {name}: memory", memory, 1, 1 << 20)
    return memory, None if cpu is None else milliseconds(f"job {name}: cpu", cpu) / 1_000


class Jobs:
    """Job types of one module, to be included in an app: `jobs = Jobs()`, `@jobs.job`, `app.include(jobs)`."""

    def __init__(self) -> None:
        self._definitions: dict[str, Definition[Any, Any]] = {}

    @overload
    def job(self, function: Callable[Concatenate[Context, P], Awaitable[R]], /) -> AsyncDefinition[P, R]: ...
    @overload
    def job(self, function: Callable[Concatenate[Context, P], R], /) -> Definition[P, R]: ...
    @overload
    def job(self, function: Callable[P, Awaitable[R]], /) -> AsyncDefinition[P, R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> Definition[P, R]: ...
    @overload
    def job(self, **options: Unpack[JobOptions]) -> "Declare": ...
    def job(self, *function: Any, **options: Any) -> Any:
        """Declares a job type: `@app.job` or `@app.job(queue="mail", …)`."""
        if not function:
            return Declare(self, cast(JobOptions, options))
        return self._declare(function[0], JobOptions())

    def stub(self, **options: Unpack[JobOptions]) -> "Declare":
        """Declares a typed job type without its handler, for producers: the function's body is never run."""
        return Declare(self, options, handled=False)

    def _declare(self, function: Callable[..., Any], options: JobOptions, handled: bool = True) -> Definition[Any, Any]:
        kind: type[Definition[Any, Any]] = AsyncDefinition if inspect.iscoroutinefunction(function) else Definition
        definition = kind(function, options, handled)
        self._add(definition)
        return definition

    def _add(self, definition: Definition[Any, Any]) -> None:
        if definition.name in self._definitions:
            raise InvalidValue(f"job {definition.name} is declared twice: give one of them another name=")
        self._definitions[definition.name] = definition

    @property
    def definitions(self) -> Mapping[str, Definition[Any, Any]]:
        """The job types by name."""
        return self._definitions


class Declare:
    """`@app.job(…)` with its options, about to get its function."""

    def __init__(self, home: Jobs, options: JobOptions, handled: bool = True) -> None:
        check_names(options, JOB_OPTIONS, "@job")
        self._home = home
        self._options = options
        self._handled = handled

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[R]], /) -> AsyncDefinition[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Definition[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> AsyncDefinition[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Definition[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return self._home._declare(function, self._options, self._handled)
