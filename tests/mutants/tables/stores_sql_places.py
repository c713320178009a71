"""Deliberate bugs in `stores/sql/places.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/places.py"

MUTANTS = (
    Mutant(
        name="s17-11-cancel-not-indexed",
        what="A cancelled pending job stays in line.",
        breaks="§17 missed wake-ups on the paths it does not list; readiness after cancel",
        edits=(
            Edit(
                "moved",
                "here, there = places(before, border), places(after, border)",
                (
                    "here, there = places(before, border), places(after, border)\n"
                    "    if before.state is State.PENDING and after.state is State.CANCELLED:\n"
                    "        return [], there"
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="s17-11-reprioritise-not-indexed",
        what="A job keeps the place of its old priority.",
        breaks="§17 missed wake-ups on the paths it does not list; readiness after reprioritise",
        edits=(
            Edit(
                "moved",
                "here, there = places(before, border), places(after, border)",
                (
                    "here, there = places(before, border), places(after, border)\n"
                    "    if before.state is after.state is State.PENDING and before.priority != after.priority:\n"
                    "        return [], []"
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="s17-11-reschedule-not-indexed",
        what="A rescheduled job keeps its old place in line.",
        breaks="§17 missed wake-ups on the paths it does not list; readiness after reschedule",
        edits=(
            Edit(
                "moved",
                "here, there = places(before, border), places(after, border)",
                (
                    "here, there = places(before, border), places(after, border)\n"
                    "    if before.state is after.state is State.PENDING and before.run_at != after.run_at:\n"
                    "        return [], []"
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-expiry-stays-after-claim",
        what="A claimed job stays in the list of those that expire.",
        breaks="§4 expire, fsck",
        edits=(
            Edit(
                "moved",
                (
                    "return [place for place in here if place not in there], [place for place in there if place not "
                    "in here]"
                ),
                (
                    'left = [place for place in here if place not in there and place[0] != "expiring"]\n'
                    "    return left, [place for place in there if place not in here]"
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
)
