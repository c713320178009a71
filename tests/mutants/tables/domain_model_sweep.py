"""Deliberate bugs in `domain/model/sweep.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/sweep.py"

MUTANTS = (
    Mutant(
        name="feed-trimmed-early",
        what="Events are gone after a day.",
        breaks="H11: retention 14 days",
        edits=(Edit("FEED_RETENTION", "FEED_RETENTION: Ms = 14 * DAY", "FEED_RETENTION: Ms = 1 * DAY"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="flow-cascade-not-continued",
        what="A sweep does not go on with the cascade that an operation left behind.",
        breaks="§15: the rest goes on in sweep through a durable list",
        edits=(Edit("_cascade", "budget = limit", "budget = 0"),),
        killers=("conformance-memory",),
        why=(
            "a cascade is left behind beyond 1,000 descendants; the small worlds of the machine have a few dozen jobs"
        ),
    ),
    Mutant(
        name="lease-sweep-without-recheck",
        what="The scan for lost leases forgets the grace, and the write does not check again.",
        breaks="H3: state, token and deadline are re-checked inside the write",
        edits=(
            Edit(
                "_lose",
                "None and job.token == seen.token and job.lease is not None and job.lease.expired(unit.now)",
                "None",
            ),
            Edit("MemoryTables.lost", "lease.expired(now)]", "lease.until < now]", "stores/memory_tables.py"),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="purge-a-day-early",
        what="A day is purged before it is over.",
        breaks="H4: the whole UTC day is past",
        edits=(
            Edit(
                "purge",
                "if (batch.day + 1) * DAY + kept[batch.state] > unit.now:",
                "if batch.day * DAY + kept[batch.state] > unit.now:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-04-recovery-at-start-only",
        what="Only the first sweep of a store takes lost leases.",
        breaks="§17 recovery only at start-up; H15",
        edits=(
            Edit(
                "sweep",
                "lost = [] if held else _lose(unit, limit)",
                "lost = [] if held or last is not None else _lose(unit, limit)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="sweep-hold-shortened",
        what="A shorter hold replaces a longer one.",
        breaks="H15, H3: hold_until never comes nearer",
        edits=(Edit("_hold", "if until > unit.meta.hold_until:", "if until != unit.meta.hold_until:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="sweep-limit-ignored",
        what="A sweep takes more lost leases than its limit.",
        breaks="H15, H3",
        edits=(
            Edit(
                "_lose",
                "for seen in unit.tables.lost(unit.now, limit):",
                "for seen in unit.tables.lost(unit.now, limit + 1):",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="sweep-names-every-lost-job",
        what="A sweep says of jobs with attempts left that it failed them.",
        breaks="§4: `failed` names the jobs whose last lease was taken",
        edits=(
            Edit(
                "sweep", "tuple(_named(job) for job in lost if job.state is State.FAILED)", "tuple(map(_named, lost))"
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="sweep-takes-during-hold",
        what="A sweep takes leases while a hold is in force.",
        breaks="H3: while now < hold_until a sweep takes no lease",
        edits=(Edit("sweep", "held = unit.now < unit.meta.hold_until", "held = False"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="sweep-without-turn",
        what="Every sweep takes the turn, however short after the last.",
        breaks="H15: the turn is taken once per interval",
        edits=(
            Edit(
                "sweep",
                "if last is not None and unit.now < last + interval:",
                "if last is not None and unit.now < last:",
            ),
        ),
        killers=("machine-memory",),
    ),
)
