"""Deliberate bugs in `domain/model/moves.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/moves.py"

MUTANTS = (
    Mutant(
        name="flow-cancel-tells-no-child",
        what="Children of a job that is cancelled are not told.",
        breaks="H12: every path into a terminal state resolves children",
        edits=(Edit("move", "job.state not in TERMINAL", "command is not Command.CANCEL"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-cancelled-parent-counts-as-success",
        what="A child of a cancelled parent is run.",
        breaks="H12: cancelled and expired parents count as failed",
        edits=(
            Edit(
                "settle_edge",
                "succeeded = parent_state is State.SUCCEEDED",
                "succeeded = parent_state is not State.FAILED",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-cascade-forgotten",
        what="Beyond its budget an operation leaves the rest of a cascade to nobody.",
        breaks="§15: the rest goes on in sweep through a durable list",
        edits=(
            Edit(
                "tell_children",
                ("told.popleft()\n    for waiting in told:\n        unit.defer(waiting)"),
                "told.popleft()",
            ),
        ),
        killers=("conformance-memory",),
        why=(
            "a cascade is left behind beyond 1,000 descendants; the small worlds of the machine have a few dozen jobs"
        ),
    ),
    Mutant(
        name="flow-expire-tells-no-child",
        what="Children of a job that is expired are not told.",
        breaks="H12: every path into a terminal state resolves children",
        edits=(Edit("move", "job.state not in TERMINAL", "command is not Command.EXPIRE"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-failed-parent-counts-as-success",
        what="A child of a failed parent is run.",
        breaks="H12: on_parent_failure",
        edits=(
            Edit(
                "settle_edge",
                "succeeded = parent_state is State.SUCCEEDED",
                "succeeded = parent_state is not State.BLOCKED",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-first-parent-unblocks",
        what="One parent that succeeds is enough.",
        breaks="H12: no unresolved parent",
        edits=(
            Edit(
                "settle_edge",
                "if all(other.resolved for other in unit.edges_to(child.ref)):",
                "if any(other.resolved for other in unit.edges_to(child.ref)):",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-ignore-as-cancel",
        what="A child that ignores failures is cancelled with its parent.",
        breaks="H12: ignore",
        edits=(
            Edit(
                "settle_edge",
                (
                    "if not succeeded and edge.on_failure is not OnParentFailure.IGNORE:\n"
                    "        _step(unit, Command.PARENT_FAILED, child, edge.on_failure)"
                ),
                (
                    "if not succeeded:\n"
                    "        ignored = edge.on_failure is OnParentFailure.IGNORE\n"
                    "        _step(unit, Command.PARENT_FAILED, child, OnParentFailure.CANCEL if ignored else "
                    "edge.on_failure)"
                ),
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-lose-tells-no-child",
        what="Children of a job that is failed by a lost lease are not told.",
        breaks="H12: every path into a terminal state resolves children",
        edits=(Edit("move", "job.state not in TERMINAL", "command is not Command.LOSE"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-no-grandchildren",
        what="A cascade ends with the children.",
        breaks="H12: cascades",
        edits=(Edit("tell_children", "told.extend(ended)", "told.extend(ended[:0])"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-two-parents-at-once",
        what="Two parents that end in one operation do not see each other: the child waits for ever.",
        breaks="H12: also when two parents end at once",
        edits=(
            Edit(
                "settle_edge",
                "if all(other.resolved for other in unit.edges_to(child.ref)):",
                (
                    "stored = unit.tables.edges_to([child.ref]).get(child.ref, [])\n"
                    "    if all(other.resolved or other.parent == edge.parent for other in stored):"
                ),
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="key-active-kept",
        what="An active key is held for ever.",
        breaks="H9: freed with the terminal transition",
        edits=(
            Edit(
                "release_key",
                "if key is None or spec.unique is Unique.RETAINED:",
                "if key is None or spec.unique is not Unique.WINDOW:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="key-retained-freed",
        what="A retained key is free when its job ends.",
        breaks="H9: freed when the record is purged",
        edits=(Edit("release_key", "if key is None or spec.unique is Unique.RETAINED:", "if key is None:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="key-window-freed-at-once",
        what="A window key is free as soon as its job succeeded.",
        breaks="H9: that long after success",
        edits=(
            Edit(
                "release_key",
                "if spec.unique is Unique.WINDOW and state is State.SUCCEEDED:",
                "if spec.unique is Unique.WINDOW and state is State.PENDING:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="key-window-kept-on-failure",
        what="A window key is held after a failure, too.",
        breaks="H9: at once on failed or cancelled",
        edits=(
            Edit(
                "release_key",
                "if spec.unique is Unique.WINDOW and state is State.SUCCEEDED:",
                "if spec.unique is Unique.WINDOW:",
            ),
        ),
        killers=("machine-memory",),
    ),
)
