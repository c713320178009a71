"""`python -m tenure.demo [--jobs N] [--plain] [--keep]`.

Exit codes: 0 nothing was lost, 1 something was or the demo broke, 2 wrong usage; as shells have it, 130 interrupted,
141 nobody reads on, 143 terminated.
"""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tenure.demo.fleet import Broken
from tenure.demo.places import Places
from tenure.demo.proof import Proof
from tenure.demo.story import LEAST_JOBS, MOST_JOBS, WEIGHTS, run
from tenure.demo.view import View, view_for
from tenure.domain.errors import TenureError

FAILED, INTERRUPTED, UNREAD, TERMINATED = 1, 130, 141, 143


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo and answers its exit code; without arguments, as it comes."""
    try:
        options = parser().parse_args(argv or ())
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    folder = Path(tempfile.mkdtemp(prefix="tenure-demo-"))
    code = FAILED
    try:
        view = view_for(WEIGHTS, plain=options.plain)
        code = told(folder, view, options.jobs, options.keep)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except asyncio.CancelledError:
        code = TERMINATED
    except BrokenPipeError:
        code = UNREAD
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        if code == FAILED:
            sys.stderr.write(f"the store and the workers' logs are kept: {folder}\n")
        else:
            shutil.rmtree(folder)
    return code


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="tenure demo",
        description="Watch jobs of three tenants flow through a store, workers killed on the way.",
        allow_abbrev=False,
    )
    made.add_argument("--jobs", type=count, default=600, metavar="N", help="ordinary jobs (default: %(default)s)")
    made.add_argument("--plain", action="store_true", help="plain lines, also on a terminal")
    made.add_argument("--keep", action="store_true", help="let workers go on afterwards, to look around")
    return made


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and LEAST_JOBS <= int(text) <= MOST_JOBS):
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number from {LEAST_JOBS} to {MOST_JOBS}")
    return int(text)


def told(folder: Path, view: View, jobs: int, keep: bool) -> int:
    """The demo, then what to do next; the exit code."""
    view.line(f"Tenure demo in {folder}")
    try:
        found = asyncio.run(_run(Places(folder), view, jobs, keep))
    except (Broken, TenureError) as error:
        view.line(f"the demo broke: {error}", "bad")
        return FAILED
    if not found.sound:
        return FAILED
    if not keep:
        view.line()
        view.line("Next: README.md and examples/ for an app of your own; `tenure demo --keep` to look around yourself,")
        view.line("with `tenure top` and the rest of `tenure --help`.")
    return 0


async def _run(places: Places, view: View, jobs: int, keep: bool) -> Proof:
    """Ended by SIGTERM in order, as by Ctrl-C."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await run(places, view, jobs, keep=keep)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
