"""The demo's workers: processes that are started, killed, and ended whatever happens.

Each worker is a process group of its own: a supervisor and its child. So Ctrl-C reaches the demo alone, which then ends
them in order, and a whole worker can be killed in one stroke.
"""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress

import msgspec

from tenure.demo.places import VARIABLE, Places
from tenure.domain.names import SYSTEM
from tenure.domain.store import Store
from tenure.engine.settings import PREFIX
from tenure.engine.worker.presence import WORKER, WorkerCard

STOP_SECONDS = 15.0


class Broken(Exception):
    """The demo can't go on."""


class Fleet:
    """The workers that are at work, by name."""

    def __init__(self, places: Places, url: str) -> None:
        self._places = places
        self._url = url
        self._workers: dict[str, subprocess.Popen[bytes]] = {}

    async def __aenter__(self) -> "Fleet":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends whatever is left, by force. A process that is waited for keeps its number until then."""
        for process in self._workers.values():
            _kill_group(process)
        self._workers.clear()

    def start(self, name: str) -> int:
        """Starts a worker; the number of its process."""
        with self._places.log(name).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 this very interpreter, with names of our own
                [sys.executable, "-m", "tenure.demo.worker", name],
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        self._workers[name] = process
        return process.pid

    def _environment(self) -> dict[str, str]:
        """Ours without any setting of Tenure that happens to be there."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        settings = {"URL": self._url, "POLL": "0.1", "POLL_AT_MOST": "0.5", "SHUTDOWN_GRACE": "1", "CANCEL_GRACE": "2"}
        return {
            **kept,
            **{f"{PREFIX}{name}": value for name, value in settings.items()},
            VARIABLE: str(self._places.folder),
        }

    def check(self) -> None:
        """Raises `Broken` if a worker ended that nobody ended."""
        for name, process in self._workers.items():
            if process.poll() is not None:
                raise Broken(f"worker {name} ended with exit code {process.returncode}: see {self._places.log(name)}")

    def kill(self, name: str) -> None:
        """Kills a whole worker, supervisor and child."""
        _kill_group(self._workers.pop(name))

    async def stop(self) -> list[str]:
        """Asks all to stop and waits until they have; what is to be said of those that didn't do so well."""
        for process in self._workers.values():
            process.terminate()
        stopped = [await self._stopped(name) for name in list(self._workers)]
        return [complaint for complaint in stopped if complaint is not None]

    async def _stopped(self, name: str) -> str | None:
        process = self._workers[name]
        try:
            code = await asyncio.to_thread(process.wait, STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return f"worker {name} doesn't stop: see {self._places.log(name)}"
        _close(self._workers.pop(name))
        return f"worker {name} stopped with exit code {code}: see {self._places.log(name)}" if code else None


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()


async def card_of(store: Store, worker: str) -> WorkerCard | None:
    """What a worker says of itself, if it has said so already."""
    for document in await store.list_documents(SYSTEM, WORKER, prefix=worker):
        if document.name == worker and document.body is not None:
            return msgspec.json.decode(document.body, type=WorkerCard)
    return None
