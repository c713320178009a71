"""Deliberate bugs in `stores/sql/postgres/keyed.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/keyed.py"

MUTANTS = (
    Mutant(
        name="postgres-groups-counted-too-early",
        what=(
            "Holders of a group are those of before it was this claim's, not those that whoever was at it left there."
        ),
        breaks="§11: |holders| ≤ group_limit after every operation",
        edits=(
            Edit(
                "Keyed._read",
                "self._holders[lane, name] = held if mine is None else counts[name] if mine else FULL",
                "self._holders[lane, name] = held if mine is None else held if mine else FULL",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-groups-tried-for-by-nobody",
        what=("Claims count the holders of groups that they read together without keeping others from doing the same."),
        breaks="§11: |holders| ≤ group_limit after every operation",
        edits=(
            Edit(
                "Keyed._trying",
                ('number = self._tables.pipeline.number("group", *lane, name) if rated or limit is not None else None'),
                "number = None",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
)
