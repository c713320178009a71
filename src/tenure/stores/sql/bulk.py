"""A unit's bulk moves as rows: what their jobs share is encoded once."""

from collections import defaultdict

from tenure.domain.job import Job, Ref
from tenure.domain.model import Unit
from tenure.domain.model.bulk import BulkLease
from tenure.domain.states import State
from tenure.stores import records
from tenure.stores.sql import rows
from tenure.stores.sql.rows import Row

Ends = dict[tuple[int, bytes], list[int]]
"""(version, live) → the arrival numbers of the jobs that succeeded so."""
SUCCEEDED = rows.STATE_NAMES[State.SUCCEEDED]


def remember(unit: Unit, running: dict[Ref, Job]) -> None:
    """Notes which jobs run from now on, and which no longer do."""
    for leased in unit.leased:
        running.update([((job.spec.tenant, job.spec.id), job) for job in leased.jobs])
    for succeeded in unit.succeeded:
        for job in succeeded.jobs:
            running.pop((job.spec.tenant, job.spec.id), None)


def running_rows(leased: BulkLease) -> list[Row]:
    """What `put_running` takes of each."""
    shared = rows.running_row(leased.jobs[0])[1:]
    return [(job.spec.seq, *shared) for job in leased.jobs]


def ready_key(job: Job) -> Row:
    """Where a job stood in `ready` that has just been claimed."""
    spec = job.spec
    return (spec.queue, spec.tenant, spec.group or "", -job.priority, job.run_at, spec.seq)


def ends(unit: Unit) -> Ends:
    """The jobs that succeeded, those together that end alike."""
    found: Ends = defaultdict(list)
    for one in unit.succeeded:
        found[one.ended.version, records.live_blob(one.ended)] += [job.spec.seq for job in one.jobs]
    return found


def result_rows(unit: Unit) -> list[Row]:
    """What `put_result` takes of each that has one."""
    given = [found for one in unit.succeeded for found in one.results]
    return [(result.expires_at, seq, result.body, result.codec) for seq, result in given]


def out_of_order(unit: Unit) -> list[Row]:
    """What `drop_in_order` takes of those that had a group."""
    grouped = [job.spec for one in unit.succeeded if one.ended.spec.group is not None for job in one.jobs]
    return [(spec.queue, spec.tenant, spec.group, spec.seq) for spec in grouped]
