"""Deliberate bugs in `stores/sql/postgres/statements/claim.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/statements/claim.sql"

MUTANTS = (
    Mutant(
        name="frontier-due-mark-had-by-others",
        what="A mark of `scheduled` is the first row that is to be had, not the first that is visible.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(
            Edit(
                "claim_from",
                "ORDER BY s.run_at, s.seq LIMIT 1\n) AS due",
                "ORDER BY s.run_at, s.seq LIMIT 1 FOR UPDATE SKIP LOCKED\n) AS due",
            ),
        ),
        killers=("frontier-postgres",),
        why="Nobody in the machine holds rows of `scheduled` while another claims.",
    ),
    Mutant(
        name="frontier-mark-had-by-others",
        what="A mark is the first row that is to be had, not the first that is visible.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(
            Edit(
                "claim_from",
                "ORDER BY r.run_at, r.seq LIMIT 1\n    ) UNION ALL (",
                (
                    "AND r.ctid = ANY (ARRAY(\n"
                    "            SELECT l.ctid FROM tenure.ready AS l WHERE l.queue = r.queue FOR UPDATE SKIP LOCKED\n"
                    "        ))\n"
                    "        ORDER BY r.run_at, r.seq LIMIT 1\n    ) UNION ALL ("
                ),
            ),
        ),
        killers=("frontier-postgres",),
        why="Nobody in the machine holds rows of `ready` while another claims.",
    ),
    Mutant(
        name="frontier-scheduled-newcomers-old",
        what="Rows that came into `scheduled` since the snapshot look old.",
        breaks="§11a: takeable is what is due",
        edits=(
            Edit(
                "claim_from",
                (
                    "AS new WHERE queue = ANY ($4::text[])\n"
                    "        UNION ALL\n        SELECT queue, ARRAY[run_at, seq] FROM"
                ),
                "AS new WHERE false\n        UNION ALL\n        SELECT queue, ARRAY[run_at, seq] FROM",
            ),
        ),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="postgres-claim-sent-twice-takes-twice",
        what="A claim whose id another connection has just used takes jobs of its own.",
        breaks="§5a: a claim id already used takes no more",
        edits=(Edit("lease_at_once", "VALUES ($3, $12, $4)", "VALUES ($3, $12, $4) ON CONFLICT (token) DO NOTHING"),),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-claims-wait-for-each-other",
        what="A claim waits for rows that another claim is about to take, and comes away with less.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(
            Edit(
                "lines",
                "ORDER BY r.prio_neg, r.run_at, r.seq LIMIT want.most FOR UPDATE SKIP LOCKED",
                "ORDER BY r.prio_neg, r.run_at, r.seq LIMIT want.most FOR UPDATE",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-few-due-job-waits",
        what="A claim by one statement passes over a job that has become due meanwhile.",
        breaks="§11a: takeable is what is due",
        edits=(Edit("claim_few", "5 AND coming.run_at > own.now", "5"),),
        killers=("few-postgres",),
        why="The machine's seeds don't claim few jobs at the moment that another becomes due.",
    ),
    Mutant(
        name="postgres-few-many-cut-off",
        what="A claim by one statement takes the first few of a long line and says that there are no more.",
        breaks="§11a: it ends when n are given or nothing is takeable",
        edits=(Edit("claim_few", "AND $7 AND bool_and(", "AND $7 + 1 AND bool_and("),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="postgres-few-others-wait",
        what=("A claim by one statement looks at the tenant that was alone before, and at nobody who came since."),
        breaks="§11a: the walk over all tenants with a takeable job",
        edits=(
            Edit(
                "claim_few",
                (
                    "WHERE own.now >= $9 AND (coming.run_at IS NULL OR (coming.tenant = $5 AND coming.run_at > "
                    "own.now))\n"
                    "      AND other.before IS NULL AND other.after IS NULL"
                ),
                ("WHERE own.now >= $9 AND (coming.run_at IS NULL OR (coming.tenant = $5 AND coming.run_at > own.now))"),
            ),
        ),
        killers=("few-postgres",),
        why="In the profile of the machine whose claims mostly go so there is one tenant only.",
    ),
    Mutant(
        name="postgres-few-own-lease-ignored",
        what=(
            "A claim by one statement gives every job the lease that the worker asked for, also one that has its own."
        ),
        breaks="§5: a lease is as long as the job says, else the queue, else the claim",
        edits=(
            Edit(
                "claim_few",
                (
                    "next.expires_at IS NULL AND job.live IS NULL AND job.enqueued_at <= next.now\n"
                    "               AND substr(job.spec, length(job.spec) - length($8::bytea) + 1) = $8, false"
                ),
                (
                    "next.expires_at IS NULL AND job.live IS NULL AND job.enqueued_at <= next.now AND $8::bytea IS "
                    "NOT NULL, false"
                ),
            ),
        ),
        killers=("few-postgres",),
        why="In 2,400 steps of the machine no job with a lease of its own was claimed so.",
    ),
    Mutant(
        name="postgres-few-wakes-for-a-paused-queue",
        what="A claim by one statement wakes for the next job, whoever is paused.",
        breaks="§11a.7: the earliest in the unpaused queues",
        edits=(Edit("claim_few", "coming.tenant = $5 AND coming.run_at", "coming.run_at"),),
        killers=("few-postgres",),
        why="In the profile of the machine whose claims mostly go so there is one tenant only.",
    ),
)
