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

-- name: clean_bindings
DELETE FROM tenure.binding WHERE (tenant, queue, job_type, key) IN (
    SELECT tenant, queue, job_type, key FROM tenure.binding
    WHERE expires_at IS NOT NULL AND expires_at <= $1
    ORDER BY expires_at, tenant, queue, job_type, key LIMIT $2
)

-- name: clean_results
-- A result outlives its time while a child may still ask for it.
DELETE FROM tenure.result WHERE (expires_at, seq) IN (
    SELECT r.expires_at, r.seq FROM tenure.result AS r JOIN tenure.job AS j ON j.seq = r.seq
    WHERE r.expires_at <= $1
      AND NOT EXISTS (SELECT 1 FROM tenure.edge AS e WHERE e.tenant = j.tenant AND e.parent = j.id)
    ORDER BY r.expires_at, j.tenant, j.id LIMIT $2
)

-- name: clean_documents
DELETE FROM tenure.document WHERE (tenant, kind, name) IN (
    SELECT tenant, kind, name FROM tenure.document
    WHERE expires_at IS NOT NULL AND expires_at <= $1
    ORDER BY expires_at, tenant, kind, name LIMIT $2
)

-- name: clean_buckets
-- A bucket whose time has passed says the same as none.
DELETE FROM tenure.bucket WHERE (tenant, queue, grp) IN (
    SELECT tenant, queue, grp FROM tenure.bucket WHERE tat <= $1 * 1000 ORDER BY tat, tenant, queue, grp LIMIT $2
)

-- name: old_chunks
SELECT max(position)
FROM (SELECT position, at FROM tenure.feed ORDER BY position LIMIT $2) AS oldest WHERE at < $1

-- name: trim_feed
DELETE FROM tenure.feed WHERE position <= $1
