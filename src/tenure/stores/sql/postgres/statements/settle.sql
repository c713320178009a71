-- name: finish_at_once
-- Successes of jobs that are as they were read, in one statement. What stands between `/* name */` and `/* end */` is
-- left out where nothing needs it.
WITH changed AS (
    DELETE FROM tenure.running WHERE seq = ANY ($1::bigint[]) RETURNING seq, version
), sure AS MATERIALIZED (
    SELECT 1 / (coalesce(array_agg(version ORDER BY seq), '{}') = $2::bigint[])::int AS sure FROM changed
), done AS (
    INSERT INTO tenure.finished (seq, day, state, live, version)
    SELECT given.seq, $4, 'succeeded', given.live, given.version + 1
    FROM sure CROSS JOIN unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS given (seq, version, live)
), listed AS (
    INSERT INTO tenure.ended (day, state) VALUES ($4, 'succeeded') ON CONFLICT DO NOTHING
/* results */ ), results AS (
    INSERT INTO tenure.result (expires_at, seq, body, codec)
    SELECT * FROM unnest($8::bigint[], $9::bigint[], $10::bytea[], $11::text[])
/* end */ /* grouped */ ), grouped AS (
    DELETE FROM tenure.in_order
    WHERE (queue, tenant, grp, seq) IN (SELECT * FROM unnest($12::text[], $13::text[], $14::text[], $15::bigint[]))
/* end */ ), told AS (
    INSERT INTO tenure.inbox (tenant, at, body) SELECT tenant, $7, body FROM unnest($5::text[], $6::bytea[]) AS t (tenant, body)
)
SELECT sure FROM sure
