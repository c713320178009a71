-- The scans and deletions of sweep and purge.

-- name: cascades
SELECT position, tenant, id FROM tenure.cascade ORDER BY position LIMIT $1

-- name: expired
SELECT job.seq, job.spec, job.state, job.priority, job.run_at, job.live
FROM tenure.expiring CROSS JOIN tenure.job
WHERE expiring.expires_at <= $1 AND job.seq = expiring.seq
ORDER BY expiring.expires_at, expiring.tenant, expiring.id LIMIT $2

-- name: drained
SELECT tenant, job_id, lease_seq, queue, grp, deadline
FROM tenure.slot WHERE deadline < $1 ORDER BY deadline, tenant, job_id LIMIT $2

-- name: due_binding
-- Rows whose time has come, by it and their key, after one: (time, 0, key).
SELECT expires_at, 0, tenant, queue, job_type, key FROM tenure.binding
WHERE expires_at IS NOT NULL AND expires_at <= $1
  AND expires_at >= $2 AND (expires_at, tenant, queue, job_type, key) > ($2, $3, $4, $5, $6)
ORDER BY expires_at, tenant, queue, job_type, key LIMIT $7

-- name: clean_binding
DELETE FROM tenure.binding
WHERE (tenant, queue, job_type, key, expires_at) @each(tenant text, queue text, job_type text, key text, expires_at bigint)

-- name: due_result
-- (time, seq, key).
SELECT r.expires_at, r.seq, j.tenant, j.id FROM tenure.result AS r JOIN tenure.job AS j ON j.seq = r.seq
WHERE r.expires_at <= $1 AND r.expires_at >= $2 AND (r.expires_at, j.tenant, j.id) > ($2, $3, $4)
ORDER BY r.expires_at, j.tenant, j.id LIMIT $5

-- name: clean_result
DELETE FROM tenure.result WHERE (expires_at, seq) @each(expires_at bigint, seq bigint)

-- name: due_document
SELECT expires_at, 0, tenant, kind, name FROM tenure.document
WHERE expires_at IS NOT NULL AND expires_at <= $1
  AND expires_at >= $2 AND (expires_at, tenant, kind, name) > ($2, $3, $4, $5)
ORDER BY expires_at, tenant, kind, name LIMIT $6

-- name: clean_document
DELETE FROM tenure.document
WHERE (tenant, kind, name, expires_at) @each(tenant text, kind text, name text, expires_at bigint)

-- name: due_bucket
SELECT tat, 0, tenant, queue, grp FROM tenure.bucket
WHERE tat <= $1 AND tat >= $2 AND (tat, tenant, queue, grp) > ($2, $3, $4, $5) ORDER BY tat, tenant, queue, grp LIMIT $6

-- name: clean_bucket
DELETE FROM tenure.bucket WHERE (tenant, queue, grp, tat) @each(tenant text, queue text, grp text, tat bigint)

-- name: old_chunks
SELECT max(position)
FROM (SELECT position, at FROM tenure.feed ORDER BY position LIMIT $2) AS oldest WHERE at < $1

-- name: trim_feed
DELETE FROM tenure.feed WHERE position <= $1
