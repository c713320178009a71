"""Deliberate bugs in `stores/fibers.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/fibers.py"

MUTANTS = (
    Mutant(
        name="fiber-abandoned-call-stops",
        what="A call whose caller gave up stops where it is, with its transaction open.",
        breaks="§5b: a caller's cancellation leaves the batch alone",
        edits=(
            Edit(
                "_go_on",
                "try:\n        given = step()",
                "if answer.cancelled():\n        return\n    try:\n        given = step()",
            ),
        ),
        killers=("loops-postgres",),
        why="The machine waits for every answer.",
    ),
    Mutant(
        name="fiber-error-unsaid",
        what="A call that waited for something that failed goes on as if it had been done.",
        breaks="§5a: a call whose connection couldn't be opened says why",
        edits=(Edit("_resume", "return fiber.throw(error)", "return fiber.switch(error)"),),
        killers=("network-postgres",),
        why="The machine's connection never breaks.",
    ),
    Mutant(
        name="fiber-turn-ends-others",
        what="A large call that ends its turn twice ends that of the next one too.",
        breaks="§9: seq grows in the order of the calls",
        edits=(Edit("Turn.end", "if not self._ended:", "if self._line:"),),
        killers=("loops-postgres",),
        why="The order between two calls that overlap isn't said by the contract, so the machine accepts either.",
    ),
)
