-- The scans and deletions of sweep and purge.

-- name: cascades
SELECT position, tenant, id FROM cascade ORDER BY position LIMIT ?1

-- name: lost
SELECT job.seq, job.spec, 'running', job.priority, job.run_at, running.live
FROM running CROSS JOIN job
WHERE running.deadline < ?1 AND job.seq = running.seq
ORDER BY running.deadline, job.tenant, job.id LIMIT ?2

-- name: expired
SELECT job.seq, job.spec, job.state, job.priority, job.run_at, job.live
FROM expiring CROSS JOIN job
WHERE expiring.expires_at <= ?1 AND job.seq = expiring.seq
ORDER BY expiring.expires_at, expiring.tenant, expiring.id LIMIT ?2

-- name: drained
SELECT tenant, job_id, lease_seq, queue, grp, deadline
FROM slot WHERE deadline < ?1 ORDER BY deadline, tenant, job_id LIMIT ?2

-- name: clean_bindings
DELETE FROM binding WHERE (tenant, queue, job_type, key) IN (
    SELECT tenant, queue, job_type, key FROM binding
    WHERE expires_at IS NOT NULL AND expires_at <= ?1
    ORDER BY expires_at, tenant, queue, job_type, key LIMIT ?2
)

-- name: clean_results
-- A result outlives its time while a child may still ask for it.
DELETE FROM result WHERE (expires_at, seq) IN (
    SELECT r.expires_at, r.seq FROM result AS r JOIN job AS j ON j.seq = r.seq
    WHERE r.expires_at <= ?1
      AND NOT EXISTS (SELECT 1 FROM edge AS e WHERE e.tenant = j.tenant AND e.parent = j.id)
    ORDER BY r.expires_at, j.tenant, j.id LIMIT ?2
)

-- name: clean_documents
DELETE FROM document WHERE (tenant, kind, name) IN (
    SELECT tenant, kind, name FROM document
    WHERE expires_at IS NOT NULL AND expires_at <= ?1
    ORDER BY expires_at, tenant, kind, name LIMIT ?2
)

-- name: clean_buckets
-- A bucket whose time has passed says the same as none.
DELETE FROM bucket WHERE (tenant, queue, grp) IN (
    SELECT tenant, queue, grp FROM bucket WHERE tat <= ?1 * 1000 ORDER BY tat, tenant, queue, grp LIMIT ?2
)

-- name: old_chunks
SELECT max(position) FROM (SELECT position, at FROM feed ORDER BY position LIMIT ?2) WHERE at < ?1

-- name: trim_feed
DELETE FROM feed WHERE position <= ?1

-- name: next_finished
-- The first (day, state) with ended jobs after a given one: a loose scan over `finished`.
SELECT day, state FROM finished WHERE (day, state) > (?1, ?2) ORDER BY day, state LIMIT 1

-- name: purging_begin
CREATE TEMP TABLE IF NOT EXISTS purging (seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, id TEXT NOT NULL)

-- name: purging_fill
-- The ended jobs of one day and state that no guard spares.
INSERT INTO purging
SELECT j.seq, j.tenant, j.id FROM finished AS f JOIN job AS j ON j.seq = f.seq
WHERE f.day = ?1 AND f.state = ?2
  AND NOT EXISTS (SELECT 1 FROM edge AS e WHERE e.tenant = j.tenant AND e.parent = j.id)
  AND NOT EXISTS (SELECT 1 FROM slot AS s WHERE s.tenant = j.tenant AND s.job_id = j.id)
  AND NOT EXISTS (
      SELECT 1 FROM dead_letter AS d WHERE d.tenant = j.tenant AND d.job_id = j.id AND d.disposition = 'open'
  )
  AND NOT EXISTS (
      SELECT 1 FROM binding AS b
      WHERE b.tenant = j.tenant AND b.job_id = j.id AND b.uniqueness = 'window'
        AND (b.expires_at IS NULL OR b.expires_at > ?3)
  )

-- name: purge_results
DELETE FROM result WHERE seq IN (SELECT seq FROM purging)

-- name: purge_dead_letters
DELETE FROM dead_letter WHERE (tenant, job_id) IN (SELECT tenant, id FROM purging)

-- name: purge_bindings
DELETE FROM binding WHERE (tenant, job_id) IN (SELECT tenant, id FROM purging)

-- name: purge_labels
DELETE FROM label WHERE seq IN (SELECT seq FROM purging)

-- name: purge_bodies
DELETE FROM body WHERE seq IN (SELECT seq FROM purging)

-- name: purge_finished
DELETE FROM finished WHERE day = ?1 AND state = ?2 AND seq IN (SELECT seq FROM purging)

-- name: purge_jobs
DELETE FROM job WHERE seq IN (SELECT seq FROM purging)

-- name: purging_end
DELETE FROM purging
