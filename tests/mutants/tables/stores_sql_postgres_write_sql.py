"""Deliberate bugs in `stores/sql/postgres/statements/write.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/statements/write.sql"

MUTANTS = (
    Mutant(
        name="postgres-overtaken-cancel-goes-on",
        what="A cancel of a waiting job doesn't mind that a claim has taken it meanwhile.",
        breaks="§4: exactly one transition at a time; H1",
        edits=(
            Edit(
                "drop_waiting",
                ("1 / ((SELECT count(*) FROM due) + (SELECT count(*) FROM later) = (SELECT count(*) FROM gone))::int"),
                "(SELECT count(*) FROM due) + (SELECT count(*) FROM later) = (SELECT count(*) FROM gone)",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-renewal-ignores-version",
        what="A renewal writes back the record that it read, whatever happened to it since.",
        breaks="§17: a renewal writes back a stale record",
        edits=(Edit("save_running", "r.version = want.before", "want.before > 0"),),
        killers=("network-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
)
