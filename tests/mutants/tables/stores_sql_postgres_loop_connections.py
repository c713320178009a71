"""Deliberate bugs in `stores/sql/postgres/loop_connections.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/loop_connections.py"

MUTANTS = (
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
        name="fiber-turn-not-waited-for",
        what="A large call doesn't wait for those before it to have their numbers.",
        breaks="§9: seq grows in the order of the calls",
        edits=(Edit("LoopConnections.turn", "if self._turns[0] is not turn:", "if not self._turns:"),),
        killers=("loops-postgres",),
        why="The order between two calls that overlap isn't said by the contract, so the machine accepts either.",
    ),
)
