-- Point reads and counts in PostgreSQL's own way.

-- name: meta
-- The store's numbers, whether it has flows, and its time in milliseconds. The feed's end is read off the feed: a row that
-- every reader of the feed updated would have a long chain of dead versions while somebody holds a transaction.
SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tenure.arrival), epoch, frozen, loading, last_turn,
       hold_until, greatest(feed_floor, coalesce((SELECT max(position) FROM tenure.feed), 0)), feed_floor,
       config, version, EXISTS (SELECT 1 FROM tenure.edge), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM tenure.meta

-- name: meta_to_write
-- The same, and a lock on the table that no other writer minds: whoever takes it for themselves (`stop`) knows that
-- every writer so far has ended, and that the next ones will see what they write. A part that nobody reads is never run,
-- but what it names is locked before the statement looks at anything.
WITH locked AS (SELECT FROM tenure.meta FOR KEY SHARE)
SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tenure.arrival), epoch, frozen, loading, last_turn,
       hold_until, greatest(feed_floor, coalesce((SELECT max(position) FROM tenure.feed), 0)), feed_floor,
       config, version, EXISTS (SELECT 1 FROM tenure.edge), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM tenure.meta

-- name: meta_begun
-- The same in a transaction of our own, which begins with it: its time is then known to every statement.
WITH locked AS (SELECT FROM tenure.meta FOR KEY SHARE)
SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tenure.arrival), epoch, frozen, loading, last_turn,
       hold_until, greatest(feed_floor, coalesce((SELECT max(position) FROM tenure.feed), 0)), feed_floor,
       config, version, EXISTS (SELECT 1 FROM tenure.edge), floor(extract(epoch FROM now()) * 1000)::bigint
FROM tenure.meta

-- name: meta_to_claim
-- The same in one that may claim: it holds another lock of that kind (`stop_claims`).
WITH locked AS (SELECT FROM tenure.meta FOR KEY SHARE), claiming AS (SELECT FROM tenure.identity FOR KEY SHARE)
SELECT (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tenure.arrival), epoch, frozen, loading, last_turn,
       hold_until, greatest(feed_floor, coalesce((SELECT max(position) FROM tenure.feed), 0)), feed_floor,
       config, version, EXISTS (SELECT 1 FROM tenure.edge), floor(extract(epoch FROM now()) * 1000)::bigint
FROM tenure.meta

-- name: impatient
-- Whoever wants a table for themselves makes others wait behind them: they had better not wait for long.
SELECT set_config('lock_timeout', '100ms', true)

-- name: soon
-- Whoever enqueues a key may have to wait for a transaction that holds it. Not here: a connection is for all.
SELECT set_config('lock_timeout', '20ms', true)

-- name: stop
LOCK TABLE tenure.meta IN EXCLUSIVE MODE

-- name: stop_claims
-- Waits until every claim so far has ended; those to come will see what this transaction writes.
LOCK TABLE tenure.identity IN EXCLUSIVE MODE

-- name: hold_modes
SELECT pg_advisory_xact_lock_shared(key) FROM unnest($1::bigint[]) AS key

-- name: same_config
-- Fails if a mode has changed since, or was about to and nobody knows whether it has: where a transaction has one snapshot
-- for all it can't look.
SELECT 1 / (
    coalesce(pg_sequence_last_value('tenure.moded'::regclass), 0) <= $1
    OR (config = $1 AND current_setting('transaction_isolation') = 'read committed')
)::int
FROM tenure.meta

-- name: arriving
-- Whether somebody enqueues where a mode is to change.
SELECT EXISTS (
    SELECT 1 FROM pg_locks
    WHERE locktype = 'advisory' AND mode = 'ShareLock' AND objsubid = 1
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND ((classid::bigint << 32) | objid::bigint) = ANY ($1::bigint[])
)

-- name: take_modes
SELECT 1 / bool_and(pg_try_advisory_xact_lock(key))::int FROM unnest($1::bigint[]) AS key

-- name: still_live
-- Fails unless these are the tenants with jobs in a queue.
SELECT 1 / (ARRAY(
    SELECT tenant FROM tenure.ready WHERE queue = $1
    UNION SELECT tenant FROM tenure.scheduled WHERE queue = $1
    UNION SELECT tenant FROM tenure.blocked WHERE queue = $1
    UNION SELECT tenant FROM tenure.running WHERE queue = $1
    ORDER BY tenant
) = $2::text[])::int

-- name: moded
SELECT setval('tenure.moded', $1::bigint)

-- name: jobs
SELECT job.seq, job.spec, CASE WHEN running.seq IS NULL THEN coalesce(finished.state, job.state) ELSE 'running' END,
       job.priority, job.run_at, coalesce(running.live, finished.live, job.live)
FROM @keys(tenant text, id text)
    @find(tenure.job AS job: job.tenant = want.tenant AND job.id = want.id)
    LEFT JOIN LATERAL (SELECT * FROM tenure.running AS r WHERE r.seq = job.seq OFFSET 0) AS running ON true
    LEFT JOIN LATERAL (SELECT * FROM tenure.finished AS f WHERE f.seq = job.seq OFFSET 0) AS finished ON true

-- name: states
-- Where these jobs stand, without their records: of many, several times a second.
SELECT job.tenant, job.id,
       CASE WHEN running.seq IS NULL THEN coalesce(finished.state, job.state) ELSE 'running' END
FROM @keys(tenant text, id text)
    @find(tenure.job AS job: job.tenant = want.tenant AND job.id = want.id)
    LEFT JOIN LATERAL (SELECT * FROM tenure.running AS r WHERE r.seq = job.seq OFFSET 0) AS running ON true
    LEFT JOIN LATERAL (SELECT * FROM tenure.finished AS f WHERE f.seq = job.seq OFFSET 0) AS finished ON true

-- name: payloads
SELECT job.tenant, job.id, job.payload
FROM @keys(tenant text, id text) @find(tenure.job AS job: job.tenant = want.tenant AND job.id = want.id)

-- name: depth
SELECT (SELECT count(*) FROM tenure.ready WHERE queue = $1 AND tenant = $2)
     + (SELECT count(*) FROM tenure.scheduled WHERE queue COLLATE "POSIX" = $1 AND tenant = $2)
     + (SELECT count(*) FROM tenure.blocked WHERE queue = $1 AND tenant = $2)


-- name: arrive
SELECT nextval('tenure.arrival') FROM generate_series(1, $1)

-- name: cascading
SELECT nextval('tenure.cascading')

-- name: last_cascade
SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tenure.cascading

-- name: lane_holders
SELECT (SELECT count(*) FROM tenure.running WHERE queue = $2 AND tenant = $1 AND limited)
     + (SELECT count(*) FROM tenure.slot WHERE queue = $2 AND tenant = $1)

-- name: group_holders
SELECT (SELECT count(*) FROM tenure.running WHERE queue = $1 AND tenant = $2 AND grp = $3 AND grp <> '')
     + (SELECT count(*) FROM tenure.slot WHERE queue = $1 AND tenant = $2 AND grp = $3)

-- name: lock
SELECT pg_advisory_xact_lock($1)

-- name: try_lock
SELECT pg_try_advisory_xact_lock($1)
