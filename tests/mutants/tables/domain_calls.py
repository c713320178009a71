"""Deliberate bugs in `domain/calls.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/calls.py"

WHY = "Only a hundred releases of one job show it; the machine gives a job's limit by hand."

MUTANTS = (
    Mutant(
        name="release-unknown-types-soon-too-many",
        what="A job of a type that its worker doesn't know fails after five minutes of a deploy.",
        breaks="H2: unknown_type 120",
        edits=(Edit("RELEASES_AT_MOST", "UNKNOWN_TYPE: 120", "UNKNOWN_TYPE: 10"),),
        killers=("conformance-memory",),
        why=WHY,
    ),
    Mutant(
        name="release-unknown-arguments-as-others",
        what="A job with an argument that its worker doesn't know may be given back as often as for any reason.",
        breaks="H2: unknown_argument 120",
        edits=(Edit("RELEASES_AT_MOST", ", UNKNOWN_ARGUMENT: 120", ""),),
        killers=("conformance-memory",),
        why=WHY,
    ),
    Mutant(
        name="release-snoozes-as-long-as-deploys",
        what="A job may be snoozed 120 times.",
        breaks="H2: snooze 100",
        edits=(Edit("RELEASES_AT_MOST", '"snooze": 100', '"snooze": 120'),),
        killers=("conformance-memory",),
        why=WHY,
    ),
)
