"""Deliberate bugs in `stores/sql/sqlite/statements/write.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/sqlite/statements/write.sql"

MUTANTS = (
    Mutant(
        name="s17-11-limit-change-unseen",
        what="Another process goes on with the limits and pauses it read first.",
        breaks=("§17 missed wake-ups on the paths it does not list; readiness after a change of limit or a resume"),
        edits=(
            Edit(
                "put_meta",
                "feed_floor = ?, cascade_head = ?, config = config + ?",
                "feed_floor = ?, cascade_head = ?, config = config + 0 * ?",
            ),
        ),
        killers=("machine-sqlite",),
    ),
)
