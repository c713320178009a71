"""What can go wrong between a call and its reply, typed.

    StoreError
    ├── StoreAway
    │   └── NotSent                nothing of the call was sent: it wasn't carried out
    │       ├── NoServer           nobody answers at the address
    │       ├── NotAServer         something answers there that is no Redis or Valkey
    │       └── ClientClosed       the client or the connection was closed first
    ├── OutcomeUnknown
    │   └── Unanswered             the call was sent and its reply didn't come: it may have been carried out
    │       ├── TimedOut           not within the call's time; the connection stays
    │       └── Garbled            bytes came that are no reply; the connection is closed
    └── ServerError                the server answered with an error
        ├── LoginRefused           no password, a wrong one, or no such user
        ├── NoPermission           the ACL user may not run the command, or not on these keys
        ├── NoSuchDatabase         the server has no database of this number
        ├── TooOld                 the server doesn't know RESP3
        ├── ServerBusy             a script runs for too long, or the server takes no more clients
        ├── ServerLoading          the server is reading its data
        ├── NotPrimary             a replica, which takes no writes
        ├── PrimaryAway            a replica that has lost its primary
        ├── TooFewReplicas         fewer replicas follow than the server wants for a write
        ├── CannotPersist          the server can't write to its disk
        ├── OutOfMemory            the server's memory limit is reached
        ├── NotLoaded              the server doesn't have the script or the function
        ├── ClusterDown            the cluster doesn't serve the slot now
        └── Redirected             another node of the cluster has the slot
            ├── Moved              for good
            └── Asked              for this one call, while the slot moves

`retryable` says whether the very same call can succeed later with nothing changed by its caller. An `Unanswered` one
isn't: whether it may be repeated depends on the command.
"""

from collections.abc import Mapping
from typing import ClassVar

from tenure.domain.errors import (
    OutcomeUnknown,
    StoreAway,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Unsupported,
)


class NotSent(StoreAway):
    """Nothing of the call was sent: it wasn't carried out, and to send it again is safe."""

    retryable: ClassVar[bool] = True


class NoServer(NotSent):
    """Nobody answers at the address, or not in time."""


class NotAServer(NotSent):
    """Something answers at the address that doesn't speak RESP, or TLS where TLS is wanted."""

    retryable = False


class ClientClosed(NotSent):
    """The client or the connection was closed before the call was sent."""

    retryable = False


class Unanswered(OutcomeUnknown):
    """The call was sent, at least a part of it, and its reply didn't come: it may or may not have been carried out."""

    retryable: ClassVar[bool] = False

    def __init__(self, said: str) -> None:
        super().__init__()
        self.args = (said,)
        self.said = said

    def __str__(self) -> str:
        return f"{self.said}: the call was sent, and may or may not have been carried out"


class TimedOut(Unanswered):
    """The reply didn't come within the call's time. One that comes later is dropped."""


class Garbled(Unanswered):
    """Bytes came that are no reply, so no later ones can be told apart: the connection was closed."""


class ServerError(StoreError):
    """The server answered with an error: the command had no effect, unless it is a script that wrote before it failed.

    `code` is the error's first word, `said` all of it. In a pipeline it is a value, in its command's place.
    """

    retryable: ClassVar[bool] = False
    advice: ClassVar[str] = ""

    def __init__(self, shown: str, said: str) -> None:
        super().__init__(shown, said)
        self.shown = shown
        self.said = said
        self.code = said.partition(" ")[0]

    def __str__(self) -> str:
        return f"{self.shown}: {self.said}" + (f": {self.advice}" if self.advice else "")


class LoginRefused(ServerError, StoreUnavailable):
    """No password, a wrong one, or no such user."""

    advice = "give the right user and password, as in redis://user:password@host"


class NoPermission(ServerError, StoreUnavailable):
    """The ACL user may not run the command, or not on these keys or channels."""

    advice = "grant it with ACL SETUSER, or connect as another user"


class NoSuchDatabase(ServerError, StoreUnavailable):
    """The server has no database of this number; in a cluster there is only 0."""

    advice = "give a number below the server's `databases`; a cluster has only 0"


class TooOld(ServerError, Unsupported):
    """The server doesn't know RESP3."""

    advice = "Tenure needs Redis 6 or newer, or Valkey, and no proxy in between that speaks less"


class ServerBusy(ServerError, StoreAway):
    """A script has been running for too long, or the server takes no more clients."""

    retryable = True
    advice = "wait; if it stays so, end the script with SCRIPT KILL or FUNCTION KILL, or raise maxclients"


class ServerLoading(ServerError, StoreAway):
    """The server has started and is reading its data."""

    retryable = True
    advice = "wait until it has read its data"


class NotPrimary(ServerError, StoreUnavailable):
    """The server is a replica and takes no writes; after a failover the primary is elsewhere, perhaps at the same
    address: a client connects again.
    """

    retryable = True
    advice = "connect to the primary; during a failover, wait"


class PrimaryAway(ServerError, StoreAway):
    """The server is a replica that has lost its primary, and is set to answer nothing until it is back."""

    retryable = True
    advice = "wait for its primary, or connect to the primary"


class TooFewReplicas(ServerError, StoreAway):
    """Fewer replicas follow than `min-replicas-to-write` wants."""

    retryable = True
    advice = "wait for the replicas, or lower min-replicas-to-write"


class CannotPersist(ServerError, StoreUnavailable):
    """The server can't write to its disk and takes no writes until it can."""

    retryable = True
    advice = "look into the server's log, and make room on its disk"


class OutOfMemory(ServerError, StoreFull):
    """The server's memory limit is reached: the command was refused whole."""

    retryable = True
    advice = "raise maxmemory, or purge; the policy must be noeviction"


class NotLoaded(ServerError):
    """The server doesn't have the script or the function: it was restarted, flushed or replaced."""

    advice = "load it, then call again"


class ClusterDown(ServerError, StoreAway):
    """The cluster doesn't serve the slot now."""

    retryable = True
    advice = "wait until the cluster is whole again"


class Redirected(ServerError):
    """Another node of the cluster has the slot. `host` is empty where the server doesn't know its own name: the host
    that was asked is meant.
    """

    advice = "the server is a node of a cluster: send the call to the node that it names"

    def __init__(self, shown: str, said: str) -> None:
        super().__init__(shown, said)
        _, slot, address = said.split(" ", 2)
        self.slot = int(slot)
        host, _, port = address.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)


class Moved(Redirected):
    """The slot has moved for good."""


class Asked(Redirected):
    """The slot is moving: this one call goes there, behind an ASKING."""


_CODES: Mapping[str, type[ServerError]] = {
    "ASK": Asked,
    "BUSY": ServerBusy,
    "CLUSTERDOWN": ClusterDown,
    "DENIED": LoginRefused,
    "LOADING": ServerLoading,
    "MASTERDOWN": PrimaryAway,
    "MISCONF": CannotPersist,
    "MOVED": Moved,
    "NOAUTH": LoginRefused,
    "NOPERM": NoPermission,
    "NOPROTO": TooOld,
    "NOREPLICAS": TooFewReplicas,
    "NOSCRIPT": NotLoaded,
    "OOM": OutOfMemory,
    "READONLY": NotPrimary,
    "TRYAGAIN": ClusterDown,
    "UNBLOCKED": NotPrimary,
    "WRONGPASS": LoginRefused,
}
_WORDED: Mapping[str, type[ServerError]] = {
    "ERR AUTH <password> called without any password configured": LoginRefused,
    "ERR Client sent AUTH, but no password is set": LoginRefused,
    "ERR DB index is out of range": NoSuchDatabase,
    "ERR Function not found": NotLoaded,
    "ERR SELECT is not allowed in cluster mode": NoSuchDatabase,
    "ERR invalid DB index": NoSuchDatabase,
    "ERR invalid password": LoginRefused,
    "ERR max number of clients": ServerBusy,
    "ERR unknown command 'HELLO'": TooOld,
    "ERR unknown command `HELLO`": TooOld,
}
"""Errors without a code of their own, by how they begin."""


def server_error(shown: str, said: str) -> ServerError:
    """The typed error of an error reply."""
    kind = _CODES.get(said.partition(" ")[0])
    if kind is None:
        kind = next((kind for begin, kind in _WORDED.items() if said.startswith(begin)), ServerError)
    try:
        return kind(shown, said)
    except ValueError:  # a redirection that names no address
        return ServerError(shown, said)
