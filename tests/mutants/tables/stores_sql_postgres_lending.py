"""Deliberate bugs in `stores/sql/postgres/lending.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/lending.py"

MUTANTS = (
    Mutant(
        name="postgres-broken-connection-lent-again",
        what="A connection that broke goes back to the others.",
        breaks="§5a: the call is sent again within its deadline",
        edits=(
            Edit(
                "OwnConnections.lent",
                (
                    "tables = Connected(OwnRunner(self._server.connect()), self._place, guest=self._server.pooled)\n"
                    "    elif not still_there(tables.connection):\n"
                    "        raise Severed(committing=False)"
                ),
                "tables = Connected(OwnRunner(self._server.connect()), self._place, guest=self._server.pooled)",
            ),
            Edit(
                "OwnConnections.lent",
                (
                    "if not tables.connection.closed:\n"
                    "            with self._lock:\n"
                    "                self.idle.append(tables)"
                ),
                ("with self._lock:\n            self.idle.append(tables)"),
            ),
            Edit("OwnConnections.hang_up", "idle, self.idle = self.idle, []", "idle, self.idle = [], self.idle"),
        ),
        killers=("network-postgres",),
        why="The machine's connection never breaks.",
    ),
)
