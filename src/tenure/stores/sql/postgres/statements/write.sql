-- Keeping what a unit changed, while others do. A row is found by its key and the version that was read; whoever finds
-- none was overtaken. Keys are looked up one by one behind OFFSET 0: over a table that statistics call empty a join would
-- be driven by that table, dead rows and all.

-- name: add_job
INSERT INTO tenure.job (seq, tenant, id, queue, job_type, enqueued_at, spec, state, priority, run_at, live, payload)
@rows(seq bigint, tenant text, id text, queue text, job_type text, enqueued_at bigint, spec bytea, state text, priority bigint, run_at bigint, live bytea, payload bytea)

-- name: save_job
UPDATE tenure.job SET state = want.state, priority = want.priority, run_at = want.run_at, live = want.live
FROM @keys(state text, priority bigint, run_at bigint, live bytea, seq bigint) WHERE job.seq = want.seq

-- name: save_turn
-- Where a job stood in its line when it left it.
UPDATE tenure.job SET priority = want.priority, run_at = want.run_at
FROM @keys(priority bigint, run_at bigint, seq bigint) WHERE job.seq = want.seq

-- name: set_payload
UPDATE tenure.job SET payload = $3 WHERE tenant = $1 AND id = $2

-- name: put_ready
INSERT INTO tenure.ready (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
@rows(queue text, tenant text, grp text, prio_neg bigint, run_at bigint, seq bigint, expires_at bigint, version bigint)

-- name: drop_ready
DELETE FROM tenure.ready WHERE ctid = ANY (ARRAY(
    SELECT found.ctid
    FROM @keys(queue text, tenant text, grp text, prio_neg bigint, run_at bigint, seq bigint, version bigint)
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM tenure.ready AS r
        WHERE r.queue = want.queue AND r.tenant = want.tenant AND r.grp = want.grp AND r.prio_neg = want.prio_neg
          AND r.run_at = want.run_at AND r.seq = want.seq AND r.version = want.version OFFSET 0
    ) AS found
))

-- name: drop_waiting
-- Whichever of two tables a pending job stands in: one whose time has come may still be scheduled.
WITH gone AS MATERIALIZED (
    SELECT * FROM @keys(queue text, tenant text, grp text, prio_neg bigint, run_at bigint, seq bigint, version bigint)
), due AS (
    DELETE FROM tenure.ready WHERE ctid = ANY (ARRAY(
        SELECT found.ctid FROM gone CROSS JOIN LATERAL (
            SELECT r.ctid FROM tenure.ready AS r
            WHERE r.queue = gone.queue AND r.tenant = gone.tenant AND r.grp = gone.grp AND r.prio_neg = gone.prio_neg
              AND r.run_at = gone.run_at AND r.seq = gone.seq AND r.version = gone.version OFFSET 0
        ) AS found
    )) RETURNING 1
), later AS (
    DELETE FROM tenure.scheduled WHERE ctid = ANY (ARRAY(
        SELECT found.ctid FROM gone CROSS JOIN LATERAL (
            SELECT s.ctid FROM tenure.scheduled AS s
            WHERE s.queue = gone.queue AND s.run_at = gone.run_at AND s.seq = gone.seq AND s.version = gone.version
            OFFSET 0
        ) AS found
    )) RETURNING 1
)
SELECT 1 / ((SELECT count(*) FROM due) + (SELECT count(*) FROM later) = (SELECT count(*) FROM gone))::int

-- name: put_scheduled
INSERT INTO tenure.scheduled (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
@rows(queue text, tenant text, grp text, prio_neg bigint, run_at bigint, seq bigint, expires_at bigint, version bigint)

-- name: put_blocked
INSERT INTO tenure.blocked (queue, tenant, seq, version) @rows(queue text, tenant text, seq bigint, version bigint)

-- name: drop_blocked
DELETE FROM tenure.blocked WHERE ctid = ANY (ARRAY(
    SELECT found.ctid FROM @keys(queue text, tenant text, seq bigint, version bigint)
    CROSS JOIN LATERAL (
        SELECT b.ctid FROM tenure.blocked AS b
        WHERE b.queue = want.queue AND b.tenant = want.tenant AND b.seq = want.seq AND b.version = want.version OFFSET 0
    ) AS found
))

-- name: hold_blocked
-- Children that a parent's end concerns, one parent after the other: the second sees what the first resolved.
SELECT b.seq FROM @keys(tenant text, id text) CROSS JOIN tenure.job CROSS JOIN tenure.blocked AS b
WHERE job.tenant = want.tenant AND job.id = want.id AND b.seq = job.seq ORDER BY b.seq FOR UPDATE OF b

-- name: put_running
INSERT INTO tenure.running (seq, queue, tenant, grp, token, deadline, live, version, limited)
@rows(seq bigint, queue text, tenant text, grp text, token bytea, deadline bigint, live bytea, version bigint, limited boolean)

-- name: put_claimed
INSERT INTO tenure.claimed AS c (token, deadline, seqs) VALUES ($1, $2, $3)
ON CONFLICT (token) DO UPDATE SET deadline = least(c.deadline, excluded.deadline), seqs = c.seqs || excluded.seqs,
    xid = excluded.xid

-- name: add_claimed
-- The same of a claim whose id nobody knew: if it was sent twice the second waits for the first, and fails.
INSERT INTO tenure.claimed (token, deadline, seqs) VALUES ($1, $2, $3)

-- name: take_ready
-- The rows that this claim has locked, by where they lie.
DELETE FROM tenure.ready WHERE ctid @each(ctid tid)

-- name: limit_running
-- From now on jobs of these lanes count.
UPDATE tenure.running SET limited = true WHERE queue = $1 AND $2 IN (tenant, '*') AND NOT limited

-- name: save_running
UPDATE tenure.running SET deadline = want.deadline, live = want.live, version = want.version
FROM @keys(seq bigint, before bigint, deadline bigint, live bytea, version bigint)
WHERE running.ctid = (
    SELECT r.ctid FROM tenure.running AS r WHERE r.seq = want.seq AND r.version = want.before OFFSET 0
)

-- name: drop_running
DELETE FROM tenure.running WHERE ctid = ANY (ARRAY(
    SELECT found.ctid FROM @keys(seq bigint, version bigint)
    CROSS JOIN LATERAL (
        SELECT r.ctid FROM tenure.running AS r WHERE r.seq = want.seq AND r.version = want.version OFFSET 0
    ) AS found
))

-- name: end_running
-- Jobs as they were read, all of them or none: the versions are those of the numbers, in their order.
WITH changed AS (DELETE FROM tenure.running WHERE seq = ANY ($1::bigint[]) RETURNING seq, version)
SELECT 1 / (coalesce(array_agg(version ORDER BY seq), '{}') = $2::bigint[])::int FROM changed

-- name: put_ended
INSERT INTO tenure.ended (day, state) @rows(day bigint, state text) ON CONFLICT DO NOTHING

-- name: put_finished
INSERT INTO tenure.finished (seq, day, state, live, version)
@rows(seq bigint, day bigint, state text, live bytea, version bigint)

-- name: drop_finished
DELETE FROM tenure.finished WHERE ctid = ANY (ARRAY(
    SELECT found.ctid FROM @keys(seq bigint, version bigint)
    CROSS JOIN LATERAL (
        SELECT f.ctid FROM tenure.finished AS f WHERE f.seq = want.seq AND f.version = want.version OFFSET 0
    ) AS found
))

-- name: bind
-- A key that nobody held. If somebody takes it meanwhile this waits for them, and fails.
INSERT INTO tenure.binding (tenant, queue, job_type, key, job_id, fingerprint, uniqueness, expires_at)
@rows(tenant text, queue text, job_type text, key text, job_id text, fingerprint bytea, uniqueness text, expires_at bigint)

-- name: rebind
-- A key that `holder` held.
UPDATE tenure.binding AS b SET job_id = want.job_id, fingerprint = want.fingerprint, uniqueness = want.uniqueness,
    expires_at = want.expires_at
FROM @keys(tenant text, queue text, job_type text, key text, job_id text, fingerprint bytea, uniqueness text, expires_at bigint, holder text)
WHERE b.tenant = want.tenant AND b.queue = want.queue AND b.job_type = want.job_type AND b.key = want.key
  AND b.job_id = want.holder

-- name: unbind
DELETE FROM tenure.binding AS b USING @keys(tenant text, queue text, job_type text, key text, holder text)
WHERE b.tenant = want.tenant AND b.queue = want.queue AND b.job_type = want.job_type AND b.key = want.key
  AND b.job_id = want.holder

-- name: add_document
INSERT INTO tenure.document (tenant, kind, name, body, version, expires_at)
@rows(tenant text, kind text, name text, body bytea, version bigint, expires_at bigint)

-- name: save_document
UPDATE tenure.document AS d SET body = want.body, version = want.version, expires_at = want.expires_at
FROM @keys(tenant text, kind text, name text, body bytea, version bigint, expires_at bigint, before bigint)
WHERE d.tenant = want.tenant AND d.kind = want.kind AND d.name = want.name AND d.version = want.before

-- name: remove_document
DELETE FROM tenure.document AS d USING @keys(tenant text, kind text, name text, before bigint)
WHERE d.tenant = want.tenant AND d.kind = want.kind AND d.name = want.name AND d.version = want.before

-- name: no_children
-- Fails if a job waits for one of these.
SELECT 1 / (count(*) = 0)::int
FROM @keys(tenant text, parent text) CROSS JOIN LATERAL (
    SELECT 1 FROM tenure.edge AS e WHERE e.tenant = want.tenant AND e.parent = want.parent LIMIT 1
) AS child

-- name: no_flows
-- Fails if any job waits for another.
SELECT 1 / (NOT EXISTS (SELECT 1 FROM tenure.edge))::int

-- name: add_events
INSERT INTO tenure.inbox (tenant, at, body) @rows(tenant text, at bigint, body bytea)

-- name: put_meta
WITH changed AS (
    UPDATE tenure.meta SET epoch = $1, frozen = $2, loading = $3, last_turn = $4, hold_until = $5, feed_floor = $6,
        config = config + $7, version = version + 1
    WHERE version = $8 RETURNING 1
)
SELECT 1 / (count(*) = 1)::int FROM changed

-- name: set_arrival
SELECT setval('tenure.arrival', greatest($1, (SELECT last_value FROM tenure.arrival)))

-- name: set_cascading
SELECT setval('tenure.cascading', greatest($1, (SELECT last_value FROM tenure.cascading)))

-- name: restore_job
-- In place if it is there: what lies beside a job goes with its row. The payload comes with an item of its own.
INSERT INTO tenure.job (seq, tenant, id, queue, job_type, enqueued_at, spec, state, priority, run_at, live, payload)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, '')
ON CONFLICT (seq) DO UPDATE SET tenant = excluded.tenant, id = excluded.id, queue = excluded.queue,
    job_type = excluded.job_type, enqueued_at = excluded.enqueued_at, spec = excluded.spec, state = excluded.state,
    priority = excluded.priority, run_at = excluded.run_at, live = excluded.live

-- name: dump_body
SELECT tenant, id, payload FROM tenure.job WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT $3
