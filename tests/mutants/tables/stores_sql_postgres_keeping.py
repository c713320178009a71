"""Deliberate bugs in `stores/sql/postgres/keeping.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/keeping.py"

MUTANTS = (
    Mutant(
        name="postgres-ending-parent-looks-once",
        what="A parent that ends doesn't look for children again before it commits.",
        breaks="§15: every path into a terminal state resolves children, also when both happen at once",
        edits=(
            Edit(
                "finish_at_once",
                (
                    ")\n"
                    "    if tables.flows:\n"
                    '        tables.many("no_children", unit.ended_parents)\n'
                    "    else:\n"
                    '        tables.run("no_flows")'
                ),
                ")",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-events-lost-on-retry",
        what="A call that begins again writes no events.",
        breaks="§12: version = previous + 1 in the same atomic operation",
        edits=(
            Edit(
                "keep",
                'tables.many("add_events", events)',
                'tables.many("add_events", [] if tables._careful else events)',
            ),
        ),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="postgres-first-flow-unseen",
        what=(
            "In a store that had no flows as a transaction began, a parent that ends doesn't look for children again."
        ),
        breaks="§15: every path into a terminal state resolves children, also when both happen at once",
        edits=(
            Edit(
                "finish_at_once",
                ('tables.many("no_children", unit.ended_parents)\n    else:\n        tables.run("no_flows")'),
                'tables.many("no_children", unit.ended_parents)',
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-freeze-doesnt-wait",
        what="A freeze doesn't wait for those who are writing.",
        breaks="§5c: nothing is enqueued or claimed in a frozen store",
        edits=(
            Edit(
                "_keep_meta",
                (
                    "meta, before = unit.meta, tables.meta()\n"
                    "    if meta.frozen and not before.frozen:\n"
                    "        tables.stop()"
                ),
                "meta, before = unit.meta, tables.meta()",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-late-child-not-rechecked",
        what="Whoever ties a child to a parent leaves no note that the parent may have ended meanwhile.",
        breaks="§15: every path into a terminal state resolves children, also when both happen at once",
        edits=(
            Edit(
                "_check_children",
                (
                    'tables.many("recheck", [ref for ref in sorted(parents) if (job := unit.job(ref)) and not '
                    "job.state.terminal])"
                ),
                "assert parents is not None",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-purges-count-the-same",
        what="Two purges that meet both count the jobs that one of them has deleted.",
        breaks="§12: purged, with the count",
        edits=(Edit("_purge", "if count != len(jobs):", "if count > len(jobs):"),),
        killers=("pages-stores",),
        why="No two calls of the machine that overlap are purges.",
    ),
)
