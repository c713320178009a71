"""Deliberate bugs in `stores/sql/sqlite/statements/claim.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/sqlite/statements/claim.sql"

MUTANTS = (
    Mutant(
        name="s17-12-back-off-hides-ready",
        what=("Only the two oldest jobs of those not yet due are looked at; in back-off they hide the ones behind."),
        breaks="§17 jobs in back-off at the head hide all ready jobs behind them",
        edits=(
            Edit(
                "promote",
                (
                    "SELECT queue, tenant, grp, prio_neg, run_at, seq, expires_at FROM scheduled\n"
                    "WHERE queue = ?1 AND run_at <= ?2 ORDER BY run_at, seq LIMIT ?3"
                ),
                (
                    "SELECT queue, tenant, grp, prio_neg, run_at, seq, expires_at FROM (\n"
                    "    SELECT * FROM scheduled WHERE queue = ?1 ORDER BY seq LIMIT 2\n"
                    ") WHERE run_at <= ?2 ORDER BY run_at, seq LIMIT ?3"
                ),
            ),
            Edit(
                "promoted",
                (
                    "SELECT queue, run_at, seq FROM scheduled WHERE queue = ?1 AND run_at <= ?2 ORDER BY run_at, "
                    "seq LIMIT ?3"
                ),
                (
                    "SELECT queue, run_at, seq FROM (SELECT * FROM scheduled WHERE queue = ?1 ORDER BY seq LIMIT 2)\n"
                    "    WHERE run_at <= ?2 ORDER BY run_at, seq LIMIT ?3"
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-groups-of-every-tenant",
        what="The groups of a queue are those of all its tenants.",
        breaks="§11 tenancy",
        edits=(Edit("groups", "tenant = ?2 AND grp > ?", "tenant >= ?2 AND grp >= ?"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-line-gives-expired",
        what="A claim does not pass over expired jobs.",
        breaks="§4 expire",
        edits=(
            Edit(
                "line",
                "AND ready.run_at <= ?7 AND (ready.expires_at IS NULL OR ready.expires_at > ?7)",
                "AND ready.run_at <= ?7",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-line-second-page-restarts",
        what="A line is paged by priority and time only: jobs of one moment are left out.",
        breaks="§11a claim",
        edits=(
            Edit(
                "line",
                "AND (ready.prio_neg, ready.run_at, ready.seq) > (?4, ?5, ?6)",
                "AND (ready.prio_neg, ready.run_at) > (?4, ?5 + 0 * ?6)",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-line-without-priority",
        what="Jobs are given by time, whatever their priority.",
        breaks="§10 order",
        edits=(
            Edit(
                "line",
                "ORDER BY ready.prio_neg, ready.run_at, ready.seq LIMIT ?8",
                "ORDER BY ready.run_at, ready.seq LIMIT ?8",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-promote-1ms-late",
        what="A job becomes claimable a millisecond after its time.",
        breaks="§11a: run_at ≤ now",
        edits=(
            Edit(
                "promote",
                "WHERE queue = ?1 AND run_at <= ?2 ORDER BY run_at, seq LIMIT ?3",
                "WHERE queue = ?1 AND run_at < ?2 ORDER BY run_at, seq LIMIT ?3",
            ),
            Edit("promoted", "AND run_at <= ?2 ORDER", "AND run_at < ?2 ORDER"),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-upcoming-is-last",
        what="wake_after tells the time of the last future job.",
        breaks="§11a wake_after",
        edits=(Edit("upcoming", "run_at > ?2 ORDER BY run_at", "run_at > ?2 ORDER BY run_at DESC"),),
        killers=("machine-sqlite",),
    ),
)
