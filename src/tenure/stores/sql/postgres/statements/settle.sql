-- name: finish_at_once
-- Successes of jobs that are as they were read, in one statement. What stands between `/* name */` and `/* end */` is
-- left out where nothing needs it. $2 and $4 are of the few ends, $3 says which of them is each job's; nothing if there is
-- one only.
WITH changed AS (
    DELETE FROM tenure.running WHERE seq = ANY ($1::bigint[]) RETURNING seq, version
), sure AS MATERIALIZED (
    SELECT 1 / CASE
        WHEN cardinality($3::bigint[]) = 0
        THEN count(*) = cardinality($1::bigint[]) AND coalesce(bool_and(version = ($2::bigint[])[1]), false)
        ELSE coalesce(array_agg(version ORDER BY seq), '{}') = ARRAY(SELECT ($2::bigint[])[kind] FROM unnest($3::bigint[]) AS kind)
    END::int AS sure
    FROM changed
), done AS (
    INSERT INTO tenure.finished (seq, day, state, live, version)
    SELECT given.seq, $5, 'succeeded', ($4::bytea[])[coalesce(given.kind, 1)], ($2::bigint[])[coalesce(given.kind, 1)] + 1
    FROM sure CROSS JOIN unnest($1::bigint[], $3::bigint[]) AS given (seq, kind)
), listed AS (
    INSERT INTO tenure.ended (day, state) VALUES ($5, 'succeeded') ON CONFLICT DO NOTHING
/* results */ ), results AS (
    INSERT INTO tenure.result (expires_at, seq, body, codec)
    SELECT * FROM unnest($9::bigint[], $10::bigint[], $11::bytea[], $12::text[])
/* end */ /* grouped */ ), grouped AS (
    DELETE FROM tenure.in_order
    WHERE (queue, tenant, grp, seq) IN (SELECT * FROM unnest($13::text[], $14::text[], $15::text[], $16::bigint[]))
/* end */ ), told AS (
    INSERT INTO tenure.inbox (tenant, at, body) SELECT tenant, $8, body FROM unnest($6::text[], $7::bytea[]) AS t (tenant, body)
)
SELECT sure FROM sure
