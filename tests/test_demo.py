"""The demo runs with the core alone and proves what it says; whatever ends it, it leaves nothing behind."""

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenure.demo import main

PATIENCE = 60.0
PROOF = re.compile(
    r"^enqueued (\d+) · succeeded (\d+) · recovered (\d+) · dead-lettered 1 · cancelled 1 · lost 0 · settled twice 0$",
    re.MULTILINE,
)
STARTED = re.compile(r"worker \w+ starts: supervisor is process (\d+)")


@contextmanager
def demo(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The demo in a process of its own; killed at the end if it is still there."""
    environment = {**os.environ, "TMPDIR": str(folder), "TENURE_URL": "postgresql://elsewhere/", "TENURE_POLL": "9"}
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tenure.demo", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_demo_proves_itself_and_lets_you_look_around(tmp_path: Path) -> None:
    with demo(tmp_path, "--jobs", "60", "--keep") as process:
        said, commands = until_kept(process)
        for command in commands:
            look(command)
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, said
    found = PROOF.search(said)
    assert found is not None, said
    enqueued, succeeded, recovered = map(int, found.groups())
    assert enqueued == succeeded + 2 > 60
    assert recovered >= 6
    for line in ("SIGKILL to all of", "gave its jobs back at once", "cancelled while it ran", "keep the contract"):
        assert line in said
    assert re.search(r"^took \d+\.\d s$", said, re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["top", "jobs", "dead-letters", "workers"]
    assert not list(tmp_path.iterdir())


def until_kept(process: subprocess.Popen[str]) -> tuple[str, list[str]]:
    """Waits until the demo is over and its workers go on; what it said, and the commands it gave."""
    assert process.stdout is not None
    said, commands = "", list[str]()
    for line in process.stdout:
        said += line
        if line.startswith("  tenure "):
            commands.append(line.strip())
        if "tenure workers" in line:
            return said, commands
    raise AssertionError(said)


def look(command: str) -> None:
    """Runs a command that the demo gave."""
    _, *words = command.split()
    once = ["--once"] if words[0] == "top" else []
    done = subprocess.run(
        [sys.executable, "-m", "tenure", *words, *once], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


CORE = {"tenure", "msgspec", "rich", "cronsim", "tzdata", "typing_extensions"}
"""What a plain installation brings; msgspec takes the last one if it is there."""

INSTALLED = """
import sys, sysconfig, tenure.demo.__main__, tenure.demo.app
places = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
print(*(name for name, module in sys.modules.items() if (getattr(module, "__file__", "") or "").startswith(places)))
"""


def test_the_demo_needs_nothing_but_the_core() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INSTALLED],
        env={**os.environ, "TENURE_URL": "memory://"},
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {name.partition(".")[0] for name in done.stdout.split()} - {"_distutils_hack", "_virtualenv"}
    assert "msgspec" in imported
    assert imported <= CORE


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_told_to_end_it_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, code: int) -> None:
    with demo(tmp_path) as process:
        workers = started(process)
        process.send_signal(number)
        said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, said
    assert not list(tmp_path.iterdir())
    assert not [pid for pid in workers if not gone(pid, 0)]


def test_killed_it_takes_its_workers_with_it(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        workers = started(process)
        process.kill()
        assert all(gone(pid, PATIENCE) for pid in workers)


def started(process: subprocess.Popen[str]) -> list[int]:
    """Waits until both workers were started; the numbers of their processes."""
    assert process.stdout is not None
    found: list[int] = []
    for line in process.stdout:
        found += [int(number) for number in STARTED.findall(line)]
        if len(found) == 2:
            return found
    raise AssertionError("the demo ended before its workers were started")


def gone(pid: int, seconds: float) -> bool:
    """Whether a process that isn't ours ends in time."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], seconds)[0])
    finally:
        os.close(watched)


@pytest.mark.parametrize(
    "arguments", [["--jobs", "59"], ["--jobs", "5001"], ["--jobs", "many"], ["--job", "60"], ["now"]]
)
def test_wrong_arguments_are_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "error: " in capsys.readouterr().err


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "--keep" in capsys.readouterr().out
