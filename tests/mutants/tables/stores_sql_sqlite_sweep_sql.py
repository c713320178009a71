"""Deliberate bugs in `stores/sql/sqlite/statements/sweep.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/sqlite/statements/sweep.sql"

MUTANTS = (
    Mutant(
        name="s17-08-in-flight-entry-expires",
        what="A lease that nobody took for an hour drops out of what sweep looks at.",
        breaks="§17 in-flight list expires with its jobs; sweep",
        edits=(
            Edit(
                "lost",
                "deadline < $1 AND job.seq = running.",
                "deadline < $1 AND running.deadline > $1 - 3600000 AND job.seq = running.",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-lost-1ms-early",
        what="A lease is lost at its deadline.",
        breaks="§5: at the deadline sweep may not take it",
        edits=(
            Edit(
                "lost",
                "WHERE running.deadline < $1 AND job.seq = running.seq",
                "WHERE running.deadline <= $1 AND job.seq = running.seq",
            ),
            Edit("_lose", "None and job.lease.expired(unit.now)", "None", "domain/model/sweep.py"),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-lost-unordered",
        what="Lost leases are taken by arrival.",
        breaks="§4 sweep: by (deadline, tenant, id)",
        edits=(Edit("lost", "ORDER BY running.deadline, job.tenant, job.id LIMIT $2", "ORDER BY job.seq LIMIT $2"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-purge-keeps-key",
        what="A retained key outlives its purged job.",
        breaks="§9 retained",
        edits=(
            Edit(
                "purge_bindings",
                "DELETE FROM binding WHERE (tenant, job_id) IN (SELECT tenant, id FROM purging)",
                "DELETE FROM binding WHERE (tenant, job_id) IN (SELECT id, tenant FROM purging)",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-purge-takes-open-letters",
        what="A failed job is purged while its dead letter is open.",
        breaks="§4 purge",
        edits=(
            Edit(
                "purging_fill",
                (
                    "AND NOT EXISTS (\n"
                    "      SELECT 1 FROM dead_letter AS d WHERE d.tenant = j.tenant AND d.job_id = j.id AND "
                    "d.disposition = 'open'\n"
                    "  )\n"
                    "  AND NOT EXISTS ("
                ),
                "AND NOT EXISTS (",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-purge-takes-parents",
        what="A parent is purged while a child waits.",
        breaks="§4 purge",
        edits=(
            Edit(
                "purging_fill",
                (
                    "WHERE f.day = ?1 AND f.state = ?2\n"
                    "  AND NOT EXISTS (SELECT 1 FROM edge AS e WHERE e.tenant = j.tenant AND e.parent = j.id)"
                ),
                "WHERE f.day = ?1 AND f.state = ?2",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-purge-takes-window",
        what="A job is purged while its window key lives.",
        breaks="§4 purge",
        edits=(
            Edit(
                "purging_fill", "AND (b.expires_at IS NULL OR b.expires_at > ?3)", "AND (b.expires_at IS NULL AND ?3)"
            ),
        ),
        killers=("conformance-sqlite",),
        why=(
            "needs a window that ends on a later day than its success, and a purge between: the windows of "
            "the machine are a day at most"
        ),
    ),
)
