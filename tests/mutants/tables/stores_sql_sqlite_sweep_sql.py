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
        name="sql-purge-takes-open-letters",
        what="A purge isn't told of dead letters.",
        breaks="§4 purge",
        edits=(Edit("ended_jobs", "       d.disposition,", "       NULL,"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-purge-takes-parents",
        what="A purge isn't told of children.",
        breaks="§4 purge",
        edits=(Edit("ended_jobs", "e.tenant = j.tenant AND e.parent = j.id", "e.tenant = j.id AND e.parent = j.id"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-purge-takes-window",
        what="A purge isn't told of keys.",
        breaks="§4 purge",
        edits=(
            Edit("ended_jobs", "ON b.tenant = j.tenant AND b.job_id = j.id", "ON b.tenant = j.id AND b.job_id = j.id"),
        ),
        killers=("machine-sqlite",),
    ),
)
