"""A connection that doesn't wait for ever.

A host that vanished is found out by TCP (`KEEPALIVE`). A server, or something on the way to it, that takes what is sent
and never answers isn't: that is found out by its silence.
"""

import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import psycopg
from psycopg import Connection
from psycopg.abc import PQGen
from psycopg.rows import TupleRow

T = TypeVar("T")

STATEMENT_SECONDS = 60
"""The server itself ends a statement that takes longer, and says so."""
SILENT_SECONDS = STATEMENT_SECONDS + 10.0
"""How long nothing may come from a server that owes an answer."""

KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}
"""libpq's names: a host that is gone, or has forgotten the connection, is noticed within half a minute."""


class PatientConnection(Connection[TupleRow]):
    """Closes itself, and fails, when the server has been silent for too long."""

    closing: Callable[[], None] | None = None
    """Called before it closes, by whoever watches its socket."""

    def close(self) -> None:
        if self.closing is not None:
            self.closing()
        super().close()

    def wait(self, gen: PQGen[T], *how: Any, **else_how: Any) -> T:
        return super().wait(self._watched(gen), *how, **else_how)

    def _watched(self, gen: PQGen[T]) -> Generator[Any, Any, T]:
        """Passes through what psycopg waits for; 0 or None instead of readiness says that nothing came."""
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > SILENT_SECONDS:
                    self.close()
                    raise psycopg.OperationalError(f"the server didn't answer for {SILENT_SECONDS:.0f} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer
