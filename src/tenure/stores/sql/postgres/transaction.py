"""A transaction that a handler shares with its job: both happen, or neither."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from psycopg import AsyncConnection

from tenure.domain import model
from tenure.domain.calls import Settle, Settled
from tenure.domain.errors import Refused
from tenure.domain.model import Unit
from tenure.domain.store import Clock
from tenure.stores.sql.joined import JoinedCalls
from tenure.stores.sql.postgres.connection import Server
from tenure.stores.sql.postgres.joined import run_joined
from tenure.stores.sql.postgres.place import Place
from tenure.stores.sql.postgres.runners import AsyncPsycopgRunner, from_a_thread

T = TypeVar("T")


class PostgresTransaction(JoinedCalls):
    """One transaction on a connection of its own. Its calls block: they belong into a thread, not on the loop."""

    def __init__(self, server: Server, place: Place, clock: Clock | None, connection: "AsyncConnection[Any]") -> None:
        self._server = server
        self._place = place
        self._clock = clock
        self.connection = connection
        """For the handler's own statements, psycopg's and awaited. It commits with the job, or not at all."""
        self._runner = AsyncPsycopgRunner(connection, from_a_thread(asyncio.get_running_loop()))

    def _run(self, part: Callable[[Unit], T]) -> T:
        return run_joined(self._server, self._place, self._clock, self._runner, part)

    def settle(self, settlements: Sequence[Settle]) -> list[Settled | Refused]:
        return self._run(lambda unit: model.settle(unit, settlements))
