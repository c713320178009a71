"""Puts known bugs into copies of the code, one at a time, and shows that the suite finds each.

`python -m tests.mutants [--jobs 2] [--only NAME ...] [--record bench/results/mutants.json [--again]] [--check]`

The unchanged tree must pass with the same budgets, and mutants that change no behaviour must survive. Exit code 1 if a
mutant survives, a neutral one or the control doesn't, or the code isn't what a mutant expects. `--again` runs what the
record lacks or what wasn't as it must be, on the same code, and keeps the rest.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import msgspec

from bench import record
from tenure.testing.postgres import served
from tests.mutants.mutant import KILLERS, Mutant, mutants
from tests.mutants.run import CONTROL, Outcome, run, sources, trials, unfit
from tests.mutants.source import BadMutant


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="how many run at a time")
    parser.add_argument("--only", action="append", metavar="NAME", help="these mutants (or *), without the control")
    parser.add_argument("--record", type=Path, help="write the table there, as JSON")
    parser.add_argument("--again", action="store_true", help="only what the record lacks, which is completed")
    parser.add_argument("--check", action="store_true", help="only see whether all of them fit the code")
    parser.add_argument("--verbose", action="store_true", help="print what each killer said")
    options = parser.parse_args()
    if options.again and options.record is None:
        parser.error("--again needs --record: the file to complete")
    return options


def chosen(only: Sequence[str] | None) -> list[Mutant]:
    found = [mutant for mutant in mutants() if only is None or any(fnmatch(mutant.name, name) for name in only)]
    if not found:
        raise BadMutant(f"no mutant is named {only}")
    return found


def check(found: list[Mutant]) -> int:
    problems = unfit(found, sources())
    for problem in problems.values():
        print(problem)
    print(f"{len(found) - len(problems)} of {len(found)} mutants fit the code")
    return 1 if problems else 0


class Recorded(msgspec.Struct, frozen=True):
    """Those of a record that were as they must be, the names of what it lacks, and how long it all took."""

    kept: list[Outcome]
    missing: list[str]
    seconds: float

    @classmethod
    def of(cls, path: Path) -> "Recorded":
        found = record.read(path.stem, path.parent)
        if found is None or found["code"] != record.digest(record.code_of(path.stem)):
            raise BadMutant(f"{path} isn't a record of this code: run all")
        names = {CONTROL, *(mutant.name for mutant in mutants())}
        table = [msgspec.convert(one, Outcome) for one in found["table"]]
        wrong = {one.name for one in table if one.fault}
        good = [one for one in table if one.name in names - wrong]
        return cls(good, sorted(names - {one.name for one in good}), found["seconds"])


def row(outcome: Outcome) -> str:
    said = outcome.fault or outcome.found or "survived"
    if outcome.fault and outcome.found:
        said += f": {outcome.found}"
    return f"  {outcome.name:<40} {outcome.killer:<19} {said:<34} {outcome.seconds:>6.1f}"


def figures(outcomes: list[Outcome], seconds: float) -> record.Figures:
    tried = [one for one in outcomes if not one.neutral]
    killers = Counter(one.killer for one in tried if not one.fault)
    neutral = [one for one in outcomes if one.neutral and one.name != CONTROL]
    return {
        "seconds": round(seconds, 1),
        "mutants": len(tried),
        "killed": killers.total(),
        "killed_by": {killer: killers[killer] for killer in KILLERS},
        "neutral": len({one.name for one in neutral}),
        "neutral_survived": len({one.name for one in neutral} - {one.name for one in neutral if one.fault}),
        "control": {one.killer: one.fault or "passed" for one in outcomes if one.name == CONTROL},
        "faults": [one.name for one in outcomes if one.fault],
        "table": [msgspec.to_builtins(one) for one in outcomes],
    }


def summary(found: record.Figures) -> str:
    control = ", ".join(f"{killer} {what}" for killer, what in found["control"].items()) or "not run"
    return (
        f"{found['killed']} of {found['mutants']} mutants killed, {found['neutral_survived']} of {found['neutral']} "
        f"neutral ones survived, control: {control}; {found['seconds']:.0f} s\n"
        f"killed by: {', '.join(f'{killer} {count}' for killer, count in found['killed_by'].items() if count)}"
    )


def main() -> int:
    options = parse()
    before = Recorded([], [], 0.0)
    try:
        if options.again:
            before = Recorded.of(options.record)
            options.only = [name for name in before.missing if name != CONTROL]
        found = [] if options.again and not options.only else chosen(options.only)
    except BadMutant as error:
        print(error)
        return 1
    if options.check:
        return check(found)
    started = time.monotonic()
    print(f"  {'mutant':<40} {'killer':<19} {'first violated':<34} {'s':>6}", flush=True)
    outcomes, control = [], CONTROL in before.missing or not (options.again or options.only)
    with served(), tempfile.TemporaryDirectory(prefix="tenure-mutants-") as folder:
        for outcome in run(trials(found, control=control), Path(folder), options.jobs):
            outcomes.append(outcome)
            print(row(outcome), flush=True)
            if outcome.detail and (options.verbose or outcome.fault):
                print(f"      {outcome.detail}", flush=True)
    told = figures([*before.kept, *outcomes], before.seconds + time.monotonic() - started)
    print(f"\n{summary(told)}")
    if told["faults"]:
        print(f"not as they must be: {', '.join(told['faults'])}")
    if options.record is not None and (options.again or options.only is None):
        record.write(options.record, f"python -m tests.mutants --record {options.record}", told)
    return 1 if told["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
