"""Deliberate bugs in `stores/sql/statements.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/statements.py"

MUTANTS = (
    Mutant(
        name="frontier-late-writers-old",
        what="Rows of a transaction that was under way at the snapshot, and has ended since, look old.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(Edit("_MOMENT_SQL", "WHERE pg_visible_in_snapshot(x, now)", "WHERE false"),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="frontier-newcomers-old",
        what="Rows of a transaction that began after the snapshot look old.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(Edit("_NEWS_SQL", "xid < (SELECT pg_snapshot_xmax(now) FROM moment)", "false"),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="frontier-own-writes-unseen",
        what="A claim from a frontier doesn't see what its own transaction has written.",
        breaks="§5b: the claim sees what the settles freed",
        edits=(Edit("_MOMENT_SQL", " UNION ALL SELECT pg_current_xact_id_if_assigned()", ""),),
        killers=("machine-postgres",),
    ),
)
