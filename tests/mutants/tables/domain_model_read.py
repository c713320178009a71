"""Deliberate bugs in `domain/model/read.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/read.py"

MUTANTS = (
    Mutant(
        name="explain-forgets-rate",
        what="explain does not tell that a rate holds a job.",
        breaks="H15: all gates that hold a job",
        edits=(
            Edit("gates", "if rules.bucket is not None:", "if rules.bucket is not None and spec.group is not None:"),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="explain-order",
        what="explain tells that a job is scheduled after telling of pauses.",
        breaks="H15: the gates in their order",
        edits=(
            Edit(
                "gates",
                ("(job.state is State.BLOCKED, Gate.BLOCKED),\n        (job.run_at > now, Gate.SCHEDULED),"),
                "(job.state is State.BLOCKED, Gate.BLOCKED),",
            ),
            Edit(
                "gates",
                "(rules.paused, Gate.QUEUE_PAUSED),",
                ("(rules.paused, Gate.QUEUE_PAUSED),\n        (job.run_at > now, Gate.SCHEDULED),"),
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="feed-old-cursor-goes-on",
        what="A cursor past retention goes on at what is left, silently.",
        breaks="H11: CursorExpired, never silent loss",
        edits=(
            Edit(
                "events",
                (
                    "position, given = (meta.feed_floor, 0) if after is None else _place(after, meta.feed_head)\n"
                    "    if position < meta.feed_floor:\n"
                    "        return CursorExpired()"
                ),
                "position, given = (meta.feed_floor, 0) if after is None else _place(after, meta.feed_head)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="feed-skips-a-chunk",
        what="A full page ends with a cursor past events that it did not show.",
        breaks="H11: each event seen exactly once",
        edits=(
            Edit(
                "events",
                "end = _cursor(position)",
                "end = _cursor(chunk.position if chunks else position)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="feed-old-cursor-within-goes-on",
        what="A cursor inside a chunk that is past retention goes on at what is left, silently.",
        breaks="H11: CursorExpired, never silent loss",
        edits=(Edit("events", "if position < meta.feed_floor:", "if position < meta.feed_floor and not given:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="feed-within-repeats",
        what="A cursor inside a chunk stands before the event that was given last.",
        breaks="H11: each event seen exactly once",
        edits=(Edit("_cursors", "for given in range(first + 1, count)", "for given in range(first, count - 1)"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="feed-end-of-a-chunk-within",
        what="The cursor after the last event of a chunk stands inside it, and goes with it.",
        breaks="H11: a cursor that missed nothing holds",
        edits=(Edit("_cursors", "[*within, _cursor(position)]", "[*within, _cursor(position - 1, count)]"),),
        killers=("conformance-memory",),
        why="The machine stops inside pages that are never that near to the border of retention.",
    ),
    Mutant(
        name="feed-within-counts-on",
        what="What is passed over inside one chunk is passed over in all that follow on the page.",
        breaks="H11: each event seen exactly once",
        edits=(Edit("events", "first = given if chunk.position == begun else 0", "first = given"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="traceback-shown-unasked",
        what="Every job that is read shows its tracebacks.",
        breaks="§6: no list or success reads them",
        edits=(Edit("get", "if reading.tracebacks and jobs else {}", "if jobs else {}"),),
        killers=("machine-memory",),
    ),
)
