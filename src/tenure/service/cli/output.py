"""What is printed: results on stdout, as tables for people or JSON for programs; messages on stderr."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from tenure.service.cli.words import clean

if TYPE_CHECKING:
    from rich.console import RenderableType

STYLES = {
    "ok": "green",
    "succeeded": "green",
    "running": "cyan",
    "ready": "blue",
    "retrying": "yellow",
    "warning": "yellow",
    "paused": "yellow",
    "open": "yellow",
    "problem": "bold red",
    "failed": "red",
    "expired": "red",
    "cancelled": "dim",
}
"""Words that are coloured wherever they stand alone in a table."""

Row = Sequence[str]
Advance = Callable[[int], None]


class Column(msgspec.Struct, frozen=True):
    """A table's column. On a narrow terminal a loose one is cut, and one that folds takes more lines."""

    name: str
    right: bool = False
    loose: bool = False
    folds: bool = False


class Out:
    """The two streams of one command."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json
        self._stdout = sys.stdout
        self._stderr = sys.stderr
        self.terminal = not json and self._stdout.isatty()

    # Results

    def line(self, text: str = "") -> None:
        """One line of the result."""
        _write(self._stdout, f"{clean(text)}\n")

    def document(self, value: Any) -> None:
        """The result as one JSON document."""
        _write(self._stdout, f"{msgspec.json.format(to_json(value), indent=2).decode()}\n")

    def item(self, value: Any) -> None:
        """One JSON document of a stream, on a line of its own."""
        _write(self._stdout, f"{to_json(value).decode()}\n")

    def table(self, columns: Sequence[Column], rows: Sequence[Row], *, empty: str = "") -> None:
        """Rows for people; `empty` is said when there are none."""
        if not rows:
            if empty:
                self.say(empty)
        elif self.terminal:
            self.draw(rich_table(columns, rows))
        else:
            for text in plain_table(columns, rows):
                self.line(text)

    def draw(self, drawn: "RenderableType") -> None:
        """Something rich, on a terminal."""
        from rich.console import Console

        Console(file=self._stdout, highlight=False).print(drawn)

    def fields(self, values: Mapping[str, str]) -> None:
        """Names with their values, one per line; empty ones are left out."""
        shown = {name: value for name, value in values.items() if value}
        width = max(map(len, shown), default=0)
        for name, value in shown.items():
            self.line(f"{name:<{width}}  {value}")

    # Messages

    def say(self, text: str) -> None:
        """A message to whoever watches."""
        _write(self._stderr, f"tenure: {clean(text)}\n")

    def ask(self, question: str) -> bool:
        """Asks on the terminal; anything but yes is no."""
        _write(self._stderr, f"{clean(question)} [y/N] ")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Advance]:
        """A bar on a terminal, nothing elsewhere. `total` None: nobody knows."""
        if self.json or not self._stderr.isatty():
            yield lambda count: None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(file=self._stderr), transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda count: bar.advance(task, count)


def to_json(value: Any) -> bytes:
    """JSON of anything; what JSON doesn't know is shown as Python shows it."""
    return msgspec.json.encode(value, enc_hook=repr)


def _write(stream: TextIO, text: str) -> None:
    """Writes at once. What the stream's encoding lacks becomes a question mark."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


def plain_table(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """Aligned text, two spaces between columns."""
    cells = [[column.name for column in columns], *([clean(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    return ["  ".join(_padded(*one) for one in zip(row, widths, columns, strict=True)).rstrip() for row in cells]


def _padded(cell: str, width: int, column: Column) -> str:
    return cell.rjust(width) if column.right else cell.ljust(width)


def rich_table(columns: Sequence[Column], rows: Sequence[Row], title: str | None = None) -> "RenderableType":
    """The same for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), title=title, title_justify="left", header_style="bold")
    cells = [[clean(cell) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        gives_way = column.loose or column.folds
        table.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=not column.folds,
            overflow="fold" if column.folds else "ellipsis",
            min_width=None if gives_way else max(len(column.name), *(len(row[index]) for row in cells)),
        )
    for row in cells:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    return table
