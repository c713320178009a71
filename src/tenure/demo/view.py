"""What the demo shows: what happens, line by line, and how everything stands, on a terminal as a live table."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TextIO

from tenure.demo.board import Board, Row

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

DRAWN_SECONDS = 0.2
PLAIN_SECONDS = 2.0
"""How often the state of things is shown, on a terminal and elsewhere."""

Tone = Literal["", "bad", "good", "quiet"]
STYLES: Mapping[Tone, str] = {"": "", "bad": "bold red", "good": "green", "quiet": "dim"}


class View:
    """Plain lines, for files, pipes and programs."""

    interval_seconds = PLAIN_SECONDS

    def __init__(self, weights: Mapping[str, int], stream: TextIO | None = None) -> None:
        self._weights = weights
        self._stream = stream or sys.stdout
        self._started = time.monotonic()
        self._shown_at = self._started

    def __enter__(self) -> "View":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to draw."""

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._started

    def say(self, text: str, tone: Tone = "") -> None:
        """One thing that happened, with its time."""
        self.line(f"{self.seconds:5.1f} s  {text}", tone)

    def line(self, text: str = "", tone: Tone = "") -> None:
        """One line. What the stream's encoding lacks becomes a question mark."""
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(f"{text}\n".encode(encoding, "replace").decode(encoding))
        self._stream.flush()

    def show(self, board: Board, fates: Mapping[str, str]) -> None:
        """How everything stands, if it is time."""
        if time.monotonic() - self._shown_at >= self.interval_seconds:
            self._shown_at = time.monotonic()
            self._draw(board, fates)

    def _draw(self, board: Board, fates: Mapping[str, str]) -> None:
        rows = board.tenants()
        tenants = "  ".join(f"{tenant}: {_row_text(rows.get(tenant, Row()))}" for tenant in self._weights)
        self.say(f"{tenants}  recovered: {board.recovered}", "quiet")


def _row_text(row: Row) -> str:
    return f"{row.waiting} waiting, {row.running} running, {row.succeeded} succeeded"


class LiveView(View):
    """The same on a terminal: lines scroll by above a table that is drawn again and again."""

    interval_seconds = DRAWN_SECONDS

    def __init__(self, weights: Mapping[str, int], console: "Console | None" = None) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(weights)
        self._console = console or Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> "View":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def line(self, text: str = "", tone: Tone = "") -> None:
        from rich.text import Text

        # What is given to `print` holds for the table below, too; so the style is the text's own.
        self._console.print(Text(text, style=STYLES[tone]), soft_wrap=not self._live.is_started)

    def _draw(self, board: Board, fates: Mapping[str, str]) -> None:
        self._live.update(drawn(board, fates, self._weights), refresh=True)


def drawn(board: Board, fates: Mapping[str, str], weights: Mapping[str, int]) -> "RenderableType":
    """The tables of tenants and of workers, and what was recovered."""
    from rich import box
    from rich.columns import Columns
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    tenants, rows = Table(box=box.SIMPLE_HEAD, header_style="bold"), board.tenants()
    for name in ("tenant", "weight", "waiting", "running", "succeeded"):
        tenants.add_column(name, justify="left" if name == "tenant" else "right")
    for tenant, weight in weights.items():
        row = rows.get(tenant, Row())
        tenants.add_row(tenant, str(weight), str(row.waiting), str(row.running), str(row.succeeded))
    workers = Table(box=box.SIMPLE_HEAD, header_style="bold")
    for name in ("worker", "", "holds", "succeeded"):
        workers.add_column(name, justify="right" if name in ("holds", "succeeded") else "left")
    for worker, row in board.workers.items():
        fate = Text(fates.get(worker, "works"), style="red" if worker in fates else "green")
        workers.add_row(worker, fate, str(row.running), str(row.succeeded))
    return Group(Columns([tenants, workers]), Text(f"  {board.recovered} jobs recovered"))


def view_for(weights: Mapping[str, int], *, plain: bool) -> View:
    """The live one on a terminal, unless plain lines were asked for."""
    return View(weights) if plain or not sys.stdout.isatty() else LiveView(weights)
