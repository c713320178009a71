"""Deliberate bugs in `stores/sql/postgres/ring.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/ring.py"

MUTANTS = (
    Mutant(
        name="frontier-of-another-server",
        what="A claim goes on from the frontier of another server, or of this one before it was started again.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(
            Edit(
                "FrontierRing._learn",
                "if server != frontier.server:\n        self._tables.forsake()\n        raise Overtaken",
                "assert server",
            ),
        ),
        killers=("frontier-postgres",),
        why="The machine's server is one and the same.",
    ),
)
