"""Whole workers on PostgreSQL beside their peers: `python -m bench.postgres [--record] [--quick] [--peers all]`.

`--peers none` needs no network; the first run with peers makes an environment for each, in the user's cache folder.
"""

import argparse
import sys

from bench.postgres import measure
from bench.postgres.command import add_options, keep, say
from bench.postgres.measure import measured
from bench.postgres.subjects import PEERS

COMMAND = "python -m bench.postgres --record"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.postgres", description=__doc__)
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of jobs")
    names = sorted({str(subject.peer) for subject in PEERS})
    parser.add_argument("--peers", default="all", help=f"all, none, or some of {','.join(names)}")
    return parser.parse_args()


def main() -> int:
    options = parse()
    sizes = measure.QUICK if options.quick else measure.Sizes(scale=options.scale)
    keep(
        options.record, "postgres", COMMAND, measured(options.peers, 1 if options.quick else options.rounds, sizes, say)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
