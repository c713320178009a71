"""What stores in SQL share about a user's own connections, and about a handler's transaction."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tenure.domain import model
from tenure.domain.calls import Enqueued
from tenure.domain.errors import InvalidValue, Refused
from tenure.domain.job import NewJob, Token, secret_hash
from tenure.domain.model import Unit
from tenure.domain.transitions import refusal

T = TypeVar("T")


def below(given: Any) -> Any:
    """The driver's connection below Django's `connection` or SQLAlchemy's `Connection`; None if it shows none.

    What isn't known to be a connection isn't searched for one.
    """
    if isinstance(shown(given, "settings_dict"), dict) and isinstance(shown(given, "vendor"), str):  # Django's
        if given.connection is None:
            raise InvalidValue("connection: Django hasn't opened it yet; enqueue inside transaction.atomic()")
        return given.connection
    return shown(given, "dbapi_connection") or shown(shown(given, "connection"), "dbapi_connection")


def shown(given: Any, name: str) -> Any:
    """An attribute, if there is one to be had: SQLAlchemy's raise errors of their own when closed, or async."""
    try:
        return getattr(given, name, None)
    except Exception:
        return None


class JoinedCalls(ABC):
    """What can be done inside a handler's transaction besides the handler's own writes."""

    @abstractmethod
    def _run(self, part: Callable[[Unit], T]) -> T:
        """Runs a part in the transaction."""

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued | Refused]:
        return self._run(lambda unit: model.enqueue(unit, jobs))

    def check(self, token: Token) -> Refused | None:
        """Why the holder of a token may not end its lease; None when it may."""
        secret = secret_hash(token.secret)
        found = self._run(lambda unit: refusal(unit.job(token.ref), token.lease_seq, secret, unit.now))
        return found if isinstance(found, Refused) else None
