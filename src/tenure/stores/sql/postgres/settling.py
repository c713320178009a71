"""Successes without a transaction of many statements: jobs that run as this process saw them run, and nothing else.

Whatever is out of the ordinary (a key to give back, a job that waits, a refusal, another outcome) takes the model's
path, the whole batch with it. What this writes is what the hot path writes (`hot.py`), sent at once.
"""

from collections.abc import Callable, Sequence

from tenure.domain.calls import Settle, Settled
from tenure.domain.errors import Refused
from tenure.domain.event import encode_events
from tenure.domain.model import Unit
from tenure.domain.names import DAY, Ms
from tenure.stores.sql import hot
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.stores.sql.rows import Row


def finish(
    tables: PostgresTables, settlements: Sequence[Settle], time: Callable[[], Ms] | None
) -> tuple[list[Settled | Refused], Unit] | None:
    """The answers, and the unit that tells whom to wake; None if these must go another way, with nothing done.

    Raises if somebody else has moved one of the jobs, or waits for one.
    """
    _, now = tables.begin(writing=False)
    unit = Unit(tables, now if time is None else time())
    jobs = hot.plain(unit, settlements)
    if not jobs or any(job.spec.key is not None for job in jobs):
        return None
    replies = hot.succeed(unit, jobs, settlements)
    with tables.transaction():
        _send(tables, unit)
        tables.many("no_children", [job.ref for job in jobs])
    return replies, unit


def _send(tables: PostgresTables, unit: Unit) -> None:
    moves, column = tables.hot, tables.pipeline.column
    ended = sorted((seq, version - 1, live) for (version, live), seqs in moves.succeeded.items() for seq in seqs)
    seqs, versions, lives = zip(*ended, strict=True)
    bodies = [encode_events(made) for made in unit.events.values()]
    parts = {name for name, given in (("results", moves.results), ("grouped", moves.out_of_order)) if given}
    tables.pipeline.send_part(
        "finish_at_once",
        frozenset(parts),
        column("bigint", seqs),
        column("bigint", versions),
        column("bytea", lives),
        unit.now // DAY,
        column("text", list(unit.events)),
        column("bytea", bodies),
        unit.now,
        *_columns(tables, moves.results, ("bigint", "bigint", "bytea", "text")),
        *_columns(tables, moves.out_of_order, ("text", "text", "text", "bigint")),
    )


def _columns(tables: PostgresTables, given: list[Row], kinds: tuple[str, ...]) -> list[bytes]:
    columns = list(zip(*given, strict=True)) or [()] * len(kinds)
    return [tables.pipeline.column(kind, values) for kind, values in zip(kinds, columns, strict=True)]
