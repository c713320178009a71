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
    id: str
    """The job's id, made ahead by `app.new_id()`: for blobs that are put before the job."""
    queue: str
    priority: int | Callable[..., int]
    delay: Seconds
    run_at: datetime
    expires: Seconds
    """Cancelled this long after enqueue unless a worker took it before."""
    key: str | Callable[..., str | None] | None
    """What must not be queued twice."""
    unique: Literal["active", "window", "retained"]
    unique_for: Seconds
    group: str | Callable[..., str | None] | None
    """What must not run together."""
    labels: Mapping[str, str]
    max_attempts: int
    max_retries: int
    """The same as max_attempts = max_retries + 1."""
    retry: RetryPolicy
    timeout: Seconds | Callable[..., Seconds]
    lease: Seconds
    grace: Seconds
    result_ttl: Seconds
    codec: str
    result_codec: str
    """When declared only."""
    call_timeout: Seconds
    """How long `.call()` waits."""
    connection: Any
    """A database connection with an open transaction on the store's own database: the job goes in with it, or not."""


class JobOptions(Options, total=False):
    """What `@app.job` takes besides: what belongs to the job type alone."""

    name: str
    executor: ExecutorName
    memory: int
    """MiB that a handler in a process may use on top of what the process itself needs."""
    cpu: Seconds
    """Processor time that a handler in a process may use."""


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

    `arguments` is asked only for options that are functions of them.
    """

    def of_arguments(name: str, default: Any = None) -> Any:
        value = options.get(name, default)
        if value is content_key:
            return _digest(payload)
        return value(**arguments()) if callable(value) else value

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
