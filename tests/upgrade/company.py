"""The processes of an upgrade: each with one version's package, heard and told by its campaign."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from tests.upgrade.bases import ROOT, TODAY
from tests.upgrade.plan import Plan

PATIENCE = 120.0
"""Seconds without what is waited for, after which an upgrade is stuck."""
FILL_SECONDS = 7_200.0
LAST_WORDS = 1_500


class Stuck(Exception):
    """A process didn't do what it was to do."""


class Member:
    """One process; what it said is kept by word."""

    def __init__(self, plan: Plan, role: str, name: str, source: Path) -> None:
        self.name = name
        self.heard: dict[str, list[Any]] = {}
        self._errors = Path(plan.folder) / f"errors-{name}.txt"
        self._changed = threading.Condition()
        command = [sys.executable, "-m", "tests.upgrade.actor", role, name, msgspec.json.encode(plan).decode()]
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(source),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._changed:
                    for word, value in msgspec.json.decode(line).items():
                        self.heard.setdefault(word, []).append(value)
                    self._changed.notify_all()
        self.process.wait()
        with self._changed:
            self._changed.notify_all()

    @property
    def refused(self) -> str | None:
        """What a version said that may not use the store."""
        found = self.heard.get("refused")
        return None if found is None else str(found[0])

    def until(self, word: str, seconds: float = PATIENCE) -> Any:
        """Waits until it has said a word, and answers the last value of it; None if it was refused instead."""
        with self._changed:
            self._wait(word, 1, seconds)
            return self.heard.get(word, [None])[-1]

    def more(self, word: str, count: int) -> None:
        """Waits until it says a word so many times more, or is refused."""
        with self._changed:
            self._wait(word, len(self.heard.get(word, ())) + count, PATIENCE)

    def _wait(self, word: str, count: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while len(self.heard.get(word, ())) < count and self.refused is None:
            if self.process.returncode is not None or time.monotonic() > deadline:
                code = self.process.returncode
                raise Stuck(f"{self.name} hasn't said {word!r} (exit code {code}): {self._said()}")
            self._changed.wait(1.0)

    def tell(self, order: str) -> None:
        if self.process.stdin is not None and self.process.poll() is None:
            self.process.stdin.write(f"{order}\n")
            self.process.stdin.flush()

    def end(self) -> list[str]:
        """Asks it to stop and waits; the fault if it didn't end well."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self._listener.join()
        return [f"{self.name} ended with {self.process.returncode}: {self._said()}"] if self.process.returncode else []

    def abandon(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._listener.join()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _said(self) -> str:
        return self._errors.read_text(errors="replace")[-LAST_WORDS:].strip()


def environment(source: Path) -> dict[str, str]:
    """For a program of the version whose package is there."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])}


def migrated(plan: Plan, source: Path = TODAY) -> int:
    """The schema after `tenure migrate` by the version whose package is there."""
    ran = subprocess.run(
        [sys.executable, "-m", "tenure", "migrate", "--json", "--url", plan.url],
        cwd=plan.folder,
        env=environment(source),
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise Stuck(f"tenure migrate ended with {ran.returncode}: {ran.stderr[-LAST_WORDS:].strip()}")
    return int(msgspec.json.decode(ran.stdout)["schema"])
