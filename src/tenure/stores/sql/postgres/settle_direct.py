"""Successes without a transaction of many statements: jobs that run as this process saw them run, and nothing else.

Whatever is out of the ordinary (a key to give back, a job that waits, a refusal, another outcome) takes the model's
path, the whole batch with it. What this writes is what the hot path writes (`hot.py`), sent at once.
"""

from collections.abc import Callable, Sequence

from tenure.domain.calls import Settle, Settled
from tenure.domain.errors import Refused
from tenure.domain.model import Unit
from tenure.domain.names import Ms
from tenure.stores.sql import hot
from tenure.stores.sql.postgres.keeping import finish_at_once
from tenure.stores.sql.postgres.tables import PostgresTables
from tenure.stores.ways import Way


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
    tables.ways.took(Way.SETTLE_FINISHED)
    replies = hot.succeed(unit, jobs, settlements)
    with tables.transaction():
        if not finish_at_once(tables, unit):
            raise AssertionError("a success had consequences beyond its own job")
    return replies, unit
