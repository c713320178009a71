"""Declaring jobs: what a handler may look like, and what is refused before the program runs."""

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, ForwardRef, cast

import pytest

import tenure
from tenure import Context, InvalidValue, Jobs, Tenure
from tenure.domain import errors
from tenure.domain.errors import NotReady


async def test_a_bare_decorator_takes_the_functions_name_and_the_default_queue(app: Tenure) -> None:
    @app.job
    async def greet(name: str) -> str:
        """Says hello."""
        return f"hello {name}"

    assert (greet.name, greet.queue, greet.executor) == ("greet", "default", "inline")
    assert greet.__doc__ == "Says hello."
    job = await (await greet.enqueue("Ada")).get()
    assert (job.job_type, job.queue, job.payload) == ("greet", "default", {"name": "Ada"})


async def test_declared_options_hold_for_every_job(app: Tenure) -> None:
    @app.job(name="mail.send", queue="mail", max_attempts=7, priority=5, labels={"team": "crm"})
    async def send(to: str) -> None: ...

    job = await (await send.enqueue("a@b.example")).get()
    assert (job.job_type, job.queue, job.max_attempts, job.priority) == ("mail.send", "mail", 7, 5)
    assert job.labels == {"team": "crm"}


async def test_the_decorated_function_stays_callable(app: Tenure) -> None:
    @app.job
    async def double(n: int) -> int:
        return 2 * n

    @app.job
    def triple(n: int) -> int:
        return 3 * n

    assert await double(21) == 42
    assert triple(n=14) == 42


def test_empty_parentheses_are_a_bare_decorator(app: Tenure) -> None:
    @app.job()
    async def greet() -> None: ...

    assert greet.name == "greet"


def test_a_name_is_declared_once(app: Tenure) -> None:
    @app.job
    async def greet() -> None: ...

    with pytest.raises(InvalidValue, match="job greet is declared twice: give one of them another name="):

        @app.job(name="greet")
        async def other() -> None: ...

    assert app.definitions["greet"] is greet


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"priorty": 1}, "there is no option 'priorty'; did you mean 'priority'?"),
        ({"max_tries": 1}, "did you mean 'max_retries'?"),
        ({"zzz": 1}, "known are .*timeout"),
        ({"delay": 5}, "there is no option 'delay'"),
        ({"run_at": 5}, "there is no option 'run_at'"),
        ({"tenant": "acme"}, "there is no option 'tenant'"),
    ],
)
def test_an_unknown_option_is_refused_with_the_one_that_was_meant(
    app: Tenure, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidValue, match=says):
        app.job(**options)
    with pytest.raises(InvalidValue, match=says):
        app.stub(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_attempts": 0}, "max_attempts 0: give an integer from 1 to 1000"),
        ({"max_retries": -1}, "max_retries -1: give an integer"),
        ({"max_attempts": 3, "max_retries": 2}, "max_attempts and max_retries say the same: give one"),
        ({"retry": 5}, "retry 5: give a policy such as Backoff"),
        ({"timeout": -1}, "timeout -1: give 0 to"),
        ({"timeout": 0}, "timeout 0: give an integer from 1"),
        ({"queue": ""}, "queue '': give 1 to 64 of"),
        ({"priority": 101}, "priority 101: give an integer from -100 to 100"),
        ({"labels": "red"}, "labels 'red': give names with their values"),
        ({"unique": "sometimes"}, "unique 'sometimes': give one of active"),
        ({"unique": "active", "unique_for": 5}, "unique_for goes with unique='window'"),
        ({"codec": "pickle"}, r"codec 'pickle' isn't known here: known are json.*; app\.codec\(…\) makes one known"),
        ({"codec": 5}, "codec 5: give 1 to 64 of"),
        ({"key": "a\n"}, "key .*: give 1 to 256 bytes of text"),
    ],
)
def test_a_value_with_which_every_enqueue_would_fail_is_refused_at_the_decorator(
    app: Tenure, options: dict[str, Any], says: str
) -> None:
    async def bill(order: int) -> None: ...

    with pytest.raises(InvalidValue, match=f"^job bill: {says}"):
        app.job(queue="mail", **options)(bill) if "queue" not in options else app.job(**options)(bill)
    assert app.definitions == {}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_attempts": 0}, "max_attempts 0: give an integer"),
        ({"delay": -1}, "delay -1: give 0 to"),
        ({"run_at": "tomorrow"}, "run_at 'tomorrow': give a datetime"),
        ({"call_timeout": "soon"}, "call_timeout 'soon': give a number of seconds"),
        ({"codec": "pickle"}, "codec 'pickle' isn't known here"),
        ({"queue": "", "key": "a"}, "queue '': give 1 to 64 of"),
    ],
)
def test_so_is_one_of_options(app: Tenure, options: dict[str, Any], says: str) -> None:
    @app.job
    async def bill(order: int) -> None: ...

    with pytest.raises(InvalidValue, match=f"^job bill: {says}"):
        bill.options(**options)


async def test_what_differs_from_job_to_job_is_refused_with_its_name_when_it_is_enqueued(app: Tenure) -> None:
    @app.job
    async def bill(order: int) -> None: ...

    with pytest.raises(InvalidValue, match=r"^job bill: key '': give 1 to 256 bytes"):
        await bill.options(key="").enqueue(1)
    assert await app.jobs() == []


def test_options_that_others_complete_may_be_declared_alone(app: Tenure) -> None:
    @app.job(unique="window")
    async def bill(order: int) -> None: ...

    @app.job(unique_for=60, key=lambda order: str(order))
    async def send(order: int) -> None: ...

    assert set(app.definitions) == {"bill", "send"}


def test_a_modules_codec_is_looked_for_when_it_joins_an_app(app: Tenure) -> None:
    jobs = Jobs()

    @jobs.job
    async def first() -> None: ...

    @jobs.job(codec="pickle")
    async def bill(order: int) -> None: ...

    with pytest.raises(InvalidValue, match=r"^job bill: codec 'pickle' isn't known here"):
        app.include(jobs)
    assert app.definitions == {}


def test_what_is_no_function_is_refused(app: Tenure) -> None:
    class Bill: ...

    with pytest.raises(InvalidValue, match=r"^job Bill: a class can't be a job; give a function"):
        app.job(Bill)
    with pytest.raises(InvalidValue, match=r"^job 5: give a function"):
        app.job(cast(Any, 5))


def test_a_context_that_is_not_the_first_parameter_is_refused(app: Tenure) -> None:
    async def second(order: int, ctx: Context) -> None: ...
    async def unevaluated(order: int, ctx: "Context") -> None: ...
    async def forward(order: int, ctx: int) -> None: ...
    async def bare(ctx, order: int) -> None: ...  # type: ignore[no-untyped-def]  # the subject of the test

    forward.__annotations__["ctx"] = ForwardRef("Context")  # how Python 3.14 gives what isn't defined yet
    for function in (second, unevaluated, forward):
        with pytest.raises(InvalidValue, match=f"^job {function.__name__}: ctx: Context must be the first parameter"):
            app.job(function)
    with pytest.raises(InvalidValue, match=r"^job bare: annotate ctx as tenure\.Context, and let it be the first"):
        app.job(bare)


async def test_a_function_of_other_parameters_names_job_and_option(app: Tenure) -> None:
    @app.job(key=lambda invoice: str(invoice))
    async def bill(order: int, note: str = "") -> None: ...

    @app.job(group=lambda order: order + None)
    async def send(order: int) -> None: ...

    with pytest.raises(InvalidValue, match=r"^job bill: key: the function gets .* by name, here order, note \("):
        await bill.enqueue(1)
    with pytest.raises(TypeError, match="unsupported operand"):
        await send.enqueue(1)


def test_parameters_without_a_name_are_refused(app: Tenure) -> None:
    def many(*names: str) -> None: ...
    def open_ended(**names: str) -> None: ...
    def positional(name: str, /) -> None: ...

    for function in (many, open_ended, positional):
        with pytest.raises(InvalidValue, match=f"job {function.__name__}: parameter .* has no name to be sent under"):
            app.job(function)
    assert app.definitions == {}


def test_a_generator_is_refused(app: Tenure) -> None:
    def plain() -> Iterator[int]:
        yield 1

    async def asynchronous() -> AsyncIterator[int]:
        yield 1

    for function in (plain, asynchronous):
        with pytest.raises(InvalidValue, match="a generator has no single result"):
            app.job(cast(Any, function))


def test_an_executor_that_cant_run_the_function_is_refused(app: Tenure) -> None:
    async def waits() -> None: ...
    def computes() -> None: ...

    with pytest.raises(InvalidValue, match="make it a plain def for threads"):
        app.job(executor="thread")(waits)
    with pytest.raises(InvalidValue, match="would block the event loop; use 'thread' or 'process'"):
        app.job(executor="inline")(computes)
    with pytest.raises(InvalidValue, match="executor 'gpu': give 'inline', 'thread' or 'process'"):
        app.job(executor=cast(Any, "gpu"))(computes)
    assert app.job(computes).executor == "thread"


@pytest.mark.parametrize("name", ["<lambda>", "send mail", "é", "x" * 65])
def test_a_name_that_cant_be_kept_is_refused(app: Tenure, name: str) -> None:
    with pytest.raises(InvalidValue, match=r"job type .*: give 1 to 64 of"):
        app.job(name=name)(lambda: None)


# Many modules


async def test_a_modules_jobs_join_an_app(app: Tenure) -> None:
    jobs = Jobs()

    @jobs.job
    async def greet(name: str) -> str:
        return f"hello {name}"

    @jobs.job(queue="mail")
    async def send() -> None: ...

    app.include(jobs)
    async with app.worker():
        assert await greet.call("Ada") == "hello Ada"
        assert (await send.enqueue()).created


async def test_a_job_of_no_app_says_what_to_do(app: Tenure) -> None:
    jobs = Jobs()

    @jobs.job
    async def greet() -> None: ...

    with pytest.raises(NotReady, match=r"job greet belongs to no app yet: call app.include\(jobs\)"):
        await greet.enqueue()


async def test_a_job_of_two_apps_is_enqueued_through_one_of_them(app: Tenure) -> None:
    jobs, other = Jobs(), Tenure("memory://")

    @jobs.job
    async def greet() -> None: ...

    app.include(jobs)
    other.include(jobs)
    with pytest.raises(NotReady, match=r"job greet belongs to 2 apps: use app.enqueue\(greet.build\(...\)\)"):
        await greet.enqueue()
    assert (await app.enqueue(greet.build())).created
    assert [job.job_type for job in await app.jobs()] == ["greet"]
    assert await other.jobs() == []


def test_including_a_name_twice_takes_nothing_in(app: Tenure) -> None:
    jobs = Jobs()

    @jobs.job
    async def first() -> None: ...

    @jobs.job
    async def greet() -> None: ...

    @app.job(name="greet")
    async def own() -> None: ...

    with pytest.raises(InvalidValue, match="job greet is declared twice"):
        app.include(jobs)
    assert set(app.definitions) == {"greet"}


# Parameters


class Later:
    """Named in annotations before it is defined, below."""


def declared_before_its_types(app: Tenure) -> Any:
    @app.job
    async def ship(order: "Order", ctx_free: "int" = 1) -> "Order":
        return order

    return ship


async def test_annotations_may_name_what_is_defined_later(app: Tenure) -> None:
    ship = declared_before_its_types(app)
    async with app.worker():
        assert await ship.call(Order(3)) == Order(3)
    with pytest.raises(InvalidValue, match="order"):
        await ship.enqueue({"wrong": 1})


UNQUOTED = """
from tenure import Jobs

jobs = Jobs()


@jobs.job(key=lambda order: "k")
async def ship(order: Parcel) -> Parcel:
    return order


class Parcel(int): ...
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="such a name is a NameError in Python itself before 3.14")
def test_annotations_without_quotes_may_name_what_is_defined_later() -> None:
    module: dict[str, Any] = {}
    exec(UNQUOTED, module)
    assert module["ship"].build(3).arguments == {"order": 3}


async def test_an_annotation_that_nothing_defines_is_named(app: Tenure) -> None:
    @app.job
    async def ship(order: "Nothing") -> None: ...  # type: ignore[name-defined]  # noqa: F821 the subject of the test

    enqueue: Any = ship.enqueue
    with pytest.raises(InvalidValue, match=r"job ship: an annotation can't be resolved .*'Nothing' is not defined"):
        await enqueue(1)


async def test_a_parameter_that_cant_be_sent_is_refused_at_the_first_use(app: Tenure) -> None:
    @app.job
    async def mix(either: dict[str, int] | Order) -> None: ...

    @app.job
    async def keep(connection: Later) -> None: ...

    with pytest.raises(InvalidValue, match="job mix: its parameters can't be sent"):
        await mix.enqueue({"a": 1})
    with pytest.raises(InvalidValue, match="Later"):
        await keep.enqueue(Later())
    assert await app.jobs() == []


async def test_defaults_stay_the_handlers(app: Tenure) -> None:
    """What wasn't given isn't sent: the handler that runs decides, though it be newer than the producer."""

    @app.job
    async def greet(name: str, greeting: str = "hello", marks: int = 1) -> str:
        return f"{greeting} {name}{'!' * marks}"

    handle = await greet.enqueue("Ada", marks=2)
    assert (await handle.get()).payload == {"name": "Ada", "marks": 2}
    async with app.worker():
        assert await handle.result(5) == "hello Ada!!"


async def test_the_context_is_found_by_its_annotation_and_may_be_left_out(app: Tenure) -> None:
    @app.job
    async def with_context(whatever: Context, n: int) -> str:
        return f"{whatever.job_type} {n}"

    @app.job
    def in_a_thread(whatever: Context, n: int) -> str:
        return f"{whatever.job_type} {n}"

    @app.job
    async def without(ctx: int) -> int:
        return ctx

    async with app.worker():
        assert await with_context.call(1) == "with_context 1"
        assert await in_a_thread.call(n=2) == "in_a_thread 2"
        assert await without.call(3) == 3


async def test_a_parameter_without_annotation_takes_anything_that_can_be_sent(app: Tenure) -> None:
    @app.job
    async def echo(value, other=None):  # type: ignore[no-untyped-def]
        return [value, other]

    async with app.worker():
        assert await echo.call({"a": [1, None]}, other="x") == [{"a": [1, None]}, "x"]
        assert await echo.call(1) == [1, None]


# Stubs


async def test_a_stub_is_typed_and_run_elsewhere(app: Tenure) -> None:
    ran: list[str] = []

    @app.stub(name="mail.send", queue="mail")
    def send(to: str) -> int:
        ran.append(to)
        raise AssertionError("a stub's body is never run")

    with pytest.raises(InvalidValue, match=r"mail.send\(\)"):
        await send.enqueue(cast(Any, 5))
    handle = await send.enqueue("a@b.example")

    elsewhere = Tenure(store=await app.opened(), settings=app.settings)

    @elsewhere.job(name="mail.send", queue="mail")
    async def handler(to: str) -> int:
        ran.append(f"really {to}")
        return len(to)

    async with elsewhere.worker():
        assert await handle.result(5) == 11
    assert ran == ["really a@b.example"]
    with pytest.raises(InvalidValue, match="is a stub: its handler is elsewhere"):
        await app.execute_now(send.build("x"))


async def test_a_worker_gives_back_what_it_knows_only_as_a_stub(app: Tenure) -> None:
    @app.stub(name="mail.send")
    async def send() -> None: ...

    handle = await send.enqueue()
    async with app.worker() as worker:
        await worker.idle()
    job = await handle.get()
    assert (job.status, job.attempt, job.history[-1].reason) == ("scheduled", 0, "unknown_type")


from dataclasses import dataclass  # noqa: E402 defined after the jobs that name it


@dataclass
class Order:
    number: int


# Names


def test_every_public_name_is_where_it_is_said_to_be() -> None:
    assert sorted(tenure.__all__) == sorted(tenure._HOMES)
    assert None not in [getattr(tenure, name) for name in tenure.__all__]


def test_every_error_can_be_imported_from_the_package() -> None:
    raised = {name: one for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, Exception)}
    assert {name: getattr(tenure, name, None) for name in raised} == raised


def test_dir_shows_the_public_names_alone() -> None:
    assert [name for name in dir(tenure) if not name.startswith("__")] == sorted(tenure.__all__)


async def test_a_job_type_without_its_arguments_is_refused_with_advice(app: Tenure) -> None:
    @app.job
    async def work() -> None: ...

    forgotten = cast(Any, work)
    for ask in (
        lambda: app.enqueue(forgotten),
        lambda: app.enqueue_many([forgotten]),
        lambda: app.schedule("tick", 60, forgotten),
    ):
        with pytest.raises(InvalidValue, match=r"<job work>: give a job with its arguments, as in send_email\.build"):
            await ask()
    with pytest.raises(InvalidValue, match="<job work>: give a job"):
        app.flow().add(forgotten)
