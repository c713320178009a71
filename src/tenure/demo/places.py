"""Where the demo keeps its things: one folder with the store, what each process asked of it, pictures and logs."""

import os
from pathlib import Path

import msgspec

from tenure.demo.jobs import Services
from tenure.stores.clock import system_clock
from tenure.stores.opening import register
from tenure.stores.sql.sqlite import SqliteStore
from tenure.testing.history import JsonLines, RecordingStore

SCHEME = "recorded"
VARIABLE = "TENURE_DEMO_FOLDER"
"""What tells a worker where the folder is."""


class Places:
    """A folder and what is where in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "jobs.db"
        self.histories = folder / "histories"
        self.pictures = folder / "pictures"
        self._services = folder / "services.json"

    def make(self) -> None:
        self.histories.mkdir()
        self.pictures.mkdir()

    def log(self, worker: str) -> Path:
        return self.folder / f"worker-{worker}.log"

    @property
    def url(self) -> str:
        """The store, for anyone."""
        return f"sqlite:///{self.store}"

    @property
    def recorded_url(self) -> str:
        """The store, for processes that write down each call that they make of it."""
        return f"{SCHEME}://{self.folder}"

    def recorded(self, process: str) -> RecordingStore:
        sink = JsonLines(self.histories / f"{process}.jsonl")
        return RecordingStore(SqliteStore(self.store), sink, process, system_clock)

    def write(self, services: Services) -> None:
        """For its owner alone: a secret is in it."""
        file = os.open(self._services, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as opened:
            opened.write(msgspec.json.encode(services))

    def services(self) -> Services:
        return msgspec.json.decode(self._services.read_bytes(), type=Services)


def register_scheme() -> None:
    """Makes `recorded:///folder` a store in this process."""
    register(SCHEME, lambda url: Places(Path(url.removeprefix(f"{SCHEME}://"))).recorded(f"process-{os.getpid()}"))
