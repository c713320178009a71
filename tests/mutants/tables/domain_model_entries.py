"""Deliberate bugs in `domain/model/entries.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/entries.py"

MUTANTS = (
    Mutant(
        name="s17-11-cancel-not-indexed",
        what="A cancelled pending job stays in line.",
        breaks="§17 missed wake-ups on the paths it does not list; readiness after cancel",
        edits=(
            Edit(
                "moved",
                "return difference(waiting(before, border), waiting(after, border))",
                (
                    "if before.state is State.PENDING and after.state is State.CANCELLED:\n"
                    "        return [], waiting(after, border)\n"
                    "    return difference(waiting(before, border), waiting(after, border))"
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
                "return difference(waiting(before, border), waiting(after, border))",
                (
                    "if before.state is after.state is State.PENDING and before.priority != after.priority:\n"
                    "        return [], []\n"
                    "    return difference(waiting(before, border), waiting(after, border))"
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
                "return difference(waiting(before, border), waiting(after, border))",
                (
                    "if before.state is after.state is State.PENDING and before.run_at != after.run_at:\n"
                    "        return [], []\n"
                    "    return difference(waiting(before, border), waiting(after, border))"
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
                "return difference(waiting(before, border), waiting(after, border))",
                (
                    "left, taken = difference(waiting(before, border), waiting(after, border))\n"
                    '    return [place for place in left if place[0] != "expiring"], taken'
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
)
