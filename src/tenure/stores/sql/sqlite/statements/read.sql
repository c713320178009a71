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

-- name: jobs
-- Records. CROSS JOIN keeps the wanted keys outside: one probe each. (The view `record` would be read whole here: SQLite
-- doesn't unfold a view with outer joins inside another join.)
SELECT job.seq, job.spec, CASE WHEN running.seq IS NULL THEN coalesce(finished.state, job.state) ELSE 'running' END,
       job.priority, job.run_at, coalesce(running.live, finished.live, job.live)
FROM json_each(?1) AS want CROSS JOIN job
    LEFT JOIN running ON running.seq = job.seq LEFT JOIN finished ON finished.seq = job.seq
WHERE job.tenant = json_extract(want.value, '$[0]') AND job.id = json_extract(want.value, '$[1]')

-- name: depth
SELECT (SELECT count(*) FROM ready WHERE queue = ?1 AND tenant = ?2)
     + (SELECT count(*) FROM scheduled WHERE queue = ?1 AND tenant = ?2)
     + (SELECT count(*) FROM blocked WHERE queue = ?1 AND tenant = ?2)
