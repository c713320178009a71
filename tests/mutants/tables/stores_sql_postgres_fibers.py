"""Deliberate bugs in `stores/sql/postgres/fibers.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/fibers.py"

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
        name="fiber-broken-connection-lent-again",
        what="A connection of an event loop that broke goes back to the others.",
        breaks="§5a: the call is sent again within its deadline",
        edits=(
            Edit(
                "LoopConnections.lent",
                (
                    "if not still_there(tables.connection):\n"
                    "            raise Severed(committing=False)\n"
                    "        yield tables"
                ),
                "yield tables",
            ),
            Edit("LoopConnections.give_back", "if tables.connection.closed:", "if self._left:"),
            Edit("LoopConnections.hang_up", "idle, self._idle = self._idle, []", "idle, self._idle = [], self._idle"),
        ),
        killers=("network-postgres",),
        why="The machine's connection never breaks.",
    ),
    Mutant(
        name="fiber-error-unsaid",
        what="A call that waited for something that failed goes on as if it had been done.",
        breaks="§5a: a call whose connection couldn't be opened says why",
        edits=(Edit("_told", "return fiber.throw(error)", "return fiber.switch(error)"),),
        killers=("network-postgres",),
        why="The machine's connection never breaks.",
    ),
    Mutant(
        name="fiber-left-connection-stays-open",
        what="A connection that is given back after the store was closed stays open.",
        breaks="a closed store holds nothing of the server's",
        edits=(
            Edit(
                "LoopConnections.give_back",
                "if self._left:\n            tables.connection.close()\n        if tables",
                "if tables",
            ),
        ),
        killers=("loops-postgres",),
        why="The machine waits for every answer before it closes a store.",
    ),
    Mutant(
        name="fiber-room-not-passed-on",
        what="A call that waits for a connection isn't told that one is free.",
        breaks="§5a: every call is answered",
        edits=(
            Edit(
                "LoopConnections.give_back",
                "self._room += 1\n    if self._waiting:\n        self._waiting.popleft().set_result(None)",
                "self._room += 1",
            ),
        ),
        killers=("loops-postgres",),
        why="The machine has fewer calls on their way at once than there are connections.",
    ),
    Mutant(
        name="fiber-turn-ends-others",
        what="A large call that ends its turn twice ends that of the next one too.",
        breaks="§9: seq grows in the order of the calls",
        edits=(Edit("Turn.end", "if not self._ended:", "if self._line:"),),
        killers=("loops-postgres",),
        why="The order between two calls that overlap isn't said by the contract, so the machine accepts either.",
    ),
    Mutant(
        name="fiber-turn-not-waited-for",
        what="A large call doesn't wait for those before it to have their numbers.",
        breaks="§9: seq grows in the order of the calls",
        edits=(Edit("LoopConnections.turn", "if self._turns[0] is not turn:", "if not self._turns:"),),
        killers=("loops-postgres",),
        why="The order between two calls that overlap isn't said by the contract, so the machine accepts either.",
    ),
)
