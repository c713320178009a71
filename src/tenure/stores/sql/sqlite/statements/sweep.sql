-- The scans and deletions of sweep and purge.

-- name: ended_jobs
-- The ended jobs of one day and state, with the rows that may still need their records. Left to itself SQLite looks through
-- all keys of a tenant for each job: 8,000 jobs took 3 s.
SELECT j.seq, j.tenant, j.id, b.queue, b.job_type, b.key, b.job_id, b.fingerprint, b.uniqueness, b.expires_at,
       d.disposition,
       EXISTS (SELECT 1 FROM edge AS e WHERE e.tenant = j.tenant AND e.parent = j.id),
       EXISTS (SELECT 1 FROM slot AS s WHERE s.tenant = j.tenant AND s.job_id = j.id)
FROM finished AS f CROSS JOIN job AS j
    LEFT JOIN binding AS b INDEXED BY binding_job ON b.tenant = j.tenant AND b.job_id = j.id
    LEFT JOIN dead_letter AS d ON d.tenant = j.tenant AND d.job_id = j.id
WHERE f.day = ?1 AND f.state = ?2 AND f.seq > ?3 AND j.seq = f.seq
ORDER BY f.seq LIMIT ?4

-- name: purge_results
-- Many jobs at once, by their numbers as one JSON array, as in the next four.
DELETE FROM result WHERE seq IN (SELECT value FROM json_each(?1))

-- name: purge_labels
DELETE FROM label WHERE seq IN (SELECT value FROM json_each(?1))

-- name: purge_bodies
DELETE FROM body WHERE seq IN (SELECT value FROM json_each(?1))

-- name: purge_finished
DELETE FROM finished WHERE seq IN (SELECT value FROM json_each(?1))

-- name: purge_jobs
DELETE FROM job WHERE seq IN (SELECT value FROM json_each(?1))

-- name: lost
SELECT job.seq, job.spec, 'running', job.priority, job.run_at, running.live
FROM running CROSS JOIN job
WHERE running.deadline < $1 AND job.seq = running.seq
ORDER BY running.deadline, job.tenant, job.id LIMIT $2

-- name: next_finished
-- The first (day, state) with ended jobs after a given one: a loose scan over `finished`.
SELECT day, state FROM finished WHERE (day, state) > ($1, $2) ORDER BY day, state LIMIT 1
