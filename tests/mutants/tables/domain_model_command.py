"""Deliberate bugs in `domain/model/command.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/command.py"

MUTANTS = (
    Mutant(
        name="cancel-frees-slot-at-once",
        what="A cancelled running job's slot is free at once.",
        breaks="H6: the slot drains",
        edits=(Edit("_cancel", "unit.slots[job.ref] = slot", "assert slot is not None"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="cancel-request-again-is-event",
        what="Asking once more to cancel writes another event.",
        breaks="H11, H2: no-op calls write none",
        edits=(
            Edit(
                "_request_cancel",
                ("if not job.cancel_requested:\n        moves.move(unit, Command.REQUEST_CANCEL, job)"),
                "moves.move(unit, Command.REQUEST_CANCEL, job)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="cancel-running-only-requested",
        what="Cancel of a running job only asks: the token lives on.",
        breaks="H8: token dead at once",
        edits=(
            Edit(
                "_cancel",
                "return JobFinished(job.state)",
                (
                    "return JobFinished(job.state)\n"
                    "    if job.lease is not None and job.spec.group is None:\n"
                    "        return _request_cancel(unit, job)"
                ),
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="discard-after-replay",
        what="A dead letter that was replayed may be discarded.",
        breaks="H2: AlreadyReplayed",
        edits=(Edit("_discard", "return AlreadyReplayed(letter.new_id)", "return Discarded()"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="replay-into-full-queue",
        what="A replay passes the depth of its queue.",
        breaks="H6: depth applies",
        edits=(
            Edit(
                "_replay_as_new",
                (
                    "or group_refusal(unit, spec.tenant, spec.queue, spec.group)\n"
                    "        or depth_refusal(unit, spec.tenant, spec.queue)"
                ),
                "or group_refusal(unit, spec.tenant, spec.queue, spec.group)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="replay-keeps-expiry",
        what="A replayed job inherits the expiry of its original.",
        breaks="H5, H10: expires is not copied",
        edits=(Edit("_copied", ("enqueued_at=unit.now,\n        expires_at=None,"), "enqueued_at=unit.now,"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="replay-keeps-run-at",
        what="A replayed job inherits the run_at of its original.",
        breaks="H10: run_at is not copied",
        edits=(
            Edit(
                "_replay_as_new",
                "State.PENDING, job.priority, unit.now)",
                "State.PENDING, job.priority, job.run_at)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="replay-makes-another",
        what="A replay asked for again makes another job.",
        breaks="H2, H9: it answers the same new id",
        edits=(
            Edit(
                "_replay",
                (
                    "return Replayed(asked.new_id)  # this very call, sent again\n"
                    "    if letter.disposition is Disposition.REPLAYED and letter.new_id is not None and not "
                    "asked.again:\n"
                    "        return Replayed(letter.new_id, created=False)"
                ),
                "return Replayed(asked.new_id)  # this very call, sent again",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="replay-takes-held-key",
        what="A replay takes a key that another job holds.",
        breaks="H9: KeyHeld",
        edits=(Edit("_key_refusal", "return KeyHeld(binding.job_id)", "return None"),),
        killers=("machine-memory",),
    ),
)
