"""Every command on the page of the command line runs, in order, and prints what the page shows."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tenure.service.cli import main
from tenure.service.cli.dead_letters import ACTIONS as LETTER_ACTIONS
from tenure.service.cli.queues import ACTIONS as QUEUE_ACTIONS
from tests.spark import quick

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "cli.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^```py\n# shop\.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STORE = re.compile(r"^export TENURE_URL=(\S+)$", re.MULTILINE)
INTERRUPT = "^C"
MARK = "\x1e"
SECONDS = 300


class Step(NamedTuple):
    """A command and what the page says it prints."""

    command: str
    shown: str


def steps(block: str) -> list[Step]:
    found = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        found.append(Step(command, shown.rstrip("\n")))
    return found


STORY = [steps(block) for block in BLOCK.findall(PAGE)]


def test_the_page_has_every_command() -> None:
    commands = [step.command for block in STORY for step in block]
    for name in main.COMMANDS:
        assert any(re.search(rf"\btenure {name}\b", command) for command in commands), name
    for group, actions in (("queues", QUEUE_ACTIONS), ("dead-letters", LETTER_ACTIONS)):
        for action in actions[1:]:
            assert any(f"tenure {group} {action}" in command for command in commands), action


def test_the_page_has_every_exit_code() -> None:
    told = [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)]
    assert told == [0, main.FAILED, main.MISUSED, main.UNAVAILABLE, main.INTERRUPTED]


def test_the_page_runs(tmp_path: Path) -> None:
    """In one folder: each block is a shell of its own, and finds what those before it left."""
    desk = Desk(tmp_path)
    with desk.worker():
        for block in STORY:
            if block[0].shown.splitlines().count(INTERRUPT):
                (step,) = block
                check(step, desk.interrupted(step))
            else:
                for step, printed in zip(block, desk.run(block), strict=True):
                    check(step, printed)


def check(step: Step, printed: str) -> None:
    assert pattern(step.shown).fullmatch(printed.rstrip("\n")), f"$ {step.command}\n{printed}"


def pattern(shown: str) -> re.Pattern[str]:
    """`…` is anything in a line, and a line of it alone is any lines. Blanks may differ in number: widths do."""
    lines = []
    for line in shown.split("\n"):
        parts = [" +".join(map(re.escape, part.split())) for part in line.split("…")]
        lines.append("(?:.*\n)*?.*" if line == "…" else " *" + " *.*? *".join(parts) + " *")
    return re.compile("\n".join(lines))


class Desk:
    """A folder with the page's app, and a shell that knows `tenure`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        for name, module in (("tenure", "-m tenure"), ("python", "")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -W error {module} "$@"\n')
            program.chmod(0o755)
        (program_text,) = PROGRAM.findall(PAGE)
        (folder / "shop.py").write_text(program_text, encoding="utf-8")
        (url,) = STORE.findall(PAGE)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        given = {"PATH": path, "TENURE_URL": url, "TMPDIR": str(folder)}
        self._environment = {**kept, **given, **quick.environment(programs)}

    def run(self, block: list[Step]) -> list[str]:
        """What each command of a block printed."""
        script = "".join(f"printf '{MARK}'\n{step.command}\n" for step in block)
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.stdout.split(MARK)[1:]

    def interrupted(self, step: Step) -> str:
        """What a command printed that is interrupted as soon as it has printed what stands before the ^C."""
        before = step.shown.splitlines().index(INTERRUPT)
        process = self._start(shlex.split(step.command))
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().rstrip("\n") for _ in range(before)]
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=SECONDS)
            assert process.returncode == 0
        finally:
            process.kill()
            process.communicate()
        return "\n".join([*lines, INTERRUPT, rest.rstrip("\n")])

    def worker(self) -> "Worker":
        return Worker(self._start(["tenure", "worker", "shop:app", "--log-level", "error"]))

    def _start(self, argv: list[str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            argv,
            cwd=self.folder,
            env=self._environment,
            executable=self.folder / "bin" / argv[0],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


class Worker:
    """The worker that the page speaks of; at work once the block begins, and ended with it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __enter__(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("worker ")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=SECONDS)
        finally:
            self._process.kill()
            self._process.communicate()
