"""The same commands on a terminal: tables with colours, questions, a live view."""

import io
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tenure.service.cli.output import Column, Out
from tests.cli.kit import Shop

SECONDS = 60

ON_TERMINAL = """
import fcntl, sys, termios
from tenure.service.cli.main import main
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.exit(main(sys.argv[1:]))
"""
"""Stdin is the controlling terminal, so Ctrl-C is a signal."""


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", end: int) -> None:
        self._process = process
        self._end = end
        self.text = ""

    def until(self, text: str) -> None:
        """Reads until it was printed."""
        deadline = time.monotonic() + SECONDS
        while text not in self.text:
            assert self._read(deadline), f"it ended without {text!r}:\n{self.text}"

    def type(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def ended(self) -> int:
        """Reads to the end; the exit code."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        return self._process.wait(SECONDS)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing comes after:\n{self.text}"
        try:
            read = os.read(self._end, 65_536)
        except OSError:  # how Linux says that nobody holds the other end any more
            return False
        self.text += read.decode(errors="replace")
        return bool(read)


@contextmanager
def terminal(*argv: str) -> Iterator[Terminal]:
    end, other = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "50"}
    process = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, *argv],
        stdin=other,
        stdout=other,
        stderr=other,
        env=environment,
        start_new_session=True,
    )
    os.close(other)
    try:
        yield Terminal(process, end)
    finally:
        process.kill()
        process.wait()
        os.close(end)


def test_a_table_has_colours(shop: Shop) -> None:
    (id,) = shop.fail()
    with terminal("jobs") as screen:
        assert screen.ended() == 0
    assert id in screen.text
    assert "\x1b[31mfailed\x1b[0m" in screen.text
    with terminal("jobs", "--json") as screen:
        assert screen.ended() == 0
    assert "\x1b" not in screen.text


@pytest.mark.parametrize(
    ("answer", "code", "state"), [("y\n", 0, "cancelled"), ("\n", 1, "pending"), ("n\n", 1, "pending")]
)
def test_many_are_cancelled_after_a_yes(shop: Shop, answer: str, code: int, state: str) -> None:
    ids = shop.enqueue(3)
    with terminal("cancel", "--queue", "mail") as screen:
        screen.until("Cancel 3 jobs of tenant default? [y/N] ")
        screen.type(answer)
        assert screen.ended() == code
    assert set(shop.states(ids)) == {state}
    assert ("cancelled 3 jobs" in screen.text) is (code == 0)
    assert ("nothing was done" in screen.text) is (code == 1)


def test_ctrl_c_instead_of_an_answer_is_130(shop: Shop) -> None:
    ids = shop.enqueue(1)
    with terminal("cancel", "--all") as screen:
        screen.until("[y/N] ")
        screen.type("\x03")
        assert screen.ended() == 130
    assert "Traceback" not in screen.text
    assert shop.states(ids) == ["pending"]


def test_a_bar_while_many_are_replayed(shop: Shop) -> None:
    shop.fail(2)
    with terminal("replay", "--all", "--yes") as screen:
        assert screen.ended() == 0
    assert "replay jobs of default" in screen.text
    assert "replayed 2 jobs" in screen.text


def test_top_is_live_until_ctrl_c(shop: Shop) -> None:
    """A job that is claimed later shows in a later frame."""
    shop.enqueue(2)
    first = shop.claim()[0].job.spec.id
    with terminal("top", "--interval", "0.1") as screen:
        screen.until(first)
        second = shop.claim()[0].job.spec.id
        screen.until(second)
        screen.type("\x03")
        assert screen.ended() == 130
    assert "Traceback" not in screen.text


def test_doctor_and_top_once(shop: Shop) -> None:
    shop.enqueue()
    with terminal("doctor") as screen:
        assert screen.ended() == 0
    assert "\x1b[32mok" in screen.text
    with terminal("top", "--once") as screen:
        assert screen.ended() == 0
    assert "events of the last 60 s" in screen.text


class Screen(io.StringIO):
    """A terminal that only remembers."""

    def isatty(self) -> bool:
        return True


def test_nothing_in_a_cell_can_do_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """No markup of rich's, no escape sequences, no line breaks."""
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    Out().table([Column("a"), Column("b", folds=True)], [("[red]x[/red]", "1\x1b]0;title\x07\n2\ud800")])
    shown = screen.getvalue()
    assert "[red]x[/red]" in shown
    assert "\x1b]" not in shown
    assert "\x07" not in shown
    assert "1 ]0;title 2?" in shown
