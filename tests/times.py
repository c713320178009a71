"""Where the time of a test run goes: wall time and CPU-seconds by part, printed when more than one part ran.

CPU-seconds are those of the test process and of every process below it, servers and JVMs too; what a session fixture
starts counts for the first test that asks for it. `TENURE_TEST_TIMES=FILE` keeps all of it as JSON, and counts
processes that outlive their parent too: the test process adopts them, and they stay zombies until it ends.
"""

import ctypes
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

KEPT = "TENURE_TEST_TIMES"
"""Names the file that is written."""
PROPERTY = "tenure_times"
SLOWEST = 10
PR_SET_CHILD_SUBREAPER = 36
"""From <linux/prctl.h>: from now on whoever loses its parent becomes a child of this process."""
TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int | None = None) -> float:
    """What a process (None: this one) has used so far, and every process below it, dead or alive."""
    pid = os.getpid() if pid is None else pid
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICK + sum(map(cpu_seconds, _children(pid, threads)))


def _children(pid: int, threads: list[str]) -> list[int]:
    """The live children of all threads of a process."""
    found: list[int] = []
    for thread in threads:
        try:
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii")
        except OSError:
            continue
        found += map(int, text.split())
    return found


def part_of(nodeid: str) -> str:
    """The part of the tests that a test belongs to: its folder, or its module where the folder is `tests` itself."""
    module = nodeid.partition("::")[0]
    folder, _, name = module.rpartition("/")
    return name.removesuffix(".py") if folder == "tests" else folder.removeprefix("tests/")


class Stopwatch:
    """In the process that runs tests: says with each test's last report what the test took."""

    def __init__(self) -> None:
        self._wall = 0.0
        self._cpu: float | None = None
        if os.environ.get(KEPT):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def pytest_runtest_logstart(self) -> None:
        if self._cpu is None:
            self._wall, self._cpu = time.monotonic(), cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[Any]) -> Any:
        report = yield
        if call.when == "teardown":
            wall, cpu = time.monotonic(), cpu_seconds()
            before = cpu if self._cpu is None else self._cpu
            report.user_properties.append((PROPERTY, [wall - self._wall, max(0.0, cpu - before)]))
            self._wall, self._cpu = wall, cpu
        return report


class Times:
    """In the process that prints: adds up what tests took."""

    def __init__(self) -> None:
        self.tests: dict[str, list[float]] = {}
        """[wall seconds, CPU-seconds] by test."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, list):
                self.tests[report.nodeid] = value

    def parts(self) -> dict[str, list[float]]:
        """[tests, wall seconds, CPU-seconds] by part, the dearest first."""
        parts: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for nodeid, (wall, cpu) in self.tests.items():
            part = parts[part_of(nodeid)]
            part[0] += 1
            part[1] += wall
            part[2] += cpu
        return dict(sorted(parts.items(), key=lambda one: -one[1][2]))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        parts = self.parts()
        if len(parts) > 1:
            terminalreporter.section("where the time went")
            terminalreporter.write_line(table(parts))
            for nodeid, (wall, cpu) in sorted(self.tests.items(), key=lambda one: -one[1][1])[:SLOWEST]:
                terminalreporter.write_line(f"  {wall:>7.1f} {cpu:>7.1f}  {nodeid}")
        if file := os.environ.get(KEPT):
            Path(file).write_text(json.dumps({"parts": parts, "tests": self.tests}), encoding="utf-8")


def table(parts: dict[str, list[float]]) -> str:
    """The parts for people."""
    lines = [f"  {'part':<32}{'tests':>7}{'wall s':>9}{'CPU s':>9}"]
    lines += [f"  {part:<32}{int(count):>7,}{wall:>9.1f}{cpu:>9.1f}" for part, (count, wall, cpu) in parts.items()]
    count, wall, cpu = (sum(column) for column in zip(*parts.values(), strict=True))
    return "\n".join([*lines, f"  {'all, wall over all processes':<32}{int(count):>7,}{wall:>9.1f}{cpu:>9.1f}"])


def install(config: pytest.Config) -> None:
    """Measures where tests run, and prints where results come together."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Stopwatch())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times())
