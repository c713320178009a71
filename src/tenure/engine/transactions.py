"""In the user's transaction: jobs that are enqueued with other writes, and handlers whose writes end their job."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from tenure.blobs.spill import Body
from tenure.domain.calls import Enqueued, Settle
from tenure.domain.errors import InvalidValue, NotReady, Refused, Unsupported
from tenure.domain.job import NewJob
from tenure.domain.store import JoiningStore, Store
from tenure.engine.bodies import to_settle
from tenure.engine.signals import InvalidResult
from tenure.engine.signature import of_result

if TYPE_CHECKING:
    from tenure.engine.context import Context
    from tenure.engine.definition import Call
    from tenure.engine.options import Options

LONGEST_SECONDS = 5.0
"""How long a handler may keep a transaction open: on SQLite every other writer waits for it."""


def joining(store: Store) -> JoiningStore:
    """The store, if it can work inside a user's transaction."""
    if not store.capabilities.user_transactions:
        raise Unsupported(f"the {store.capabilities.name} store can't join a transaction of yours")
    return cast(JoiningStore, store)


def enqueue_joined(store: Store, connection: Any, job: NewJob) -> list[Enqueued | Refused]:
    """Enqueues in the caller's open transaction, in the caller's thread."""
    return joining(store).enqueue_in(connection, [job])


async def enqueue_joined_async(store: Store, connection: Any, job: NewJob) -> list[Enqueued | Refused]:
    """Enqueues in the caller's open transaction, whose connection may belong to the caller's event loop."""
    return await joining(store).enqueue_in_async(connection, [job])


def refuse_connection(options: "Options", where: str) -> None:
    """What can't go in with the user's transaction must not go in beside it unnoticed."""
    if options.get("connection") is not None:
        raise InvalidValue(f"connection: {where} can't go in with a transaction of yours; enqueue the job by itself")


class HandlerTransaction:
    """What `async with ctx.transaction() as tx` gives."""

    def __init__(self, context: "Context", connection: Any) -> None:
        self._context = context
        self.connection = connection
        """For the handler's own statements."""
        self.result: Any = None
        """The job's result."""

    def enqueue(self, call: "Call[Any]") -> Any:
        """Enqueues a job in the same transaction."""
        return self._context.enqueue(call)


@asynccontextmanager
async def transaction(context: "Context") -> AsyncIterator[HandlerTransaction]:
    """A handler's writes and its job's success, together. The token is checked first, and again at the commit."""
    claimed, app = context.claimed, context.app
    if not claimed.token.secret:
        raise NotReady("a handler in a process, or run by execute_now(), has no lease to end: use executor='inline'")
    store = joining(await app.opened())
    if context.settled:
        raise NotReady("this job has already ended by a transaction")
    async with asyncio.timeout(LONGEST_SECONDS), store.transaction() as inner:
        refused = await asyncio.to_thread(inner.check, claimed.token)
        if refused is not None:
            raise refused
        joined = HandlerTransaction(context, inner.connection)
        yield joined
        body = _encoded(context, joined.result)
        success = await to_settle(app, context.tenant, context.id, Body(body, "json"), context.carried)
        (reply,) = await asyncio.to_thread(inner.settle, [Settle(claimed.token, success)])
        if isinstance(reply, Refused):
            raise reply
    context.settled = True


def _encoded(context: "Context", result: Any) -> bytes:
    """The result. One that can't be kept, or isn't of the handler's type, fails the job, and nothing is committed."""
    definition, codec = context.app.definitions[context.job_type], context.app.codecs.get("json")
    try:
        return definition.signature.encode_result(result, codec)
    except InvalidValue as error:
        raise InvalidResult(f"the result of {definition.name} can't be kept: {of_result(error)}") from error
