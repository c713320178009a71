"""Enqueue: the guards in their order (§9), then the write."""

from collections.abc import Sequence

from msgspec.structs import replace

from tenure.domain.calls import Enqueued
from tenure.domain.errors import (
    BatchRefused,
    FlowTooLarge,
    GroupNeedsKeyed,
    GroupRequired,
    IdConflict,
    IdempotencyMismatch,
    ParentCycle,
    ParentNotFound,
    QueueFull,
    Refused,
    StoreFrozen,
)
from tenure.domain.job import Edge, Job, NewJob, Ref, Spec, as_enqueued
from tenure.domain.model import moves
from tenure.domain.model.plain import fits_mode
from tenure.domain.model.unit import Unit
from tenure.domain.names import MAX_CHILDREN, Ms
from tenure.domain.states import Command, OnParentFailure, State
from tenure.domain.transitions import apply


def enqueue(unit: Unit, jobs: Sequence[NewJob], atomic: bool = False) -> list[Enqueued | Refused]:
    """Puts jobs in, in order, each seeing those before it."""
    if unit.meta.frozen:
        return [StoreFrozen() for _ in jobs]
    untouched = unit.snapshot() if atomic else None
    # Keys before ids: where others write meanwhile, whoever holds a key is then known by its id too.
    unit.fetch_bindings([(job.tenant, job.queue, job.job_type, job.key) for job in jobs if job.key is not None])
    unit.fetch_jobs([(job.tenant, job.id) for job in jobs])
    batch = {(job.tenant, job.id): job for job in reversed(jobs) if job.parents} if jobs else {}
    replies = [_enqueue_one(unit, job, batch) for job in jobs]
    if untouched is not None and not all(_created(reply) for reply in replies):
        unit.restore(untouched)
        return [BatchRefused() if _created(reply) else reply for reply in replies]
    return replies


def enqueue_carried(unit: Unit, jobs: Sequence[NewJob]) -> Refused | None:
    """Enqueues the jobs that a success carries: depth isn't checked and a key clash is a duplicate.

    Answers the first refusal; the caller then undoes the whole item.
    """
    batch = {(job.tenant, job.id): job for job in jobs}
    for job in jobs:
        reply = _enqueue_one(unit, job, batch, carried=True)
        if isinstance(reply, Refused):
            return reply
    return None


def _created(reply: Enqueued | Refused) -> bool:
    return isinstance(reply, Enqueued) and reply.created


def _enqueue_one(unit: Unit, new: NewJob, batch: dict[Ref, NewJob], carried: bool = False) -> Enqueued | Refused:
    answered = _known(unit, new) or _duplicate(unit, new, carried)
    if answered is not None:
        return answered
    refused = (
        group_refusal(unit, new.tenant, new.queue, new.group)
        or _parents_refusal(unit, new, batch)
        or (None if carried else depth_refusal(unit, new.tenant, new.queue))
    )
    if refused is not None:
        return refused
    write(unit, pending(new, unit.next_seq(), unit.now), new.payload)
    return Enqueued(new.id)


def _known(unit: Unit, new: NewJob) -> Enqueued | Refused | None:
    job = unit.job((new.tenant, new.id))
    if job is None:
        return None
    return Enqueued(new.id) if job.spec.fingerprint == new.fingerprint else IdConflict()


def _duplicate(unit: Unit, new: NewJob, carried: bool) -> Enqueued | Refused | None:
    if new.key is None:
        return None
    binding = unit.binding((new.tenant, new.queue, new.job_type, new.key))
    if binding is None:
        return None
    if binding.fingerprint != new.fingerprint and not carried:
        return IdempotencyMismatch(binding.job_id)
    ref = (new.tenant, binding.job_id)
    holder = unit.job(ref)
    state = None if holder is None else holder.state
    return Enqueued(binding.job_id, False, state, unit.result(ref))


def group_refusal(unit: Unit, tenant: str, queue: str, group: str | None) -> Refused | None:
    """A group is never silently ignored, nor missing where it is needed."""
    rules = unit.tables.rules(tenant, queue)
    if fits_mode(rules, group):
        return None
    return GroupNeedsKeyed(queue) if group is not None else GroupRequired(queue)


def depth_refusal(unit: Unit, tenant: str, queue: str) -> Refused | None:
    """Backpressure: pending and blocked jobs of one tenant's queue."""
    most = unit.tables.rules(tenant, queue).max_depth
    return QueueFull(most) if most is not None and unit.depth((tenant, queue)) >= most else None


def _parents_refusal(unit: Unit, new: NewJob, batch: dict[Ref, NewJob]) -> Refused | None:
    for parent in new.parents:
        ref = (new.tenant, parent.id)
        if unit.job(ref) is None:
            cyclic = _reaches(batch, ref, (new.tenant, new.id))
            return ParentCycle(parent.id) if cyclic else ParentNotFound(parent.id)
        if len(unit.edges_from(ref)) >= MAX_CHILDREN:
            return FlowTooLarge(parent.id)
    return None


def _reaches(batch: dict[Ref, NewJob], start: Ref, goal: Ref) -> bool:
    """Whether `start`, through parents named inside the batch, waits for `goal`."""
    seen: set[Ref] = set()
    open_refs = [start]
    while open_refs:
        ref = open_refs.pop()
        if ref == goal:
            return True
        if ref not in seen and ref in batch:
            seen.add(ref)
            open_refs.extend((ref[0], parent.id) for parent in batch[ref].parents)
    return False


def pending(new: NewJob, seq: int, now: Ms) -> Job:
    """The record of a new job that waits for its time only."""
    run_at = max(new.run_at or 0, now + (new.delay or 0))
    return as_enqueued(_spec(new, seq, now), State.PENDING, new.priority, run_at)


def _spec(new: NewJob, seq: int, now: Ms) -> Spec:
    return Spec(
        tenant=new.tenant,
        id=new.id,
        seq=seq,
        queue=new.queue,
        job_type=new.job_type,
        codec=new.codec,
        fingerprint=new.fingerprint,
        payload_size=len(new.payload),
        enqueued_at=now,
        max_attempts=new.max_attempts,
        retry=new.retry,
        timeout=new.timeout,
        result_ttl=new.result_ttl,
        key=new.key,
        unique=new.unique,
        unique_for=new.unique_for,
        group=new.group,
        labels=new.labels,
        lease=new.lease,
        grace=new.grace,
        expires_at=None if new.expires is None else now + new.expires,
        parents=new.parents,
    )


def write(unit: Unit, job: Job, payload: bytes) -> None:
    """Stores an accepted job with its key and edges; a parent that already ended counts at once."""
    spec = job.spec
    if not spec.parents:
        _put(unit, job, payload)
        return
    edges = [Edge(spec.tenant, one.id, spec.id, spec.seq, one.on_failure) for one in spec.parents]
    ended = _ended(unit, edges)
    blocked = len(ended) < len(edges) or any(_ends_child(edge, state) for edge, state in ended)
    job = replace(job, state=State.BLOCKED if blocked else State.PENDING)
    _put(unit, job, payload)
    _tie(unit, job, edges, ended)


def _put(unit: Unit, job: Job, payload: bytes) -> None:
    unit.add(apply(Command.ENQUEUE, job, None, unit.now), payload)
    if job.spec.key is not None:
        moves.bind(unit, job)


def _ended(unit: Unit, edges: list[Edge]) -> list[tuple[Edge, State]]:
    parents = [unit.job((edge.tenant, edge.parent)) for edge in edges]
    return [(edge, job.state) for edge, job in zip(edges, parents, strict=True) if job and job.state.terminal]


def _tie(unit: Unit, job: Job, edges: list[Edge], ended: list[tuple[Edge, State]]) -> None:
    for edge in edges:
        _drop_stale_result(unit, (edge.tenant, edge.parent))
    for edge in edges:
        unit.put_edge(edge)
    _count_ended(unit, job, ended)


def _ends_child(edge: Edge, parent_state: State) -> bool:
    return parent_state is not State.SUCCEEDED and edge.on_failure is not OnParentFailure.IGNORE


def _drop_stale_result(unit: Unit, parent: Ref) -> None:
    """A result past its time stays gone: a new child must not bring it back."""
    if unit.has_result(parent) and unit.result(parent) is None:
        unit.results[parent] = None


def _count_ended(unit: Unit, job: Job, ended: list[tuple[Edge, State]]) -> None:
    """Parents that ended before: a pending job only notes them, a blocked one may end by the first that failed."""
    for edge, state in ended:
        if job.state is State.PENDING or not _ends_child(edge, state):
            unit.put_edge(replace(edge, resolved=True))
    for edge, state in ended:
        if _ends_child(edge, state):
            moves.move(unit, Command.PARENT_FAILED, job, edge.on_failure)
            return
