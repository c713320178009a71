"""What tenants and admins ask of one job: cancel, reschedule, reprioritise, replay, discard."""

from collections.abc import Sequence

from msgspec.structs import replace

from tenure.domain.calls import (
    AnyCommand,
    Cancel,
    Cancelled,
    CancelRequested,
    CommandReply,
    Discard,
    Discarded,
    Replay,
    Replayed,
    Reprioritise,
    Reprioritised,
    RequestCancel,
    Reschedule,
    Rescheduled,
)
from tenure.domain.errors import (
    AlreadyReplayed,
    IdConflict,
    JobFinished,
    JobNotFound,
    KeyHeld,
    NotDeadLettered,
    NotPending,
    Refused,
    StoreFrozen,
)
from tenure.domain.job import DeadLetter, Job, Slot, Spec, as_enqueued, fingerprint
from tenure.domain.model import moves
from tenure.domain.model.enqueue import depth_refusal, group_refusal, write
from tenure.domain.model.unit import Unit
from tenure.domain.states import Command, Disposition, State, Unique


def command(unit: Unit, commands: Sequence[AnyCommand]) -> list[CommandReply | Refused]:
    """Carries out commands in order, each on its own."""
    if unit.meta.frozen:
        return [StoreFrozen() for _ in commands]
    unit.prefetch([(one.tenant, one.id) for one in commands])
    return [_one(unit, one) for one in commands]


def _one(unit: Unit, asked: AnyCommand) -> CommandReply | Refused:
    job = unit.job((asked.tenant, asked.id))
    if job is None:
        return JobNotFound()
    match asked:
        case Cancel():
            return _cancel(unit, job)
        case RequestCancel():
            return _request_cancel(unit, job)
        case Reschedule():
            return _reschedule(unit, job, asked)
        case Reprioritise():
            return _reprioritise(unit, job, asked.priority)
        case Replay():
            return _replay(unit, job, asked)
        case Discard():
            return _discard(unit, job)


def _cancel(unit: Unit, job: Job) -> CommandReply | Refused:
    if job.state.terminal:
        return JobFinished(job.state)
    if job.lease is not None:
        spec = job.spec
        slot = Slot(spec.tenant, spec.id, job.lease_seq, spec.queue, spec.group, job.lease.deadline)
        unit.slots[job.ref] = slot
    moves.move(unit, Command.CANCEL, job)
    return Cancelled(job.state is State.RUNNING)


def _request_cancel(unit: Unit, job: Job) -> CommandReply | Refused:
    if job.state is not State.RUNNING:
        return _cancel(unit, job)
    if not job.cancel_requested:
        moves.move(unit, Command.REQUEST_CANCEL, job)
    return CancelRequested()


def _not_pending(job: Job) -> Refused | None:
    if job.state.terminal:
        return JobFinished(job.state)
    return None if job.state is State.PENDING else NotPending(job.state)


def _reschedule(unit: Unit, job: Job, asked: Reschedule) -> CommandReply | Refused:
    refused = _not_pending(job)
    if refused is not None:
        return refused
    run_at = max(asked.run_at or 0, unit.now + (asked.delay or 0))
    if run_at != job.run_at:
        moves.move(unit, Command.RESCHEDULE, job, run_at)
    return Rescheduled(run_at)


def _reprioritise(unit: Unit, job: Job, priority: int) -> CommandReply | Refused:
    refused = _not_pending(job)
    if refused is not None:
        return refused
    if priority != job.priority:
        moves.move(unit, Command.REPRIORITISE, job, priority)
    return Reprioritised(priority)


# Dead letters


def _replay(unit: Unit, job: Job, asked: Replay) -> CommandReply | Refused:
    letter = unit.letter(job.ref)
    if job.state is not State.FAILED or letter is None:
        return NotDeadLettered(job.state)
    existing = unit.job((asked.tenant, asked.new_id))
    if letter.new_id == asked.new_id or (existing is not None and existing.spec.replay_of == job.spec.id):
        return Replayed(asked.new_id)  # this very call, sent again
    if letter.disposition is Disposition.REPLAYED and letter.new_id is not None and not asked.again:
        return Replayed(letter.new_id, created=False)
    if existing is not None:
        return IdConflict()
    return _replay_as_new(unit, job, asked)


def _replay_as_new(unit: Unit, job: Job, asked: Replay) -> CommandReply | Refused:
    spec = job.spec
    refused = (
        _key_refusal(unit, job)
        or group_refusal(unit, spec.tenant, spec.queue, spec.group)
        or depth_refusal(unit, spec.tenant, spec.queue)
    )
    if refused is not None:
        return refused
    payload = unit.payload(job.ref) if asked.payload is None else asked.payload
    moves.move(unit, Command.REPLAY, job, asked.new_id)
    unit.letters[job.ref] = DeadLetter(*job.ref, unit.now, Disposition.REPLAYED, asked.new_id)
    again = as_enqueued(_copied(unit, spec, asked, payload), State.PENDING, job.priority, unit.now)
    write(unit, again, payload)
    return Replayed(asked.new_id)


def _key_refusal(unit: Unit, job: Job) -> Refused | None:
    """The key must be free, or still held by the failed job itself, which then hands it over."""
    key = job.spec.binding_key
    binding = None if key is None else unit.binding(key)
    if binding is None or (binding.job_id == job.spec.id and job.spec.unique is Unique.RETAINED):
        return None
    return KeyHeld(binding.job_id)


def _copied(unit: Unit, spec: Spec, asked: Replay, payload: bytes) -> Spec:
    codec = asked.codec or spec.codec
    return replace(
        spec,
        id=asked.new_id,
        seq=unit.next_seq(),
        codec=codec,
        fingerprint=fingerprint(spec.job_type, codec, payload, spec.queue),
        payload_size=len(payload),
        enqueued_at=unit.now,
        expires_at=None,
        parents=(),
        replay_of=spec.id,
        root_id=spec.root_id or spec.id,
    )


def _discard(unit: Unit, job: Job) -> CommandReply | Refused:
    letter = unit.letter(job.ref)
    if job.state is not State.FAILED or letter is None:
        return NotDeadLettered(job.state)
    if letter.disposition is Disposition.REPLAYED and letter.new_id is not None:
        return AlreadyReplayed(letter.new_id)
    if letter.disposition is Disposition.OPEN:
        unit.letters[job.ref] = DeadLetter(*job.ref, unit.now, Disposition.DISCARDED)
        moves.move(unit, Command.DISCARD, job)
    return Discarded()
