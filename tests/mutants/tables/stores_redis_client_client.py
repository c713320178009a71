"""Deliberate bugs in `stores/redis/client/client.py` and the commands beside it."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/redis/client/client.py"
COMMANDS = "stores/redis/client/commands.py"
WHY = "The machine knows stores; this is what one of them will stand on."

MUTANTS = (
    Mutant(
        name="redis-block-on-the-shared-connection",
        what="An XREAD that blocks holds up the calls of all others.",
        breaks="a command that blocks has a connection of its own",
        edits=(
            Edit(
                "_reason",
                'if name in ("XREAD", "XREADGROUP") and shared',
                'if name == "XREADGROUP" and shared',
                COMMANDS,
            ),
        ),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-broken-connection-used-again",
        what="Calls go on over a connection that broke, until the next one is there.",
        breaks="a call after a break waits for the next connection",
        edits=(Edit("Client._drop", "self._connection = None", "pass"),),
        killers=("faults-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-dropped-connections-without-pause",
        what="A server that takes connections and drops them is asked again at once, for ever.",
        breaks="attempts to connect have pauses",
        edits=(
            Edit(
                "Client._keep",
                "failures = 0 if loop.time() - began >= STABLE_SECONDS else failures + 1",
                "failures = 0 if loop.time() >= began else failures",
            ),
        ),
        killers=("faults-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-transaction-torn",
        what="MULTI is let through alone: commands of others come into the transaction.",
        breaks="nobody comes between the commands of a transaction",
        edits=(
            Edit(
                "_check",
                "or (_ALONE.get(name) if shared else None)",
                'or (_ALONE.get(name) if shared and name != "MULTI" else None)',
                COMMANDS,
            ),
        ),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-unprepared-connection",
        what="A connection that replaced another isn't prepared.",
        breaks="subscriptions outlive a break",
        edits=(
            Edit(
                "Client._connect",
                "await self._prepare(connection)",
                "await self._prepare(connection)\n            self._prepare = None",
            ),
        ),
        killers=("faults-redis",),
        why=WHY,
    ),
)
