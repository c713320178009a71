-- Purging, and the parents that may have ended unseen.

-- name: ended_jobs
-- The ended jobs of one day and state, with the rows that may still need their records. The list comes first, by day: with
-- "ORDER BY seq" the index of seq would be read through all other days.
WITH page AS MATERIALIZED (
    SELECT f.seq FROM tenure.finished AS f WHERE f.day = $1 AND f.state = $2 AND f.seq > $3 ORDER BY f.seq + 0 LIMIT $4
)
SELECT j.seq, j.tenant, j.id, b.queue, b.job_type, b.key, b.job_id, b.fingerprint, b.uniqueness, b.expires_at,
       d.disposition,
       EXISTS (SELECT 1 FROM tenure.edge AS e WHERE e.tenant = j.tenant AND e.parent = j.id),
       EXISTS (SELECT 1 FROM tenure.slot AS s WHERE s.tenant = j.tenant AND s.job_id = j.id)
FROM page JOIN tenure.job AS j ON j.seq = page.seq
    LEFT JOIN tenure.binding AS b ON b.tenant = j.tenant AND b.job_id = j.id
    LEFT JOIN tenure.dead_letter AS d ON d.tenant = j.tenant AND d.job_id = j.id
ORDER BY j.seq

-- name: purge
-- Ended jobs, by arrival number, with all that is theirs; how many there were.
WITH purging AS MATERIALIZED (
    SELECT j.seq, j.tenant, j.id FROM tenure.job AS j WHERE j.seq = ANY ($1)
), results AS (
    DELETE FROM tenure.result AS r USING purging WHERE r.seq = purging.seq
), letters AS (
    DELETE FROM tenure.dead_letter AS d USING purging WHERE d.tenant = purging.tenant AND d.job_id = purging.id
), bindings AS (
    DELETE FROM tenure.binding AS b USING purging WHERE b.tenant = purging.tenant AND b.job_id = purging.id
), labels AS (
    DELETE FROM tenure.label AS l USING purging WHERE l.seq = purging.seq
), ended AS (
    DELETE FROM tenure.finished AS f USING purging WHERE f.seq = purging.seq
), jobs AS (
    DELETE FROM tenure.job AS j USING purging WHERE j.seq = purging.seq RETURNING 1
)
SELECT count(*) FROM jobs

-- name: recheck
INSERT INTO tenure.recheck (tenant, id) @rows(tenant text, id text)

-- name: rechecked
-- Parents that nobody is about to end go from the list: those that have ended must tell their children, the others will
-- see them when they end.
WITH looked AS MATERIALIZED (
    SELECT w.position, w.tenant, w.id, job.seq, finished.seq IS NOT NULL AS ended
    FROM tenure.recheck AS w
        LEFT JOIN tenure.job ON job.tenant = w.tenant AND job.id = w.id
        LEFT JOIN tenure.finished ON finished.seq = job.seq
    ORDER BY w.position LIMIT $1 FOR UPDATE OF w SKIP LOCKED
), free AS MATERIALIZED (
    SELECT r.seq FROM tenure.running AS r WHERE r.seq = ANY (ARRAY(SELECT seq FROM looked)) FOR UPDATE SKIP LOCKED
), waiting AS MATERIALIZED (
    SELECT r.seq FROM tenure.ready AS r CROSS JOIN (
        SELECT job.* FROM looked JOIN tenure.job ON job.seq = looked.seq WHERE NOT looked.ended
    ) AS j
    WHERE r.seq = j.seq AND r.queue = j.queue AND r.tenant = j.tenant FOR UPDATE OF r SKIP LOCKED
), sleeping AS MATERIALIZED (
    SELECT s.seq FROM tenure.scheduled AS s CROSS JOIN (
        SELECT job.* FROM looked JOIN tenure.job ON job.seq = looked.seq WHERE NOT looked.ended
    ) AS j
    WHERE s.seq = j.seq AND s.queue = j.queue AND s.run_at = j.run_at FOR UPDATE OF s SKIP LOCKED
), standing AS MATERIALIZED (
    SELECT b.seq FROM tenure.blocked AS b WHERE b.seq = ANY (ARRAY(SELECT seq FROM looked)) FOR UPDATE SKIP LOCKED
), done AS (
    DELETE FROM tenure.recheck WHERE position = ANY (ARRAY(
        SELECT position FROM looked
        WHERE seq IS NULL OR ended OR seq IN (
            SELECT seq FROM free UNION SELECT seq FROM waiting UNION SELECT seq FROM sleeping UNION SELECT seq FROM standing
        )
    ))
)
INSERT INTO tenure.cascade (position, tenant, id)
SELECT nextval('tenure.cascading'), tenant, id FROM (SELECT DISTINCT tenant, id FROM looked WHERE ended) AS told
WHERE EXISTS (SELECT 1 FROM tenure.edge AS e WHERE e.tenant = told.tenant AND e.parent = told.id AND e.resolved = 0)
  AND NOT EXISTS (SELECT 1 FROM tenure.cascade AS w WHERE w.tenant = told.tenant AND w.id = told.id)

-- name: sequence
-- Visible chunks get their places in the feed, at most $1 of them. `inbox` is read from its frontier on ($2 snapshot,
-- $3 own transaction, $4 mark, $5 server): answers how many were moved, and the next frontier.
WITH @moment($2, $3), start AS MATERIALIZED (
    SELECT CASE WHEN $5 = pg_postmaster_start_time()::text
                THEN least($4, (SELECT min(seq) FROM @news(tenure.inbox: seq) AS new)) ELSE 0 END AS seq
), moved AS (
    DELETE FROM tenure.inbox WHERE seq = ANY (ARRAY(
        SELECT i.seq FROM tenure.inbox AS i WHERE i.seq >= (SELECT seq FROM start) ORDER BY i.seq LIMIT $1
    ))
    RETURNING seq, tenant, at, body
), last AS (
    SELECT greatest(feed_floor, coalesce((SELECT max(position) FROM tenure.feed), 0)) AS head FROM tenure.meta
), placed AS (
    INSERT INTO tenure.feed (position, tenant, at, body)
    SELECT last.head + row_number() OVER (ORDER BY moved.seq), moved.tenant, moved.at, moved.body
    FROM moved CROSS JOIN last
), counted AS (
    SELECT count(*) AS moved, max(seq) AS last FROM moved
)
SELECT counted.moved, CASE WHEN counted.moved < $1 THEN 9223372036854775807 ELSE counted.last + 1 END, moment.now::text,
       pg_current_xact_id_if_assigned()::text, pg_postmaster_start_time()::text
FROM counted CROSS JOIN moment

-- name: first_claimed
-- From where on `claimed` has rows, by its frontier ($1 snapshot, $2 own transaction, $3 mark, $4 server); the next one.
WITH @moment($1, $2), start AS MATERIALIZED (
    SELECT CASE WHEN $4 = pg_postmaster_start_time()::text
                THEN least($3, (SELECT min(deadline) FROM @news(tenure.claimed: deadline) AS new)) ELSE 0 END AS deadline
)
SELECT coalesce(
           (SELECT c.deadline FROM tenure.claimed AS c WHERE c.deadline >= (SELECT deadline FROM start)
            ORDER BY c.deadline LIMIT 1),
           9223372036854775807
       ),
       moment.now::text, pg_current_xact_id_if_assigned()::text, pg_postmaster_start_time()::text
FROM moment

-- name: may_sequence
SELECT has_table_privilege('tenure.feed', 'INSERT')

-- name: lost
-- $3: there is no claim before.
SELECT job.seq, job.spec, 'running', job.priority, job.run_at, r.live
FROM tenure.claimed AS c CROSS JOIN LATERAL (SELECT DISTINCT unnest(c.seqs) AS seq) AS held
    CROSS JOIN LATERAL (
        SELECT * FROM tenure.running WHERE running.seq = held.seq AND token = c.token AND deadline < $1 OFFSET 0
    ) AS r
    CROSS JOIN LATERAL (SELECT * FROM tenure.job WHERE job.seq = held.seq OFFSET 0) AS job
WHERE c.deadline < $1 AND c.deadline >= $3
ORDER BY r.deadline, job.tenant, job.id LIMIT $2

-- name: clean_claims
-- Claims of which nothing runs any more go; those whose jobs were renewed are looked at again when the next is due. $3 as
-- above.
WITH due AS MATERIALIZED (
    SELECT token, seqs FROM tenure.claimed WHERE deadline < $1 AND deadline >= $3
    ORDER BY deadline LIMIT $2 FOR UPDATE SKIP LOCKED
), still AS MATERIALIZED (
    SELECT due.token, min(r.deadline) AS deadline
    FROM due CROSS JOIN LATERAL unnest(due.seqs) AS held (seq) CROSS JOIN LATERAL (
        SELECT * FROM tenure.running WHERE running.seq = held.seq AND token = due.token OFFSET 0
    ) AS r
    GROUP BY due.token
), gone AS (
    DELETE FROM tenure.claimed AS c
    WHERE c.token = ANY (ARRAY(SELECT token FROM due EXCEPT SELECT token FROM still))
)
UPDATE tenure.claimed AS c SET deadline = (SELECT still.deadline FROM still WHERE still.token = c.token), xid = DEFAULT
WHERE c.token = ANY (ARRAY(SELECT token FROM still))

-- name: ended
SELECT day, state FROM tenure.ended ORDER BY day, state

-- name: forget_ended
DELETE FROM tenure.ended AS e WHERE e.day = $1 AND e.state = $2
  AND NOT EXISTS (SELECT 1 FROM tenure.finished AS f WHERE f.day = e.day AND f.state = e.state)

-- name: scan_freely
-- A purge reads and deletes much: by day, with joins that suit, and for as long as it takes. 50,000 jobs took 2.2 s; with
-- the limit that other statements have, a day of more than a million would never go.
SELECT set_config('enable_bitmapscan', 'on', true), set_config('enable_hashjoin', 'on', true),
       set_config('statement_timeout', '0', true)
