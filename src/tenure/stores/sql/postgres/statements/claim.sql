-- The scans of a claim in PostgreSQL's own way.

-- name: claim_look
-- Before a claim: whether its id is known, whether jobs became due, who has jobs, how many names the longest answer has
-- (as many as were asked for: there may be more), and up to whom all after the cursor are named, unless there are no more.
-- First and last, what this transaction has read of the indexes: the difference is what the look took, dead rows too. $5:
-- the time; that of the transaction if it isn't known yet.
WITH ring AS MATERIALIZED (
    SELECT found.tenant, asked.queue, start.after, count(*) OVER (PARTITION BY asked.queue, start.after) AS names
    FROM unnest($2::text[]) AS asked (queue) CROSS JOIN (SELECT $3::text UNION SELECT '') AS start (after)
    CROSS JOIN LATERAL (
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
SELECT @walked(tenure.ready_pkey, tenure.scheduled_pkey),
       EXISTS (SELECT 1 FROM tenure.claimed WHERE token = $1),
       EXISTS (
           SELECT 1 FROM unnest($2::text[]) AS asked (queue) CROSS JOIN LATERAL (
               SELECT 1 FROM tenure.scheduled AS s WHERE s.queue = asked.queue AND s.run_at <= @now($5)
               ORDER BY run_at LIMIT 1
           ) AS due
       ),
       (SELECT coalesce(array_agg(DISTINCT tenant), '{}') FROM ring), (SELECT coalesce(max(names), 0) FROM ring),
       (SELECT min(last) FROM (
           SELECT max(tenant) AS last FROM ring WHERE after = $3 AND names >= $4 GROUP BY queue
       ) AS cut),
       @walked(tenure.ready_pkey, tenure.scheduled_pkey)

-- name: claim_discover
-- The first row of every lane and priority of some queues, that of `scheduled`, and the moment in which they are the first.
-- This walks every dead row that lies before them. Of a tenant's keyed queue one row will do.
SELECT 'lane' AS kind, asked.queue, first.tenant, CASE WHEN first.grp = '' THEN first.prio_neg ELSE -1000 END AS prio_neg,
       first.run_at, first.seq
FROM unnest($1::text[]) AS asked (queue) CROSS JOIN LATERAL (
    WITH RECURSIVE first AS (
        (SELECT tenant, grp, prio_neg, run_at, seq FROM tenure.ready WHERE queue = asked.queue
         ORDER BY tenant, grp, prio_neg, run_at, seq LIMIT 1)
        UNION ALL
        SELECT found.* FROM first CROSS JOIN LATERAL (
            (SELECT r.tenant, r.grp, r.prio_neg, r.run_at, r.seq FROM tenure.ready AS r
             WHERE first.grp = '' AND r.queue = asked.queue AND (r.tenant, r.grp, r.prio_neg) > (first.tenant, '', first.prio_neg)
             ORDER BY r.tenant, r.grp, r.prio_neg, r.run_at, r.seq LIMIT 1)
            UNION ALL
            (SELECT r.tenant, r.grp, r.prio_neg, r.run_at, r.seq FROM tenure.ready AS r
             WHERE first.grp <> '' AND r.queue = asked.queue AND r.tenant > first.tenant
             ORDER BY r.tenant, r.grp, r.prio_neg, r.run_at, r.seq LIMIT 1)
        ) AS found
    )
    SELECT * FROM first LIMIT $2
) AS first
UNION ALL
SELECT 'due', asked.queue, NULL, NULL, due.run_at, due.seq
FROM unnest($1::text[]) AS asked (queue) LEFT JOIN LATERAL (
    SELECT s.run_at, s.seq FROM tenure.scheduled AS s WHERE s.queue = asked.queue ORDER BY s.run_at, s.seq LIMIT 1
) AS due ON true
UNION ALL
SELECT pg_postmaster_start_time()::text, pg_current_snapshot()::text, pg_current_xact_id_if_assigned()::text, NULL, NULL,
       NULL

-- name: claim_from
-- The look of a claim that keeps a frontier, and the beginnings of plain lines from there on. In this order: due jobs of
-- the lanes that were given, and of some that got their first rows since; which these are; the first visible row, taken or
-- not, where the mark was said to be old; every place that got rows, and from where on; the first of `scheduled`; the
-- moment.
--
-- $1 token, $2 snapshot and $3 own transaction of the frontier, $4 its queues, with $5, $6 the marks of `scheduled`,
-- $7 now, $8–$14 places, their marks, how much to read of their lane, and whether the mark is old, $15 cursor, $16 the
-- queues asked for, $17 how many of their other lanes to read, $18 how much of all of these
WITH @moment($2, $3), given AS MATERIALIZED (
    SELECT * FROM unnest(
        $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::boolean[]
    ) AS given (queue, tenant, prio_neg, run_at, seq, most, old)
), places AS MATERIALIZED (
    SELECT queue, tenant, prio_neg, max(most) AS most, min(place) AS place,
           min(place) FILTER (WHERE most IS NULL) AS new
    FROM (
        SELECT queue, tenant, prio_neg, ARRAY[run_at, seq] AS place, most FROM given
        UNION ALL
        SELECT queue, tenant, CASE WHEN grp = '' THEN prio_neg ELSE -1000 END, ARRAY[run_at, seq], NULL
        FROM @news(tenure.ready: queue, tenant, grp, prio_neg, run_at, seq) AS new WHERE queue = ANY ($4::text[])
    ) AS either GROUP BY queue, tenant, prio_neg
), lanes AS MATERIALIZED (
    SELECT queue, tenant, max(most) AS most, array_agg(prio_neg) AS prio_negs, array_agg(place[1]) AS run_ats,
           array_agg(place[2]) AS seqs
    FROM places GROUP BY queue, tenant
), others AS MATERIALIZED (
    SELECT queue, tenant, greatest(1, $18 / count(*) OVER ()) AS most, prio_negs, run_ats, seqs FROM lanes
    WHERE most IS NULL AND queue = ANY ($16::text[]) ORDER BY tenant <= $15, tenant LIMIT $17
), next AS MATERIALIZED (
    SELECT found.* FROM (SELECT * FROM lanes WHERE most > 0 UNION ALL SELECT * FROM others) AS want
    CROSS JOIN LATERAL (
        SELECT line.* FROM (
            SELECT unnest(want.prio_negs) AS prio_neg, unnest(want.run_ats) AS run_at, unnest(want.seqs) AS seq ORDER BY 1
        ) AS mark CROSS JOIN LATERAL (
            SELECT r.ctid, r.queue, r.tenant, r.seq FROM tenure.ready AS r
            WHERE r.queue = want.queue AND r.tenant = want.tenant AND r.grp = '' AND r.prio_neg = mark.prio_neg
              AND (r.run_at, r.seq) >= (mark.run_at, mark.seq)
              AND r.run_at <= $7 AND (r.expires_at IS NULL OR r.expires_at > $7)
            ORDER BY r.run_at, r.seq LIMIT want.most FOR UPDATE SKIP LOCKED
        ) AS line LIMIT want.most
    ) AS found
), coming AS MATERIALIZED (
    SELECT queue, min(place) AS place FROM (
        SELECT queue, ARRAY[run_at, seq] AS place
        FROM @news(tenure.scheduled: queue, run_at, seq) AS new WHERE queue = ANY ($4::text[])
        UNION ALL
        SELECT queue, ARRAY[run_at, seq] FROM unnest($4::text[], $5::bigint[], $6::bigint[]) AS given (queue, run_at, seq)
    ) AS either GROUP BY queue
)
SELECT job.seq, job.spec, job.state, job.priority, job.run_at, job.live, job.payload, next.ctid, next.tenant, next.queue,
       'job' AS kind
FROM next CROSS JOIN LATERAL (SELECT * FROM tenure.job WHERE job.seq = next.seq OFFSET 0) AS job
UNION ALL
SELECT most, NULL, NULL, NULL, NULL, NULL, NULL, NULL, tenant, queue, 'read' FROM others
UNION ALL
SELECT first.seq, NULL, NULL, given.prio_neg, first.run_at, NULL, NULL, NULL, given.tenant, given.queue, 'first'
FROM given LEFT JOIN LATERAL (
    (
        SELECT r.run_at, r.seq FROM tenure.ready AS r
        WHERE r.queue = given.queue AND r.tenant = given.tenant AND r.grp = '' AND r.prio_neg = given.prio_neg
          AND (r.run_at, r.seq) >= (given.run_at, given.seq)
        ORDER BY r.run_at, r.seq LIMIT 1
    ) UNION ALL (
        SELECT 0, 0 FROM tenure.ready AS r WHERE given.prio_neg = -1000 AND r.queue = given.queue AND r.tenant = given.tenant
        ORDER BY r.queue, r.tenant LIMIT 1
    )
) AS first ON true
WHERE given.old
UNION ALL
SELECT new[2], NULL, NULL, prio_neg, new[1], NULL, NULL, NULL, tenant, queue, 'new' FROM places WHERE new IS NOT NULL
UNION ALL
SELECT due.seq, NULL, NULL, NULL, due.run_at, NULL, NULL, NULL, NULL, coming.queue, 'due'
FROM coming LEFT JOIN LATERAL (
    SELECT s.run_at, s.seq FROM tenure.scheduled AS s
    WHERE s.queue = coming.queue AND (s.run_at, s.seq) >= (coming.place[1], coming.place[2])
    ORDER BY s.run_at, s.seq LIMIT 1
) AS due ON true
UNION ALL
SELECT (SELECT count(*) FROM tenure.claimed WHERE token = $1), NULL, now::text, NULL, NULL, NULL, NULL, NULL,
       pg_current_xact_id_if_assigned()::text, pg_postmaster_start_time()::text, 'moment'
FROM moment

-- name: lease_at_once
-- Jobs that this claim has locked, under their lease, in one statement. $6 to $11 are of the few kinds of jobs, $5 says
-- which of them each is; nothing if there is one only.
WITH changed AS (
    DELETE FROM tenure.ready WHERE ctid = ANY ($1::tid[]) RETURNING 1
), sure AS MATERIALIZED (
    SELECT 1 / (count(*) = $2)::int AS sure FROM changed
), leased AS (
    INSERT INTO tenure.running (seq, queue, tenant, grp, token, deadline, live, version, limited)
    SELECT given.seq, ($6::text[])[given.kind], ($7::text[])[given.kind], '', $3, ($8::bigint[])[given.kind],
           ($9::bytea[])[given.kind], ($10::bigint[])[given.kind], ($11::boolean[])[given.kind]
    FROM sure CROSS JOIN LATERAL (
        SELECT seq, coalesce(kind, 1) AS kind FROM unnest($4::bigint[], $5::bigint[]) AS all_of (seq, kind)
    ) AS given
), held AS (
    INSERT INTO tenure.claimed (token, deadline, seqs) VALUES ($3, $12, $4)
), told AS (
    INSERT INTO tenure.inbox (tenant, at, body)
    SELECT made.tenant, $15, made.body FROM unnest($13::text[], $14::bytea[]) AS made (tenant, body)
)
SELECT sure FROM sure

-- name: claim_few
-- A claim from the only lane there is, whole: it looks, takes and tells, if what it finds are few plain jobs. Every row says
-- the time, the epoch, when the next job is due, how many there were to take, a job that was taken, and what was read of the
-- indexes before and afterwards. No row, or none of so many: nothing was done, and the claim must go the usual way. From
-- hint to handler it took 1.2 ms, where six statements in two round trips took 1.9.
--
-- $1 configuration, $2 the time or none, $3 token, $4 queue, $5 tenant, $6 jobs at most, $7 how many are few, $8 how the
-- spec of a plain one ends, $9 a time up to which jobs may have been moved to `ready`, $10 ttl, $11 grace, $12 what the
-- jobs have in common once they run, with room for two times the time and for the lease's end at $13 to $15, $16 their
-- version, $17 an event's line around the time, the id, the type, the lease's end and how long the job waited
WITH locked AS (SELECT FROM tenure.meta FOR KEY SHARE), claiming AS (SELECT FROM tenure.identity FOR KEY SHARE),
store AS MATERIALIZED (
    SELECT own.now, own.epoch, coming.run_at AS upcoming, walked.before
    FROM (SELECT @walked(tenure.ready_pkey, tenure.scheduled_pkey) AS before OFFSET 0) AS walked
    CROSS JOIN LATERAL (
        SELECT epoch, @now($2) AS now FROM tenure.meta
        WHERE NOT frozen AND config = $1 AND walked.before IS NOT NULL OFFSET 0
    ) AS own
    LEFT JOIN LATERAL (
        SELECT s.run_at, s.tenant FROM tenure.scheduled AS s WHERE s.queue = $4 AND own.now IS NOT NULL
        ORDER BY s.run_at, s.seq LIMIT 1
    ) AS coming ON true
    CROSS JOIN LATERAL (
        SELECT (SELECT tenant FROM tenure.ready WHERE queue = $4 AND tenant < $5 ORDER BY tenant LIMIT 1) AS before,
               (SELECT tenant FROM tenure.ready WHERE queue = $4 AND tenant > $5 ORDER BY tenant LIMIT 1) AS after
        WHERE own.now IS NOT NULL OFFSET 0
    ) AS other
    WHERE own.now >= $9 AND (coming.run_at IS NULL OR (coming.tenant = $5 AND coming.run_at > own.now))
      AND other.before IS NULL AND other.after IS NULL
      AND NOT EXISTS (SELECT 1 FROM tenure.claimed WHERE token = $3)
), next AS MATERIALIZED (
    SELECT found.*, store.now FROM store CROSS JOIN LATERAL (
        SELECT r.ctid, r.prio_neg, r.run_at, r.seq, r.expires_at FROM tenure.ready AS r
        WHERE r.queue = $4 AND r.tenant = $5 AND r.grp = '' AND r.run_at <= store.now
          AND (r.expires_at IS NULL OR r.expires_at > store.now)
        ORDER BY r.prio_neg, r.run_at, r.seq LIMIT $6 FOR UPDATE SKIP LOCKED
    ) AS found
), jobs AS MATERIALIZED (
    SELECT next.*, job.id, job.job_type, job.spec, job.payload,
           coalesce(
               next.expires_at IS NULL AND job.live IS NULL AND job.enqueued_at <= next.now
               AND substr(job.spec, length(job.spec) - length($8::bytea) + 1) = $8, false
           ) AS plain
    FROM next LEFT JOIN LATERAL (SELECT * FROM tenure.job WHERE job.seq = next.seq OFFSET 0) AS job ON true
), fit AS MATERIALIZED (
    SELECT array_agg(ctid) AS lie, count(*) AS count FROM jobs HAVING count(*) BETWEEN 1 AND $7 AND bool_and(plain)
), changed AS (
    DELETE FROM tenure.ready WHERE ctid = ANY ((SELECT lie FROM fit)::tid[]) RETURNING 1
), sure AS MATERIALIZED (
    SELECT 1 / ((SELECT count(*) FROM changed) = fit.count)::int AS sure FROM fit
), taken AS MATERIALIZED (
    SELECT jobs.* FROM sure CROSS JOIN jobs WHERE sure.sure = 1
), leased AS (
    INSERT INTO tenure.running (seq, queue, tenant, grp, token, deadline, live, version, limited)
    SELECT seq, $4, $5, '', $3, now + $10::bigint + $11::bigint,
           overlay(overlay(overlay($12::bytea PLACING int8send(now) FROM $13::int) PLACING int8send(now) FROM $14::int)
                   PLACING int8send(now + $10) FROM $15::int), $16, false
    FROM taken
), held AS (
    INSERT INTO tenure.claimed (token, deadline, seqs)
    SELECT $3, min(now) + $10 + $11, array_agg(seq ORDER BY prio_neg, run_at, seq) FROM taken HAVING count(*) > 0
), told AS (
    INSERT INTO tenure.inbox (tenant, at, body)
    SELECT $5, min(now), convert_to(string_agg(
        ($17::text[])[1] || now || ($17::text[])[2] || id || ($17::text[])[3] || job_type || ($17::text[])[4]
        || (now + $10) || ($17::text[])[5] || (now - run_at) || ($17::text[])[6] || E'\n', '' ORDER BY prio_neg, run_at, seq
    ), 'UTF8') FROM taken HAVING count(*) > 0
)
SELECT store.now, store.epoch, store.upcoming, (SELECT count(*) FROM next), taken.seq, taken.spec, -taken.prio_neg,
       taken.run_at, taken.payload, store.before, @walked(tenure.ready_pkey, tenure.scheduled_pkey)
FROM store LEFT JOIN taken ON true ORDER BY taken.prio_neg, taken.run_at, taken.seq

-- name: promote
-- Jobs of one queue that became due move from `scheduled` to `ready`, at most a bounded number at once. ($4, $5): there is
-- none before.
WITH due AS MATERIALIZED (
    SELECT ctid FROM tenure.scheduled
    WHERE queue = $1 AND run_at <= $2 AND (run_at, seq) >= ($4, $5) ORDER BY run_at, seq LIMIT $3 FOR UPDATE SKIP LOCKED
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
-- those that another claim is about to take. MATERIALIZED: a nested loop over SKIP LOCKED takes more than its limit. A row
-- of no record is found too: it must not pass for the end of its line (quarantine.py).
WITH next AS MATERIALIZED (
    SELECT ctid, prio_neg, run_at, seq FROM tenure.ready
    WHERE queue = $1 AND tenant = $2 AND grp = $3 AND (prio_neg, run_at, seq) > ($4, $5, $6)
      AND run_at <= $7 AND (expires_at IS NULL OR expires_at > $7)
    ORDER BY prio_neg, run_at, seq LIMIT $8 FOR UPDATE SKIP LOCKED
)
SELECT next.seq, job.spec, job.state, job.priority, job.run_at, job.live, job.payload, next.ctid
FROM next LEFT JOIN LATERAL (SELECT * FROM tenure.job WHERE job.seq = next.seq OFFSET 0) AS job ON true
ORDER BY next.prio_neg, next.run_at, next.seq

-- name: lines
-- The beginnings of several plain lines at once, in no order: to sort 500 rows here took longer than to read them. $4: the
-- time; that of the transaction if it isn't known yet.
WITH next AS MATERIALIZED (
    SELECT found.* FROM @keys(queue text, tenant text, most bigint) CROSS JOIN LATERAL (
        SELECT r.ctid, r.queue, r.tenant, r.prio_neg, r.run_at, r.seq FROM tenure.ready AS r
        WHERE r.queue = want.queue AND r.tenant = want.tenant AND r.grp = '' AND r.run_at <= @now($4)
          AND (r.expires_at IS NULL OR r.expires_at > @now($4))
        ORDER BY r.prio_neg, r.run_at, r.seq LIMIT want.most FOR UPDATE SKIP LOCKED
    ) AS found
)
SELECT next.seq, job.spec, job.state, -next.prio_neg, next.run_at, job.live, job.payload, next.ctid, next.tenant, next.queue
FROM next LEFT JOIN LATERAL (SELECT * FROM tenure.job WHERE job.seq = next.seq OFFSET 0) AS job ON true

-- name: group_starts
-- Several groups of a keyed lane that a claim wants to itself, and the first job of each that it has ($7: one, or none).
-- Of each: how many ran when this was asked; whether it is this claim's, nothing if it is as full as was said; the job, as
-- by `line`. Four statements for each group gave 814 jobs a second where this gives 5,100 (1,000 groups of limit 1, 8
-- workers).
WITH tried AS MATERIALIZED (
    SELECT want.grp, held.count,
           CASE WHEN held.count >= want.most THEN NULL
                ELSE coalesce(pg_try_advisory_xact_lock(want.number), true) END AS mine
    FROM @keys(grp text, number bigint, most bigint) CROSS JOIN LATERAL (
        SELECT (SELECT count(*) FROM tenure.running WHERE queue = $4 AND tenant = $5 AND grp = want.grp AND grp <> '')
             + (SELECT count(*) FROM tenure.slot WHERE queue = $4 AND tenant = $5 AND grp = want.grp) AS count
        OFFSET 0
    ) AS held
), next AS MATERIALIZED (
    SELECT tried.*, found.* FROM tried LEFT JOIN LATERAL (
        SELECT r.ctid, r.seq FROM tenure.ready AS r
        WHERE tried.mine AND r.queue = $4 AND r.tenant = $5 AND r.grp = tried.grp
          AND r.run_at <= $6 AND (r.expires_at IS NULL OR r.expires_at > $6)
        ORDER BY r.prio_neg, r.run_at, r.seq LIMIT $7 FOR UPDATE SKIP LOCKED
    ) AS found ON true
)
SELECT next.grp, next.count, next.mine, next.seq, job.spec, job.state, job.priority, job.run_at, job.live, job.payload,
       next.ctid
FROM next LEFT JOIN LATERAL (SELECT * FROM tenure.job WHERE job.seq = next.seq OFFSET 0) AS job ON true

-- name: group_counts
-- Holders of several groups. Of those that a claim has locked they are known only now: the statement that locks them sees
-- what was so before.
SELECT want.grp,
       (SELECT count(*) FROM tenure.running WHERE queue = $2 AND tenant = $3 AND grp = want.grp AND grp <> '')
     + (SELECT count(*) FROM tenure.slot WHERE queue = $2 AND tenant = $3 AND grp = want.grp)
FROM @keys(grp text)

-- name: upcoming
-- Future jobs of a queue by time.
SELECT run_at, tenant FROM tenure.scheduled WHERE queue = $1 AND run_at > @now($2) ORDER BY run_at, seq LIMIT $3 OFFSET $4

-- name: early
-- Jobs that seemed due before the clock went back.
SELECT run_at, tenant FROM tenure.ready WHERE queue = $1 AND run_at > $2

-- name: running_under
SELECT job.tenant, job.id
FROM tenure.claimed AS c CROSS JOIN LATERAL (SELECT DISTINCT unnest(c.seqs) AS seq) AS held
    JOIN tenure.running AS r ON r.seq = held.seq AND r.token = c.token
    JOIN tenure.job ON job.seq = held.seq
WHERE c.token = $1 ORDER BY job.tenant, job.id
