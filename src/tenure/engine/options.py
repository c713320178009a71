"""What can be said about a job besides its arguments: when it is declared, and each time it is enqueued."""

import difflib
import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import IntEnum
from typing import Any, Literal, TypedDict, cast

from tenure.codecs import json
from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.job import NewJob, Parent
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import Unique
from tenure.engine.annotations import signature_of
from tenure.engine.durations import Seconds, instant, milliseconds, optional_ms


class Priority(IntEnum):
    """Names for the usual priorities; any integer from -100 to 100 will do."""

    LOWEST = -100
    LOW = -50
    NORMAL = 0
    HIGH = 50
    HIGHEST = 100


ExecutorName = Literal["inline", "thread", "process"]


class Options(TypedDict, total=False):
    """What `.options()` takes. Durations in seconds. Where a function may stand, it gets the arguments by name."""

    tenant: str
    """Whose job it is; else that of the surface it is enqueued by."""
    id: str
    """The job's id, made ahead by `app.new_id()`: for blobs that are put before the job."""
    queue: str
    """Where the job waits; 'default' unless given."""
    priority: int | Callable[..., int]
    """From -100 to 100, higher first, or a `Priority`; 0 unless given."""
    delay: Seconds
    """How long after enqueue the job may start at the earliest."""
    run_at: datetime
    """When the job may start at the earliest, with a time zone; instead of `delay`."""
    expires: Seconds
    """Cancelled this long after enqueue unless a worker took it before."""
    key: str | Callable[..., str | None] | None
    """What must not be queued twice."""
    unique: Literal["active", "window", "retained"]
    """How long the key is taken: while the job lives (the default), for `unique_for` after its success, or as long as
    its record is kept."""
    unique_for: Seconds
    """With unique='window': how long after the job's success the key is still taken."""
    group: str | Callable[..., str | None] | None
    """What must not run together."""
    labels: Mapping[str, str]
    """At most 16 names with short texts, to find jobs by."""
    max_attempts: int
    """How often the job is started before it has failed for good, from 1 to 1,000; 3 unless given."""
    max_retries: int
    """The same as max_attempts = max_retries + 1."""
    retry: RetryPolicy
    """The pause before another attempt: a policy of `Backoff`."""
    timeout: Seconds | Callable[..., Seconds]
    """How long one attempt may take; an hour unless given."""
    lease: Seconds
    """How long its worker may be silent before the job goes to another; else the queue's, else the worker's."""
    grace: Seconds
    """How long after the end of its lease the store still accepts the worker's answer."""
    result_ttl: Seconds
    """How long the result is kept; an hour unless given, 0 keeps none."""
    codec: str
    """How the arguments become bytes: 'json' unless given, 'msgpack', a compressed one, or one of `app.codec()`."""
    result_codec: str
    """The same for the result."""
    call_timeout: Seconds
    """How long `.call()` waits."""
    connection: Any
    """A database connection with an open transaction on the store's own database: the job goes in with it, or not."""


class JobOptions(Options, total=False):
    """What `@app.job` takes besides: what belongs to the job type alone."""

    name: str
    """The job type's name; the function's unless given."""
    executor: ExecutorName
    """Where the handler runs: 'inline' (async functions), 'thread' (plain ones), or 'process'."""
    memory: int
    """MiB that a handler in a process may use on top of what the process itself needs."""
    cpu: Seconds
    """Processor time that a handler in a process may use."""
    cron: str
    """Lets the job come again and again, by a cron expression; every parameter needs a default then."""
    every: Seconds
    """The same at an interval of 1 second or more."""
    tz: str
    """The time zone of `cron`; UTC unless given."""


CALL_OPTIONS = frozenset(Options.__annotations__) - {"result_codec"}
JOB_OPTIONS = frozenset(JobOptions.__annotations__) - {"tenant", "id", "delay", "run_at", "call_timeout", "connection"}


def check_names(given: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    """Refuses an option that doesn't exist, with the one that was probably meant."""
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known))}"
            raise InvalidValue(f"{where}: there is no option {name!r}; {hint}")


def content_key(**arguments: Any) -> str:
    """A key made of the arguments: `key=tenure.content_key` keeps the same call from being queued twice.

    As an option it is made of the payload itself, so that a key and its body never disagree.
    """
    return _digest(json.encode(arguments))


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def new_job(
    *,
    tenant: str,
    id: str,
    job_type: str,
    payload: bytes,
    codec: str,
    arguments: Callable[[], Mapping[str, Any]],
    options: Options,
    parents: tuple[Parent, ...] = (),
) -> NewJob:
    """The job as the store takes it: every option resolved, every duration in milliseconds.

    `arguments` is asked only for options that are functions of them. `InvalidValue` names the job type and the option.
    """

    def of_arguments(name: str, default: Any = None) -> Any:
        value = options.get(name, default)
        if value is content_key:
            return _digest(payload)
        return _of_arguments(name, value, arguments()) if callable(value) else value

    try:
        return _new_job(tenant, id, job_type, payload, codec, of_arguments, options, parents)
    except InvalidValue as error:
        raise InvalidValue(f"job {job_type}: {error}") from error.__cause__


def _new_job(
    tenant: str,
    id: str,
    job_type: str,
    payload: bytes,
    codec: str,
    of_arguments: Callable[..., Any],
    options: Options,
    parents: tuple[Parent, ...],
) -> NewJob:
    run_at, unique = options.get("run_at"), options.get("unique", "active")
    return NewJob(
        tenant=tenant,
        id=id,
        queue=options.get("queue", "default"),
        job_type=job_type,
        payload=payload,
        codec=codec,
        priority=_priority(of_arguments("priority", 0)),
        run_at=None if run_at is None else instant("run_at", run_at),
        delay=optional_ms("delay", options.get("delay")),
        expires=optional_ms("expires", options.get("expires")),
        key=of_arguments("key"),
        unique=_unique(unique),
        unique_for=optional_ms("unique_for", options.get("unique_for")),
        group=of_arguments("group"),
        labels=_labels(options.get("labels", {})),
        max_attempts=_attempts(options),
        retry=_retry(options.get("retry", RetryPolicy())),
        lease=optional_ms("lease", options.get("lease")),
        grace=optional_ms("grace", options.get("grace")),
        timeout=milliseconds("timeout", of_arguments("timeout", 3_600)),
        result_ttl=milliseconds("result_ttl", options.get("result_ttl", 3_600)),
        parents=parents,
    )


def _of_arguments(name: str, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """What an option's function makes of the arguments."""
    try:
        return function(**arguments)
    except TypeError as error:
        if _takes(function, arguments):
            raise  # its own error, not the call's
        given = ", ".join(arguments) or "none"
        raise InvalidValue(f"{name}: the function gets the job's arguments by name, here {given} ({error})") from error


def _takes(function: Callable[..., Any], arguments: Mapping[str, Any]) -> bool:
    try:
        signature_of(function).bind(**arguments)
    except (TypeError, ValueError):
        return False
    return True


OF_ONE_JOB = frozenset({"id", "tenant", "key", "group", "connection"})
"""Options that differ from job to job: looking at them ahead as well would double what many jobs cost."""

_SOME_ID = "00000000-0000-7000-8000-000000000000"


def check_values(job_type: str, given: Mapping[str, Any]) -> None:
    """Refuses options with which every enqueue would fail, before there is one. Functions are left to the enqueue."""
    trial: dict[str, Any] = {name: value for name, value in given.items() if not callable(value)}
    if "unique" in trial or "unique_for" in trial:
        trial["key"] = trial.get("key") or "given later"
        if "unique_for" in trial:
            trial.setdefault("unique", Unique.WINDOW.value)
        elif trial["unique"] == Unique.WINDOW:
            trial["unique_for"] = 1
    for name in ("codec", "result_codec"):
        if name in given:
            names.name(f"job {job_type}: {name}", given[name])
    optional_ms(f"job {job_type}: call_timeout", given.get("call_timeout"))
    new_job(
        tenant="default",
        id=_SOME_ID,
        job_type=job_type,
        payload=b"",
        codec="json",
        arguments=dict,
        options=cast(Options, trial),
    )


def same_for_all(options: Options) -> bool:
    """Whether no option depends on a call's arguments, or belongs to one job."""
    return "id" not in options and not any(map(callable, options.values()))


def _priority(value: Any) -> Any:
    return value.value if isinstance(value, Priority) else value


def _labels(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidValue(f"labels {value!r:.80}: give names with their values")
    return dict(value)


def _retry(value: Any) -> RetryPolicy:
    if not isinstance(value, RetryPolicy):
        raise InvalidValue(f"retry {value!r:.80}: give a policy such as Backoff.exponential(base=5, cap=300)")
    return value


def _unique(value: str) -> Unique:
    try:
        return Unique(value)
    except ValueError:
        raise InvalidValue(f"unique {value!r:.80}: give one of {', '.join(Unique)}") from None


def _attempts(options: Options) -> int:
    if "max_retries" not in options:
        return options.get("max_attempts", 3)
    if "max_attempts" in options:
        raise InvalidValue("max_attempts and max_retries say the same: give one")
    return names.integer("max_retries", options["max_retries"], 0, 999) + 1


def merged(declared: Mapping[str, Any], given: Mapping[str, Any]) -> Options:
    """What was given, over what was declared. Where two options exclude each other, the one given wins."""
    kept = dict(declared)
    for one, other in (("max_attempts", "max_retries"), ("delay", "run_at")):
        if one in given:
            kept.pop(other, None)
        if other in given:
            kept.pop(one, None)
    if given.get("unique", Unique.WINDOW) != Unique.WINDOW:
        kept.pop("unique_for", None)
    return cast(Options, {**kept, **given})
