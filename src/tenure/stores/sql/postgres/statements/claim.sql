-- The scans of a claim in PostgreSQL's own way.

-- name: claim_look
-- Before a claim: whether its id is known, whether jobs became due, who has jobs, and how many names the longest answer
-- has (as many as were asked for: there may be more).
WITH ring AS MATERIALIZED (
    SELECT found.tenant, count(*) OVER (PARTITION BY asked.queue, start.after) AS names
    FROM unnest($2::text[]) AS asked (queue) CROSS JOIN (VALUES ($3), ('')) AS start (after) CROSS JOIN LATERAL (
        WITH RECURSIVE found (tenant) AS (
            SELECT (SELECT tenant FROM tenure.ready WHERE queue = asked.queue AND tenant > start.after
                    ORDER BY tenant LIMIT 1)
            UNION ALL
            SELECT (SELECT tenant FROM tenure.ready WHERE queue = asked.queue AND tenant > found.tenant
                    ORDER BY tenant LIMIT 1)
            FROM found WHERE found.tenant IS NOT NULL
        )
        SELECT tenant FROM found WHERE tenant IS NOT NULL LIMIT $4
    ) AS found
)
SELECT EXISTS (SELECT 1 FROM tenure.claimed WHERE token = $1),
       EXISTS (
           SELECT 1 FROM unnest($2::text[]) AS asked (queue) CROSS JOIN LATERAL (
               SELECT 1 FROM tenure.scheduled AS s WHERE s.queue = asked.queue AND s.run_at <= $5 ORDER BY run_at LIMIT 1
           ) AS due
       ),
       (SELECT coalesce(array_agg(DISTINCT tenant), '{}') FROM ring), (SELECT coalesce(max(names), 0) FROM ring)

-- name: lease_at_once
-- Jobs that this claim has locked, under their lease, in one statement.
WITH changed AS (
    DELETE FROM tenure.ready WHERE ctid = ANY ($1::tid[]) RETURNING 1
), sure AS MATERIALIZED (
    SELECT 1 / (count(*) = $2)::int AS sure FROM changed
), leased AS (
    INSERT INTO tenure.running (seq, queue, tenant, grp, token, deadline, live, version, limited)
    SELECT given.seq, given.queue, given.tenant, given.grp, $3, given.deadline, given.live, given.version, given.limited
    FROM sure CROSS JOIN unnest(
        $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::bytea[], $10::bigint[], $11::boolean[]
    ) AS given (seq, queue, tenant, grp, deadline, live, version, limited)
), held AS (
    INSERT INTO tenure.claimed (token, deadline, seqs) VALUES ($3, $12, $4)
), told AS (
    INSERT INTO tenure.inbox (tenant, at, body)
    SELECT made.tenant, $15, made.body FROM unnest($13::text[], $14::bytea[]) AS made (tenant, body)
)
SELECT sure FROM sure

-- name: promote
-- Jobs of one queue that became due move from `scheduled` to `ready`, at most a bounded number at once.
WITH due AS MATERIALIZED (
    SELECT ctid FROM tenure.scheduled
    WHERE queue = $1 AND run_at <= $2 ORDER BY run_at, seq LIMIT $3 FOR UPDATE SKIP LOCKED
), moved AS (
    DELETE FROM tenure.scheduled WHERE ctid = ANY (ARRAY(SELECT ctid FROM due)) RETURNING *
)
INSERT INTO tenure.ready (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
SELECT queue, tenant, grp, prio_neg, run_at, seq, expires_at, version FROM moved

-- name: tenants
-- Loose scan: one index seek per tenant, whatever its backlog.
WITH RECURSIVE found (tenant) AS (
    SELECT (SELECT tenant FROM tenure.ready WHERE queue = $1 AND tenant > $2 ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT tenant FROM tenure.ready WHERE queue = $1 AND tenant > found.tenant ORDER BY tenant LIMIT 1)
    FROM found WHERE found.tenant IS NOT NULL
)
SELECT tenant FROM found WHERE tenant IS NOT NULL LIMIT $3

-- name: groups
WITH RECURSIVE found (grp) AS (
    SELECT (SELECT grp FROM tenure.ready WHERE queue = $1 AND tenant = $2 AND grp > $3 ORDER BY grp LIMIT 1)
    UNION ALL
    SELECT (SELECT grp FROM tenure.ready WHERE queue = $1 AND tenant = $2 AND grp > found.grp ORDER BY grp LIMIT 1)
    FROM found WHERE found.grp IS NOT NULL
)
SELECT grp FROM found WHERE grp IS NOT NULL LIMIT $4

-- name: line
-- Due jobs of one tenant, queue and group in the contract's order, from a place on; expired ones are passed over, and
-- those that another claim is about to take. MATERIALIZED: a nested loop over SKIP LOCKED takes more than its limit.
WITH next AS MATERIALIZED (
    SELECT ctid, prio_neg, run_at, seq FROM tenure.ready
    WHERE queue = $1 AND tenant = $2 AND grp = $3 AND (prio_neg, run_at, seq) > ($4, $5, $6)
      AND run_at <= $7 AND (expires_at IS NULL OR expires_at > $7)
    ORDER BY prio_neg, run_at, seq LIMIT $8 FOR UPDATE SKIP LOCKED
)
SELECT job.seq, job.spec, job.state, job.priority, job.run_at, job.live, job.payload, next.ctid
FROM next CROSS JOIN LATERAL (SELECT * FROM tenure.job WHERE job.seq = next.seq OFFSET 0) AS job
ORDER BY next.prio_neg, next.run_at, next.seq

-- name: lines
-- The beginnings of several plain lines at once.
WITH next AS MATERIALIZED (
    SELECT found.* FROM @keys(queue text, tenant text, most bigint) CROSS JOIN LATERAL (
        SELECT r.ctid, r.queue, r.tenant, r.prio_neg, r.run_at, r.seq FROM tenure.ready AS r
        WHERE r.queue = want.queue AND r.tenant = want.tenant AND r.grp = '' AND r.run_at <= $4
          AND (r.expires_at IS NULL OR r.expires_at > $4)
        ORDER BY r.prio_neg, r.run_at, r.seq LIMIT want.most FOR UPDATE SKIP LOCKED
    ) AS found
)
SELECT job.seq, job.spec, job.state, job.priority, job.run_at, job.live, job.payload, next.ctid, next.tenant, next.queue
FROM next CROSS JOIN LATERAL (SELECT * FROM tenure.job WHERE job.seq = next.seq OFFSET 0) AS job
ORDER BY next.queue, next.tenant, next.prio_neg, next.run_at, next.seq

-- name: upcoming
-- Future jobs of a queue by time.
SELECT run_at, tenant FROM tenure.scheduled WHERE queue = $1 AND run_at > $2 ORDER BY run_at, seq LIMIT $3 OFFSET $4

-- name: early
-- Jobs that seemed due before the clock went back.
SELECT run_at, tenant FROM tenure.ready WHERE queue = $1 AND run_at > $2

-- name: running_under
SELECT job.tenant, job.id
FROM tenure.claimed AS c CROSS JOIN LATERAL (SELECT DISTINCT unnest(c.seqs) AS seq) AS held
    JOIN tenure.running AS r ON r.seq = held.seq AND r.token = c.token
    JOIN tenure.job ON job.seq = held.seq
WHERE c.token = $1 ORDER BY job.tenant, job.id
