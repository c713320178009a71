-- The scans and deletions of sweep and purge.

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

-- name: lost
SELECT job.seq, job.spec, 'running', job.priority, job.run_at, running.live
FROM running CROSS JOIN job
WHERE running.deadline < $1 AND job.seq = running.seq
ORDER BY running.deadline, job.tenant, job.id LIMIT $2

-- name: next_finished
-- The first (day, state) with ended jobs after a given one: a loose scan over `finished`.
SELECT day, state FROM finished WHERE (day, state) > ($1, $2) ORDER BY day, state LIMIT 1
