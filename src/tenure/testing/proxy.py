"""A proxy on loopback that breaks connections exactly where a test says.

It knows bytes, not protocols: a fault waits for the next message of a client that contains certain bytes. Faults hit
one connection each; `refusing`, `away` and `mute` hit all that come while they hold.

    with FaultProxy(server.port) as proxy:
        lost = proxy.lose(b"COMMIT", answered=b"Z")
        ...                     # a client on proxy.port commits
        lost.wait()             # it was committed, and nobody was told
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from types import TracebackType

PATIENCE = 30.0
LARGEST = 1 << 16


class Kind(StrEnum):
    """What becomes of a connection whose client sends the bytes."""

    CUT = "cut"  # they aren't passed on
    LOSE = "lose"  # they are, the answer isn't; cut once it has come
    ADD = "add"  # they are, and the answer is followed by something else; then cut
    SAY = "say"  # they aren't, and something else is answered; then cut
    MUTE = "mute"  # they aren't; the connection stays, and nothing moves on it any more
    HOLD = "hold"  # they are, but only when the test says so


class Fault:
    """One fault, armed until it happens."""

    def __init__(self, kind: Kind, asked: bytes, answered: bytes = b"", more: bytes = b"") -> None:
        self.kind = kind
        self.asked = asked
        self.answered = answered
        self.more = more
        self.happened = threading.Event()
        self.released = threading.Event()

    def wait(self, seconds: float = PATIENCE) -> None:
        """Until it has happened; of a lost answer: until it had come."""
        if not self.happened.wait(seconds):
            raise AssertionError(f"{self.kind}: no client sent {self.asked!r} in {seconds:.0f} s")

    def release(self) -> None:
        """Lets go what is held."""
        self.released.set()


class FaultProxy:
    """Listens on a free port and passes everything on to another, unless told otherwise."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.target = (host, port)
        """Where new connections lead to."""
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._links: list[_Link] = []
        self._refusing = self._mute = False
        self.refused = threading.Event()
        """Set once somebody came in vain: while it was refusing or mute."""
        self.delay_seconds = 0.0
        """By how much every message of a client is late."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="fault-proxy", daemon=True)
        self._thread.start()

    def __enter__(self) -> "FaultProxy":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self.cut_all()
        for fault in self._faults:
            fault.release()

    # Faults of one connection

    def cut(self, asked: bytes) -> Fault:
        """The next message with these bytes doesn't arrive: the connection is cut instead."""
        return self._arm(Fault(Kind.CUT, asked))

    def lose(self, asked: bytes, answered: bytes = b"") -> Fault:
        """The next message with these bytes arrives. Nothing of what is answered comes back; once that contains
        `answered` (anything, if not given), the connection is cut.
        """
        return self._arm(Fault(Kind.LOSE, asked, answered))

    def add(self, asked: bytes, answered: bytes, more: bytes) -> Fault:
        """The answer to the next message with these bytes, up to `answered`, is followed by more, and cut."""
        return self._arm(Fault(Kind.ADD, asked, answered, more))

    def say(self, asked: bytes, instead: bytes) -> Fault:
        """The next message with these bytes doesn't arrive, this is the answer, and that was it."""
        return self._arm(Fault(Kind.SAY, asked, more=instead))

    def swallow(self, asked: bytes) -> Fault:
        """The next message with these bytes doesn't arrive, and nothing says so."""
        return self._arm(Fault(Kind.MUTE, asked))

    def hold(self, asked: bytes) -> Fault:
        """The next message with these bytes waits until it is released."""
        return self._arm(Fault(Kind.HOLD, asked))

    def _arm(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    # Faults of all

    def cut_all(self) -> None:
        """Cuts every connection there is."""
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            link.cut()

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Nobody else gets in: new connections are cut at once."""
        self._refusing = True
        try:
            yield
        finally:
            self._refusing = False

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nobody is there: all connections are cut, and new ones too."""
        with self.refusing():
            self.cut_all()
            yield

    @contextmanager
    def mute(self) -> Iterator[None]:
        """Half-open: connections are accepted, bytes are taken, nothing is answered. Those that were open or opened
        meanwhile stay so.
        """
        self._mute = True
        with self._lock:
            for link in self._links:
                link.muted.set()
        try:
            yield
        finally:
            self._mute = False

    # The threads

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            link = _Link(self, client)
            with self._lock:
                self._links.append(link)
            if self._refusing or self._mute:
                self.refused.set()
            if self._mute:
                link.muted.set()
            if self._refusing:
                link.cut()
            else:
                threading.Thread(target=link.run, args=(self.target,), name="fault-proxy", daemon=True).start()

    def due(self, before: bytes, message: bytes) -> Fault | None:
        """The fault that a message sets off, no longer armed. Its bytes may have begun with the message before."""
        with self._lock:
            for fault in self._faults:
                begun = len(fault.asked) - 1
                if fault.asked in (before[-begun:] if begun else b"") + message:
                    self._faults.remove(fault)
                    return fault
        return None


class _Link:
    """One client and its connection to the server."""

    def __init__(self, proxy: FaultProxy, client: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server: socket.socket | None = None
        self._sent_last = b""
        self._answering: Fault | None = None
        self.muted = threading.Event()

    def run(self, target: tuple[str, int]) -> None:
        """Passes on what the client sends, until either end is gone."""
        try:
            self._server = socket.create_connection(target)
        except OSError:
            self.cut()
            return
        with suppress(OSError):  # cut meanwhile
            for end in (self._client, self._server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each waits for the last one's echo
        answers = threading.Thread(target=self._answer, args=(self._server,), name="fault-proxy", daemon=True)
        answers.start()
        with suppress(OSError):
            while message := self._client.recv(LARGEST):
                if not self._pass_on(message, self._server):
                    break
        _shut(self._server)
        answers.join()
        self._client.close()
        self._server.close()

    def _pass_on(self, message: bytes, server: socket.socket) -> bool:
        """Whether to go on."""
        time.sleep(self._proxy.delay_seconds)
        fault = None if self.muted.is_set() else self._proxy.due(self._sent_last, message)
        self._sent_last = message
        if fault is not None and not self._let_through(fault):
            return False
        if not self.muted.is_set():
            server.sendall(message)
        return True

    def _let_through(self, fault: Fault) -> bool:
        match fault.kind:
            case Kind.LOSE | Kind.ADD:
                self._answering = fault  # it happens when the answer comes
                return True
            case Kind.CUT:
                self.cut()
            case Kind.MUTE:
                self.muted.set()
            case Kind.SAY:
                self._client.sendall(fault.more)
                self.cut()
        fault.happened.set()
        if fault.kind is Kind.HOLD:
            fault.released.wait()
        return fault.kind not in (Kind.CUT, Kind.SAY)

    def _answer(self, server: socket.socket) -> None:
        """Passes on what the server answers; of a lost answer it only sees that it has come."""
        seen = b""
        with suppress(OSError):
            while answer := server.recv(LARGEST):
                fault = self._answering
                if fault is not None:
                    seen += answer
                    if fault.answered in seen:
                        self._end_answer(fault, answer)
                        break
                if not self.muted.is_set() and (fault is None or fault.kind is Kind.ADD):
                    self._client.sendall(answer)
        if self._answering is not None:
            self._answering.happened.set()
        if not self.muted.is_set():
            self.cut()

    def _end_answer(self, fault: Fault, answer: bytes) -> None:
        if fault.kind is Kind.ADD:
            self._client.sendall(answer + fault.more)

    def cut(self) -> None:
        """Ends both connections; the threads close them."""
        _shut(self._client)
        if self._server is not None:
            _shut(self._server)
        else:
            self._client.close()


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
