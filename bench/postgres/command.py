"""What the commands here share."""

import argparse
from pathlib import Path

from bench import record
from bench.record import RESULTS, Figures


def say(text: str) -> None:
    print(text, flush=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every one of them takes."""
    parser.add_argument("--record", type=Path, nargs="?", const=RESULTS, help="keep the figures there (bench/results/)")
    parser.add_argument("--quick", action="store_true", help="only to see that it runs: the figures mean nothing")


def keep(folder: Path | None, name: str, command: str, figures: Figures) -> None:
    """Records figures if they are wanted, and writes the page anew."""
    from bench import markdown  # which knows every measurement, this one too

    if folder is not None:
        record.write(folder / f"{name}.json", command, figures)
        markdown.write(folder, markdown.PAGE if folder == RESULTS else folder / markdown.PAGE.name)
