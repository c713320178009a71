"""Filters that Spark pushes down: what the store can answer is asked of it, the rest stays with Spark."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from tenure.domain.calls import JobFilter
from tenure.domain.errors import InvalidValue
from tenure.domain.names import Ms
from tenure.domain.states import State

NAMES = ("tenant", "queue", "job_type")


class Nothing(Exception):
    """No row can satisfy the filters."""


def pushed(where: JobFilter, filters: Iterable[Filter]) -> JobFilter:
    """The filter with what it can take of Spark's. Raises `Nothing` when they exclude each other.

    All filters hold together, and Spark evaluates every one of them again: it does no harm to leave one out.
    """
    for one in filters:
        where = _narrowed(where, one)
    return where


def _narrowed(where: JobFilter, one: Filter) -> JobFilter:
    column = ".".join(one.attribute) if hasattr(one, "attribute") else ""
    try:
        match one:
            case EqualTo() if column in NAMES:
                return _equal(where, column, one.value)
            case EqualTo() if column == "state":
                return _within(where, [one.value])
            case In() if column == "state":
                return _within(where, one.value)
            case GreaterThan() | GreaterThanOrEqual() if column == "enqueued_at":
                return _since(where, _milliseconds(one.value))
            case LessThan() | LessThanOrEqual() if column == "enqueued_at":
                return _before(where, _milliseconds(one.value) + 1)
    except InvalidValue:  # a name that no job can have
        raise Nothing from None
    return where


def _equal(where: JobFilter, column: str, value: Any) -> JobFilter:
    if getattr(where, column) not in (None, value):
        raise Nothing
    return replace(where, **{column: value})


def _within(where: JobFilter, values: Iterable[Any]) -> JobFilter:
    asked = [state for state in State if state.value in tuple(values)]
    states = tuple(state for state in asked if where.states is None or state in where.states)
    if not states:
        raise Nothing
    return replace(where, states=states)


def _since(where: JobFilter, at: Ms) -> JobFilter:
    return replace(where, enqueued_from=max(at, where.enqueued_from or at))


def _before(where: JobFilter, at: Ms) -> JobFilter:
    return replace(where, enqueued_before=min(at, where.enqueued_before or at))


def _milliseconds(value: datetime) -> Ms:
    return int(value.timestamp() * 1_000)
