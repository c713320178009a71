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
                    "position = meta.feed_floor if after is None else _position(after, meta.feed_head)\n"
                    "    if position < meta.feed_floor:\n"
                    "        return CursorExpired()"
                ),
                "position = meta.feed_floor if after is None else _position(after, meta.feed_head)",
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
                "return EventPage(tuple(page), _cursor(position))",
                "return EventPage(tuple(page), _cursor(chunk.position))",
            ),
        ),
        killers=("machine-memory",),
    ),
)
