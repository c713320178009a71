"""Which jobs are meant: the filters of lists and of what is done to many jobs at once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict

from tenure.domain.calls import JobFilter
from tenure.domain.errors import InvalidValue
from tenure.domain.states import Disposition, State
from tenure.engine.durations import instant
from tenure.engine.options import check_names

AnyState = State | Literal["blocked", "pending", "running", "succeeded", "failed", "cancelled"]
AnyDisposition = Disposition | Literal["open", "replayed", "discarded"]


class Where(TypedDict, total=False):
    """What `app.jobs()` and its kin take; what isn't given may be anything."""

    state: AnyState | Sequence[AnyState]
    queue: str
    job_type: str
    labels: Mapping[str, str]
    enqueued_from: datetime
    enqueued_before: datetime
    dead_letter: AnyDisposition


def job_filter(tenant: str | None, where: Mapping[str, Any], call: str) -> JobFilter:
    """The filter as a store takes it."""
    check_names(where, frozenset(Where.__annotations__), call)
    state, letter = where.get("state"), where.get("dead_letter")
    since, before = where.get("enqueued_from"), where.get("enqueued_before")
    return JobFilter(
        tenant=tenant,
        queue=where.get("queue"),
        job_type=where.get("job_type"),
        states=None if state is None else _states(state),
        labels=dict(where.get("labels") or {}),
        enqueued_from=None if since is None else instant("enqueued_from", since),
        enqueued_before=None if before is None else instant("enqueued_before", before),
        dead_letter=None if letter is None else _one_of(Disposition, "dead_letter", letter),
    )


def _states(given: AnyState | Sequence[AnyState]) -> tuple[State, ...]:
    return tuple(_one_of(State, "state", one) for one in ([given] if isinstance(given, str) else given))


def _one_of(kind: Any, field: str, value: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise InvalidValue(f"{field} {value!r:.80}: give one of {', '.join(kind)}") from None
