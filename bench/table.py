"""Tables in Markdown."""

from collections.abc import Sequence


def lines(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    ruler: list[object] = ["---", *["---:"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(str(cell) for cell in row)} |\n" for row in (head, ruler, *rows))
