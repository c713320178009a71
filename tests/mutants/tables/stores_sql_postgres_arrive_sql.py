"""Deliberate bugs in `stores/sql/postgres/statements/arrive.sql`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/statements/arrive.sql"

MUTANTS = (
    Mutant(
        name="postgres-arrives-by-old-rules",
        what="A single job goes into a queue by the rules that this process remembers, whoever has changed them since.",
        breaks="§11: max_depth; a keyed queue refuses jobs without a group",
        edits=(Edit("arrive_one", "WHERE NOT meta.frozen AND meta.config = $1", "WHERE NOT meta.frozen AND $1 >= 0"),),
        killers=("loops-postgres",),
        why="In 7,200 steps of the machine no client enqueued so right after another had changed what it would break.",
    ),
    Mutant(
        name="postgres-key-given-twice",
        what="A key that another takes at the same moment is taken too.",
        breaks="§9: binding and job are one atomic operation",
        edits=(
            Edit(
                "arrive_alike",
                (
                    "FROM store CROSS JOIN unnest($19::text[], $15::text[], $20::bytea[]) AS given (key, id, "
                    "fingerprint)"
                ),
                (
                    "FROM store CROSS JOIN unnest($19::text[], $15::text[], $20::bytea[]) AS given (key, id, "
                    "fingerprint)\n"
                    "    ON CONFLICT DO NOTHING"
                ),
            ),
            Edit(
                "arrive_at_once",
                (
                    "SELECT tenant, queue, job_type, key, id, ($20::bytea[])[number], uniqueness, NULL FROM new "
                    "WHERE key IS NOT NULL"
                ),
                (
                    "SELECT tenant, queue, job_type, key, id, ($20::bytea[])[number], uniqueness, NULL FROM new "
                    "WHERE key IS NOT NULL\n"
                    "    ON CONFLICT DO NOTHING"
                ),
            ),
            Edit(
                "bind",
                (
                    "@rows(tenant text, queue text, job_type text, key text, job_id text, fingerprint bytea, "
                    "uniqueness text, expires_at bigint)"
                ),
                (
                    "@rows(tenant text, queue text, job_type text, key text, job_id text, fingerprint bytea, "
                    "uniqueness text, expires_at bigint)\n"
                    "ON CONFLICT DO NOTHING"
                ),
                "stores/sql/postgres/statements/write.sql",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-past-run-at-kept",
        what="A job that was to run in the past stands in its line as of then.",
        breaks="§9: run_at = max(given, now)",
        edits=(
            Edit(
                "arrive_alike",
                "greatest($9, clock.now + $10) AS due",
                "coalesce(nullif($9, 0), clock.now + $10) AS due",
            ),
        ),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="postgres-writers-arent-seen",
        what="An enqueue by one statement holds nothing that a freeze would wait for.",
        breaks="§5c: nothing is enqueued or claimed in a frozen store",
        edits=(
            Edit(
                "arrive_at_once",
                "WITH locked AS (SELECT FROM tenure.meta FOR KEY SHARE), store AS MATERIALIZED (",
                "WITH store AS MATERIALIZED (",
            ),
            Edit(
                "meta_to_write",
                (
                    "-- but what it names is locked before the statement looks at anything.\n"
                    "WITH locked AS (SELECT FROM tenure.meta FOR KEY SHARE)"
                ),
                "-- but what it names is locked before the statement looks at anything.",
                "stores/sql/postgres/statements/read.sql",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
)
