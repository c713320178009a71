"""Prints each promise with its command and its figure: `make promises`.

`python -m bench.promises [contract app spark postgres upgrade] [--recorded | --check]`
"""

import argparse
import sys
from itertools import chain

from bench.promises import app, contract, postgres, spark, upgrade
from bench.promises.line import check, show

PARTS = {
    "contract": contract.promises,
    "app": app.promises,
    "spark": spark.promises,
    "postgres": postgres.promises,
    "upgrade": upgrade.promises,
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.promises", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=f"of {', '.join(PARTS)} (all)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--recorded", action="store_true", help="only read the records of long runs: run nothing")
    how.add_argument("--check", action="store_true", help="say only which records break a promise, lack or are old")
    return parser.parse_args()


def main() -> int:
    options = parse()
    chosen = chain.from_iterable(PARTS[part]() for part in options.parts or PARTS)
    if options.check:
        return check(chosen)
    return show(chosen, run_now=not options.recorded)


if __name__ == "__main__":
    sys.exit(main())
