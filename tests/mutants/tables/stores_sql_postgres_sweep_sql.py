"""Deliberate bugs in `stores/sql/postgres/statements/sweep.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/statements/sweep.sql"

MUTANTS = (
    Mutant(
        name="postgres-sequencers-meet",
        what="Two who give chunks their places at once take the same places, and what came second is lost.",
        breaks="§12: each event is seen exactly once by following the feed",
        edits=(
            Edit("sequence", "FROM moved CROSS JOIN last", "FROM moved CROSS JOIN last ON CONFLICT DO NOTHING"),
            Edit(
                "PostgresTables.sequence",
                ('"""Gives the chunks that are visible their places in the feed."""\n    self.lock("feed")'),
                '"""Gives the chunks that are visible their places in the feed."""',
                "stores/sql/postgres/tables.py",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
)
