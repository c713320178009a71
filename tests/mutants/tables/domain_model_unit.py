"""Deliberate bugs in `domain/model/unit.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/unit.py"

MUTANTS = (
    Mutant(
        name="enqueue-depth-forgets-batch",
        what="Jobs of one batch do not see each other in the depth.",
        breaks="H6: items in order, each sees the ones before",
        edits=(
            Edit(
                "Unit.depth",
                "return self._read_depth[lane] + self._waiting.get(lane, 0)",
                "return self._read_depth[lane]",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="result-never-expires",
        what="A result is shown after its time.",
        breaks="H13: TTL",
        edits=(
            Edit(
                "Unit.result",
                (
                    "if result is None or self.now < result.expires_at or self.edges_from(ref):\n"
                    "        return result\n"
                    "    return None"
                ),
                "return result",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="result-of-parent-expires",
        what="A parent's result is gone before its children ended.",
        breaks="H13: parents' results live until their children are terminal",
        edits=(
            Edit(
                "Unit.result",
                "if result is None or self.now < result.expires_at or self.edges_from(ref):",
                "if result is None or self.now < result.expires_at:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-09-lost-hint",
        what="Whoever waits for a job is not told when it ends.",
        breaks="§17 a lost pub/sub message hangs a caller",
        edits=(
            Edit(
                "Unit.ended_jobs",
                "[job for job in self.after.values() if job.state.terminal]",
                "list[Job]()",
            ),
        ),
        killers=("conformance-memory",),
        why=(
            "a hint is no promise (a wait may end by its timeout), so neither checker nor lockstep judges "
            "hints; the wait tests do"
        ),
    ),
    Mutant(
        name="s17-11-drained-without-hint",
        what="A draining slot that is freed wakes nobody.",
        breaks="§17 missed wake-ups on the paths it does not list",
        edits=(
            Edit(
                "Unit.topics",
                (
                    "topics.add(document_topic(tenant, kind))\n"
                    "    topics.update(queue_topic(queue) for queue in self._freed)"
                ),
                "topics.add(document_topic(tenant, kind))",
            ),
        ),
        killers=("conformance-memory",),
        why="a hint is no promise, so neither checker nor lockstep judges hints; the wait tests do",
    ),
    Mutant(
        name="s17-11-lost-without-hint",
        what="A job that comes back to the line wakes nobody.",
        breaks="§17 missed wake-ups on the paths it does not list",
        edits=(Edit("_makes_room", "return True", "return before is None or before.state is not State.RUNNING"),),
        killers=("conformance-memory",),
        why="a hint is no promise, so neither checker nor lockstep judges hints; the wait tests do",
    ),
    Mutant(
        name="s17-11-resume-without-hint",
        what="A change of configuration wakes nobody.",
        breaks="§17 missed wake-ups on the paths it does not list",
        edits=(
            Edit(
                "Unit.topics",
                ("if kind == QUEUE:\n            topics.add(queue_topic(name))\n        elif kind == TENANT:"),
                "if kind == TENANT:",
            ),
        ),
        killers=("conformance-memory",),
        why="a hint is no promise, so neither checker nor lockstep judges hints; the wait tests do",
    ),
    Mutant(
        name="traceback-21st-kept",
        what="Of a job's tracebacks one more is kept than may be.",
        breaks="§6: the last 20 a job",
        edits=(
            Edit(
                "Unit.attach",
                "for first in sorted(kept | {member})[: -family.most]:",
                "for first in sorted(kept | {member})[: -family.most - 1]:",
            ),
        ),
        killers=("conformance-memory",),
        why="no job of the machine has so many attempts",
    ),
)
