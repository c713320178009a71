"""Deliberate bugs in `domain/model/enqueue.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/enqueue.py"

MUTANTS = (
    Mutant(
        name="carried-depth-checked",
        what="Jobs that a success carries are refused by a full queue.",
        breaks="H6, H1: depth is not checked for carried jobs",
        edits=(
            Edit(
                "_enqueue_one",
                "or (None if carried else depth_refusal(unit, new.tenant, new.queue))",
                "or depth_refusal(unit, new.tenant, new.queue)",
            ),
        ),
        killers=("conformance-memory",),
        why="a success that carries a job into a full queue comes once in 40,000 steps",
    ),
    Mutant(
        name="enqueue-atomic-not-undone",
        what="A refused atomic batch leaves what was accepted before the refusal.",
        breaks="H12, H5: refused whole",
        edits=(
            Edit(
                "enqueue",
                (
                    "if untouched is not None and not all(_created(reply) for reply in replies):\n"
                    "        unit.restore(untouched)"
                ),
                "if untouched is not None and not all(_created(reply) for reply in replies):",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="enqueue-conflict-ignored",
        what="Another body under a known id is answered as if it were the first.",
        breaks="H5: IdConflict",
        edits=(
            Edit(
                "_known",
                "return Enqueued(new.id) if job.spec.fingerprint == new.fingerprint else IdConflict()",
                "return Enqueued(new.id)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="enqueue-depth-off-by-one",
        what="A queue takes one job more than its depth.",
        breaks="H6: max_depth",
        edits=(Edit("depth_refusal", "queue)) >= most else", "queue)) > most else"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="enqueue-group-not-needed",
        what="A keyed queue takes a job without a group.",
        breaks="H6: GroupRequired",
        edits=(
            Edit(
                "group_refusal",
                "return GroupNeedsKeyed(queue) if group is not None else GroupRequired(queue)",
                "return GroupNeedsKeyed(queue) if group is not None else None",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="enqueue-repeat-not-created",
        what="An enqueue sent again is told that it created nothing.",
        breaks="H9: it answers as the first time",
        edits=(Edit("_known", "Enqueued(new.id) if job", "Enqueued(new.id, False, job.state) if job"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-ended-parent-not-counted",
        what="A parent that had already succeeded is waited for.",
        breaks="H12: a parent already succeeded counts as resolved",
        edits=(Edit("_ended", "job.state.terminal]", "job.state in (State.FAILED, State.CANCELLED)]"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-unknown-parent-accepted",
        what="A job may wait for a parent that does not exist.",
        breaks="H12: ParentNotFound",
        edits=(
            Edit(
                "_parents_refusal",
                "return ParentCycle(parent.id) if cyclic else ParentNotFound(parent.id)",
                "return ParentCycle(parent.id) if cyclic else None",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="freeze-lets-enqueue-through",
        what="A frozen store takes new jobs.",
        breaks="H2: StoreFrozen",
        edits=(
            Edit(
                "enqueue",
                (
                    '"""Puts jobs in, in order, each seeing those before it."""\n'
                    "    if unit.meta.frozen:\n"
                    "        return [StoreFrozen() for _ in jobs]"
                ),
                '"""Puts jobs in, in order, each seeing those before it."""',
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="key-after-depth",
        what="A full queue is told before a duplicate.",
        breaks="H6, H9: enqueue's guards, in order",
        edits=(
            Edit(
                "_enqueue_one",
                "answered = _known(unit, new) or _duplicate(unit, new, carried)",
                (
                    "answered = _known(unit, new)\n"
                    "    if answered is None and not carried:\n"
                    "        answered = depth_refusal(unit, new.tenant, new.queue)\n"
                    "    answered = answered or _duplicate(unit, new, carried)"
                ),
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="key-fingerprint-ignored",
        what="Another body under the same key is taken for a duplicate.",
        breaks="H9: IdempotencyMismatch",
        edits=(
            Edit(
                "_duplicate",
                "if binding.fingerprint != new.fingerprint and not carried:",
                "if binding.fingerprint != new.fingerprint and carried:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-06-cancelled-id-is-free",
        what="Cancel frees the id: the same enqueue sent again makes the job anew, and it runs twice.",
        breaks="§17 cancel then re-enqueue runs twice; H5, H8",
        edits=(Edit("_known", "if job is None:", "if job is None or job.state is State.CANCELLED:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-16-enqueued-twice",
        what="An enqueue sent again is carried out again.",
        breaks="§17 unknown commit result enqueues twice; H5, H2",
        edits=(
            Edit(
                "_enqueue_one",
                "answered = _known(unit, new) or _duplicate(unit, new, carried)",
                "answered = _duplicate(unit, new, carried)",
            ),
        ),
        killers=("machine-memory",),
    ),
)
