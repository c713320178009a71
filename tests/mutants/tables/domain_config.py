"""Deliberate bugs in `domain/config.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/config.py"

MUTANTS = (
    Mutant(
        name="claim-everyones-pause-ignored",
        what="A pause for everyone is ignored where a tenant has configuration of its own.",
        breaks="H10: paused at any of the levels",
        edits=(Edit("merge", '"paused": bool(near.paused or far.paused),', '"paused": bool(near.paused),'),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-own-group-limit-ignored",
        what="The limit of a single group is ignored.",
        breaks="H6: group_limits over group_limit",
        edits=(
            Edit(
                "QueueRules.limit_of",
                "return 1 if self.ordered else self.group_limits.get(group, self.group_limit)",
                "return 1 if self.ordered else self.group_limit",
            ),
        ),
        killers=("machine-memory",),
    ),
)
