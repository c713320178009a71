-- New jobs that need nothing but room, in one statement: time, arrival numbers, records, places, keys, labels, events.
-- Nothing if the store is frozen, or configured otherwise than the caller believes. A known id or a taken key fails.
--
-- What stands between `/* name */` and `/* end */` is left out where no job needs it: each part costs 30 µs to begin.
--
-- A spec says when its job arrived and as which; both are known here only, and put where the caller left room for them.
--
-- Each holds what a change of the queue's mode asks about, and does nothing if there is one that the caller doesn't know of
-- (modes.py). In a transaction of their own, before them, the locks would have cost a statement.
--
-- A key that an open transaction holds makes the statement wait, for 20 ms: then it fails, and its caller looks again
-- without keeping the connection (`soon`).
--
-- `locked` is `meta_to_write`'s lock on the table. Nobody reads it, so it is never run, but all that a statement names is
-- locked before. As a join it took 9 µs.

-- name: arrive_alike
-- Jobs that differ in id, payload and key alone: what they share comes once, and their events as one text with marks
-- for the times.
WITH locked AS (SELECT FROM tenure.meta FOR KEY SHARE), store AS MATERIALIZED (
    SELECT clock.now, greatest($9, clock.now + $10) AS due, clock.now + $11 AS expires_at
    FROM (
        SELECT coalesce($2::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
        FROM tenure.meta WHERE NOT meta.frozen /* bound */ AND set_config('lock_timeout', '20ms', true) <> '' /* end */ AND meta.config = $1
        AND CASE WHEN pg_try_advisory_xact_lock_shared($23::bigint) AND pg_try_advisory_xact_lock_shared($24::bigint)
                 THEN coalesce(pg_sequence_last_value('tenure.moded'::regclass), 0) <= $1 ELSE false END
    ) AS clock
), jobs AS (
    INSERT INTO tenure.job (seq, tenant, id, queue, job_type, enqueued_at, spec, state, priority, run_at, live, payload)
    SELECT made.seq, $3, made.id, $4, $5, made.now,
           CASE WHEN $11 IS NULL THEN made.stamped
                ELSE overlay(made.stamped PLACING int8send(made.expires_at) FROM $14::int) END,
           'pending', $6, made.due, NULL, made.payload
    FROM (
        SELECT numbered.*, overlay(
            overlay(numbered.spec PLACING int8send(numbered.seq) FROM $12::int) PLACING int8send(numbered.now)
            FROM $13::int
        ) AS stamped
        FROM (
            SELECT nextval('tenure.arrival') AS seq, store.*, given.*
            FROM store CROSS JOIN unnest($15::text[], $16::bytea[], $17::bytea[]) AS given (id, spec, payload) OFFSET 0
        ) AS numbered
    ) AS made
    RETURNING seq, id
), ready AS (
    INSERT INTO tenure.ready (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
    SELECT $4, $3, $7, -$6, store.due, jobs.seq, store.expires_at, 1 FROM jobs CROSS JOIN store
    WHERE store.due <= store.now
/* later */ ), later AS (
    INSERT INTO tenure.scheduled (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
    SELECT $4, $3, $7, -$6, store.due, jobs.seq, store.expires_at, 1 FROM jobs CROSS JOIN store
    WHERE store.due > store.now
/* end */ /* grouped */ ), grouped AS (
    INSERT INTO tenure.in_order (queue, tenant, grp, seq, expires_at)
    SELECT $4, $3, $7, jobs.seq, store.expires_at FROM jobs CROSS JOIN store
/* end */ /* ending */ ), ending AS (
    INSERT INTO tenure.expiring (expires_at, tenant, id, seq)
    SELECT store.expires_at, $3, jobs.id, jobs.seq FROM jobs CROSS JOIN store
/* end */ /* bound */ ), bound AS (
    INSERT INTO tenure.binding (tenant, queue, job_type, key, job_id, fingerprint, uniqueness, expires_at)
    SELECT $3, $4, $5, given.key, given.id, given.fingerprint, $8, NULL
    FROM store CROSS JOIN unnest($19::text[], $15::text[], $20::bytea[]) AS given (key, id, fingerprint)
/* end */ /* labelled */ ), labelled AS (
    INSERT INTO tenure.label (tenant, name, value, seq)
    SELECT $3, given.name, given.value, jobs.seq
    FROM jobs CROSS JOIN unnest($21::text[], $22::text[]) AS given (name, value)
/* end */ ), told AS (
    INSERT INTO tenure.inbox (tenant, at, body)
    SELECT $3, now, convert_to(replace(replace($18, E'\x01', now::text), E'\x02', due::text), 'UTF8') FROM store
)
SELECT count(*) /* heard */ , (SELECT pg_notify($25, $26) FROM store) /* end */ FROM jobs

-- name: arrive_one
-- A job that waits for nothing, has neither group nor key nor labels, and doesn't expire.
WITH locked AS (SELECT FROM tenure.meta FOR KEY SHARE), store AS MATERIALIZED (
    SELECT nextval('tenure.arrival') AS seq,
           coalesce($2::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
    FROM tenure.meta WHERE NOT meta.frozen AND meta.config = $1
      AND CASE WHEN pg_try_advisory_xact_lock_shared($13::bigint) AND pg_try_advisory_xact_lock_shared($14::bigint)
               THEN coalesce(pg_sequence_last_value('tenure.moded'::regclass), 0) <= $1 ELSE false END
), made AS (
    INSERT INTO tenure.job (seq, tenant, id, queue, job_type, enqueued_at, spec, state, priority, run_at, live, payload)
    SELECT seq, $3, $4, $5, $6, now,
           overlay(overlay($7 PLACING int8send(seq) FROM $8::int) PLACING int8send(now) FROM $9::int),
           'pending', $10, now, NULL, $11
    FROM store
), ready AS (
    INSERT INTO tenure.ready (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
    SELECT $5, $3, '', -$10, now, seq, NULL, 1 FROM store
), told AS (
    INSERT INTO tenure.inbox (tenant, at, body)
    SELECT $3, now, convert_to(replace(replace($12, E'\x01', now::text), E'\x02', now::text), 'UTF8') FROM store
)
SELECT 1 /* heard */ , pg_notify($15, $16) /* end */ FROM store

-- name: arrival_numbers
-- For jobs that will be written by `arrive_numbered`: the time, and as which they arrive.
SELECT coalesce($2::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), array_agg(number)
FROM (SELECT nextval('tenure.arrival') AS number FROM generate_series(1, $1)) AS numbers

-- name: arrive_numbered
-- Many jobs that differ in id and payload alone and need nothing but room, with their time and numbers: others may be on
-- their way beside them.
WITH locked AS (SELECT FROM tenure.meta FOR KEY SHARE), store AS MATERIALIZED (
    SELECT 1 FROM tenure.meta WHERE NOT meta.frozen AND meta.config = $1
      AND CASE WHEN pg_try_advisory_xact_lock_shared($12::bigint) AND pg_try_advisory_xact_lock_shared($13::bigint)
               THEN coalesce(pg_sequence_last_value('tenure.moded'::regclass), 0) <= $1 ELSE false END
), jobs AS (
    INSERT INTO tenure.job (seq, tenant, id, queue, job_type, enqueued_at, spec, state, priority, run_at, live, payload)
    SELECT given.seq, $3, given.id, $4, $5, $2, given.spec, 'pending', $6, $2, NULL, given.payload
    FROM store CROSS JOIN unnest($7::bigint[], $8::text[], $9::bytea[], $10::bytea[]) AS given (seq, id, spec, payload)
), ready AS (
    INSERT INTO tenure.ready (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
    SELECT $4, $3, '', -$6, $2, given.seq, NULL, 1 FROM store CROSS JOIN unnest($7::bigint[]) AS given (seq)
), told AS (
    INSERT INTO tenure.inbox (tenant, at, body) SELECT $3, $2, convert_to($11, 'UTF8') FROM store
)
SELECT count(*) /* heard */ , (SELECT pg_notify($14, $15) FROM store) /* end */ FROM store

-- name: arrive_at_once
-- Jobs of any kind.
WITH locked AS (SELECT FROM tenure.meta FOR KEY SHARE), store AS MATERIALIZED (
    SELECT coalesce($19::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now
    FROM tenure.meta WHERE NOT meta.frozen /* bound */ AND set_config('lock_timeout', '20ms', true) <> '' /* end */ AND meta.config = $18
        AND CASE WHEN (SELECT bool_and(pg_try_advisory_xact_lock_shared(key)) FROM unnest($24::bigint[]) AS key)
                 THEN coalesce(pg_sequence_last_value('tenure.moded'::regclass), 0) <= $18 ELSE false END
), new AS MATERIALIZED (
    SELECT nextval('tenure.arrival') AS seq, store.now, greatest(given.run_at, store.now + given.delay) AS due,
           store.now + given.expires AS expires_at, given.*
    FROM store CROSS JOIN unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bigint[],
        $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::bytea[],
        $17::text[]
    ) WITH ORDINALITY AS given (
        tenant, id, queue, job_type, spec, seq_at, now_at, expires_at_at,
        priority, run_at, delay, expires, grp, key, uniqueness, payload,
        story, number
    )
), jobs AS (
    INSERT INTO tenure.job (seq, tenant, id, queue, job_type, enqueued_at, spec, state, priority, run_at, live, payload)
    SELECT seq, tenant, id, queue, job_type, now,
           CASE WHEN expires IS NULL THEN stamped
                ELSE overlay(stamped PLACING int8send(expires_at) FROM expires_at_at::int) END,
           'pending', priority, due, NULL, payload
    FROM new CROSS JOIN LATERAL (
        SELECT overlay(
            overlay(new.spec PLACING int8send(new.seq) FROM new.seq_at::int) PLACING int8send(new.now)
            FROM new.now_at::int
        ) AS stamped
    ) AS made
), ready AS (
    INSERT INTO tenure.ready (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
    SELECT queue, tenant, grp, -priority, due, seq, expires_at, 1 FROM new WHERE due <= now
/* later */ ), later AS (
    INSERT INTO tenure.scheduled (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
    SELECT queue, tenant, grp, -priority, due, seq, expires_at, 1 FROM new WHERE due > now
/* end */ /* grouped */ ), grouped AS (
    INSERT INTO tenure.in_order (queue, tenant, grp, seq, expires_at)
    SELECT queue, tenant, grp, seq, expires_at FROM new WHERE grp <> ''
/* end */ /* ending */ ), ending AS (
    INSERT INTO tenure.expiring (expires_at, tenant, id, seq)
    SELECT expires_at, tenant, id, seq FROM new WHERE expires IS NOT NULL
/* end */ /* bound */ ), bound AS (
    INSERT INTO tenure.binding (tenant, queue, job_type, key, job_id, fingerprint, uniqueness, expires_at)
    SELECT tenant, queue, job_type, key, id, ($20::bytea[])[number], uniqueness, NULL FROM new WHERE key IS NOT NULL
/* end */ /* labelled */ ), labelled AS (
    -- By place, not by a join: that would compare each label with each job (170 µs a job of 1,000, not 35).
    INSERT INTO tenure.label (tenant, name, value, seq)
    SELECT ($1::text[])[given.number], given.name, given.value, made.seqs[given.number]
    FROM (SELECT array_agg(seq ORDER BY number) AS seqs FROM new) AS made
        CROSS JOIN unnest($21::bigint[]::int[], $22::text[], $23::text[]) AS given (number, name, value)
    WHERE made.seqs IS NOT NULL
/* end */ ), told AS (
    INSERT INTO tenure.inbox (tenant, at, body)
    SELECT tenant, now, convert_to(string_agg(
        replace(replace(story, E'\x01', now::text), E'\x02', due::text), '' ORDER BY number
    ), 'UTF8')
    FROM new GROUP BY tenant, now ORDER BY min(number)
)
SELECT count(*) FROM new
