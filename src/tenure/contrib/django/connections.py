"""Database connections of handlers. A request renews them when it begins and ends; so does a handler here.

Django keeps a connection per thread. A plain function runs in a thread of the worker's, which goes on to other jobs:
connections past their age (`CONN_MAX_AGE`) or broken are closed before and after it. An async function's ORM calls go
to a thread that lasts as long as the job, as a request's do: its connections are closed with it.

It has to happen in the handler's own thread or process, where no middleware runs: the function itself is wrapped.
"""

import functools
import inspect
import sys
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries

from tenure.engine.context import CURRENT
from tenure.engine.definition import Definition

PROCESS = "tenure.contrib.django.process"
"""The module where processes for handlers, and nobody else, find the project's jobs."""

_NOBODY = object()
_INSIDE: ContextVar[object] = ContextVar("tenure-django", default=_NOBODY)
"""The job around whose function connections are renewed. One that it runs by `execute_now` is another."""


def renew_around(definition: Definition[Any, Any]) -> None:
    """Puts the renewal around a job's function, once."""
    function = definition.function
    if hasattr(function, "__tenure_renewed__"):
        return
    wrapped: Any = _async(function) if inspect.iscoroutinefunction(function) else _plain(function)
    wrapped.__tenure_renewed__ = True
    if definition.executor == "process":
        wrapped.__module__ = PROCESS  # whoever looks for it there sets up Django first
    definition.function = wrapped


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not _is_handler():
            return function(*args, **kwargs)
        inside = _INSIDE.set(CURRENT.get())
        _renew()
        try:
            return function(*args, **kwargs)
        finally:
            _INSIDE.reset(inside)
            _renew()

    return run


def _async(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        if not _is_handler():
            return await function(*args, **kwargs)
        inside = _INSIDE.set(CURRENT.get())
        async with ThreadSensitiveContext():
            try:
                return await function(*args, **kwargs)
            finally:
                _INSIDE.reset(inside)
                await sync_to_async(_let_go)()

    return run


def _is_handler() -> bool:
    """Whether a worker called. Anyone may call a job's function, in a request or another handler, and keeps theirs."""
    job = CURRENT.get()
    return _INSIDE.get() is not job and (job is not None or PROCESS in sys.modules)


def _renew() -> None:
    reset_queries()
    close_old_connections()


def _let_go() -> None:
    """The thread ends with the job: what it leaves open would stay open. A test's transaction isn't its own."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
