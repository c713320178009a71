"""Deliberate bugs in `domain/model/transfer.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/transfer.py"

MUTANTS = (
    Mutant(
        name="thaw-keeps-epoch",
        what="A thaw does not add to the epoch.",
        breaks="H3: the fence only grows",
        edits=(
            Edit(
                "thaw",
                "unit.meta = replace(unit.meta, frozen=False, loading=False, epoch=unit.meta.epoch + 1)",
                "unit.meta = replace(unit.meta, frozen=False, loading=False, epoch=unit.meta.epoch)",
            ),
        ),
        killers=("machine-memory",),
    ),
)
