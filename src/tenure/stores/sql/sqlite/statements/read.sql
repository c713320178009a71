-- Point reads and counts. Lists of keys come as one JSON array, so that a batch is one statement.

-- name: meta
SELECT mark, seq, epoch, frozen, loading, last_turn, hold_until, feed_head, feed_floor, cascade_head, promoted, config
FROM meta

-- name: payloads
SELECT job.tenant, job.id, body.payload
FROM json_each(?1) AS want CROSS JOIN job CROSS JOIN body
WHERE job.tenant = json_extract(want.value, '$[0]') AND job.id = json_extract(want.value, '$[1]')
  AND body.seq = job.seq

-- name: has_edges
SELECT EXISTS (SELECT 1 FROM edge)

-- name: holders
-- Running jobs and draining slots of every tenant, queue and group.
SELECT tenant, queue, grp, count(*)
FROM (SELECT tenant, queue, grp FROM running UNION ALL SELECT tenant, queue, coalesce(grp, '') FROM slot)
GROUP BY tenant, queue, grp
