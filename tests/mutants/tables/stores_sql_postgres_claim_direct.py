"""Deliberate bugs in `stores/sql/postgres/claim_direct.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/claim_direct.py"

MUTANTS = (
    Mutant(
        name="postgres-few-types-share-a-lease",
        what="Jobs of several types that one statement took seem to be of one kind when they succeed.",
        breaks="§12: an event says its own job type",
        edits=(Edit("_Taken.job", "self._likes.get(spec.job_type)", "next(iter(self._likes.values()), None)"),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="postgres-few-walk-uncounted",
        what="A claim by one statement walks dead rows for ever, and keeps no frontier.",
        breaks="a held transaction: claims do not walk dead rows",
        edits=(
            Edit(
                "claim_few",
                (
                    "at, epoch, upcoming, count, *_, before, after = found[0]\n"
                    "    place.frontiers.looked(after - before)"
                ),
                "at, epoch, upcoming, count, *_, before, after = found[0]",
            ),
        ),
        killers=("few-postgres",),
        why="What a claim takes is the same, only later.",
    ),
)
