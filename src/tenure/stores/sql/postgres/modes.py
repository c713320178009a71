"""Enqueues, and changes of a queue's mode: no job may be found in a queue of another mode than it was enqueued for.

A transaction that enqueues holds a shared lock on each lane that it enqueues to, and one on the queue of all tenants,
until it ends: a user's open transaction too. (The second also of a tenant with a mode of its own: that may go, and the
tenant's mode be everyone's, while the transaction is still open.) Whoever changes a mode tries to get the lock
for itself, and finds whether anybody holds it; nobody waits for an enqueue. It tries in the last moment before its
commit, with everything that follows already sent, so an enqueue meets it for no longer than the commit takes.

A statement sees what was committed when it began, and may get its lock later: after a change that it doesn't see.
Therefore a change leaves the number that it gives the configuration in a sequence, `moded`, which everybody sees at
once. A statement that finds a number there beyond the configuration that it knows does nothing.
"""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from tenure.domain.config import QUEUE, QueueConfig
from tenure.domain.model import Unit
from tenure.domain.model.documents import modes, parse
from tenure.domain.model.tables import Lane
from tenure.domain.names import EVERYONE

if TYPE_CHECKING:
    from tenure.stores.sql.postgres.pipeline import Pipeline
    from tenure.stores.sql.postgres.tables import PostgresTables

MANY_LANES = 32
"""A call for more holds one lock for each queue, whichever its tenants: the server has room for a limited number."""


def lane_keys(pipeline: "Pipeline", lane: Lane) -> tuple[int, int]:
    """What an enqueue to the lane holds."""
    return pipeline.number("mode", *lane), pipeline.number("mode", EVERYONE, lane[1])


def keys(tables: "PostgresTables", lanes: Collection[Lane]) -> list[int]:
    """What an enqueue to these lanes holds."""
    if len(lanes) > MANY_LANES:
        return sorted({tables.pipeline.number("modes", queue) for _, queue in lanes})
    return sorted({key for lane in lanes for key in tables.lane_keys(lane)})


def change_keys(pipeline: "Pipeline", lane: Lane) -> list[int]:
    """What nobody may hold while the mode changes of a lane, or of everyone's queue."""
    return [pipeline.number("mode", *lane), pipeline.number("modes", lane[1])]


def hold(tables: "PostgresTables", unit: Unit) -> None:
    """Holds what an enqueue must; whoever then finds the configuration changed begins again."""
    lanes = {(job.spec.tenant, job.spec.queue) for ref, job in unit.after.items() if unit.before[ref] is None}
    if lanes and not unit.meta.loading:
        tables.run("hold_modes", tables.pipeline.column("bigint", keys(tables, lanes)))
        tables.run("same_config", tables.config)


def changes(tables: "PostgresTables", unit: Unit) -> list[Lane]:
    """Where a mode changes."""
    changed: list[Lane] = []
    for (tenant, kind, queue), document in unit.documents.items():
        if kind == QUEUE and not unit.meta.loading:
            said = None if document is None or document.body is None else parse(QUEUE, document.body)
            config = said if isinstance(said, QueueConfig) else QueueConfig()
            before, after = modes(tables, tenant, (tenant, queue), config)
            if after.mode is not before:
                changed.append((tenant, queue))
    return changed


def change(tables: "PostgresTables", lanes: Iterable[Lane]) -> None:
    """The last that a change of modes sends before it commits. Fails if somebody enqueues, or just has."""
    for lane in lanes:
        tables.run("take_modes", tables.pipeline.column("bigint", change_keys(tables.pipeline, lane)))
        tables.run("still_live", lane[1], tables.pipeline.column("text", tables.lived.get(lane[1], [])))
        tables.run("moded", tables.config + 1)
