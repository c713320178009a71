-- Point reads and counts. Lists of keys come as one JSON array, so that a batch is one statement.

-- name: meta
SELECT mark, seq, epoch, frozen, loading, last_turn, hold_until, feed_head, feed_floor, cascade_head, promoted, config
FROM meta

-- name: arrivals
-- The first arrival number and the last. Two selects: SQLite goes to an end of the tree for one of them at a time only.
SELECT (SELECT min(seq) FROM job), (SELECT max(seq) FROM job)

-- name: jobs
-- [[tenant, id], …] → records. CROSS JOIN keeps the wanted keys outside: one probe each. (The view `record` would be
-- read whole here: SQLite doesn't unfold a view with outer joins inside another join.)
SELECT job.seq, job.spec, iif(running.seq IS NULL, coalesce(finished.state, job.state), 'running'),
       job.priority, job.run_at, coalesce(running.live, finished.live, job.live)
FROM json_each(?1) AS want CROSS JOIN job LEFT JOIN running ON running.seq = job.seq LEFT JOIN finished ON finished.seq = job.seq
WHERE job.tenant = json_extract(want.value, '$[0]') AND job.id = json_extract(want.value, '$[1]')

-- name: payloads
SELECT job.tenant, job.id, body.payload
FROM json_each(?1) AS want CROSS JOIN job CROSS JOIN body
WHERE job.tenant = json_extract(want.value, '$[0]') AND job.id = json_extract(want.value, '$[1]')
  AND body.seq = job.seq

-- name: bindings
SELECT b.tenant, b.queue, b.job_type, b.key, b.job_id, b.fingerprint, b.uniqueness, b.expires_at
FROM json_each(?1) AS want CROSS JOIN binding AS b
WHERE b.tenant = json_extract(want.value, '$[0]') AND b.queue = json_extract(want.value, '$[1]')
  AND b.job_type = json_extract(want.value, '$[2]') AND b.key = json_extract(want.value, '$[3]')

-- name: has_edges
SELECT EXISTS (SELECT 1 FROM edge)

-- name: edges_from
SELECT e.tenant, e.parent, e.child, e.child_seq, e.on_failure, e.resolved
FROM json_each(?1) AS want CROSS JOIN edge AS e
WHERE e.tenant = json_extract(want.value, '$[0]') AND e.parent = json_extract(want.value, '$[1]')

-- name: edges_to
SELECT e.tenant, e.parent, e.child, e.child_seq, e.on_failure, e.resolved
FROM json_each(?1) AS want CROSS JOIN edge AS e
WHERE e.tenant = json_extract(want.value, '$[0]') AND e.child = json_extract(want.value, '$[1]')

-- name: dead_letters
SELECT d.tenant, d.job_id, d.at, d.disposition, d.new_id
FROM json_each(?1) AS want CROSS JOIN dead_letter AS d
WHERE d.tenant = json_extract(want.value, '$[0]') AND d.job_id = json_extract(want.value, '$[1]')

-- name: results
-- [[expires_at, seq], …] → results; a record tells when its result expires.
SELECT r.seq, r.body, r.codec, r.expires_at
FROM json_each(?1) AS want CROSS JOIN result AS r
WHERE r.expires_at = json_extract(want.value, '$[0]') AND r.seq = json_extract(want.value, '$[1]')

-- name: slots
SELECT s.tenant, s.job_id, s.lease_seq, s.queue, s.grp, s.deadline
FROM json_each(?1) AS want CROSS JOIN slot AS s
WHERE s.tenant = json_extract(want.value, '$[0]') AND s.job_id = json_extract(want.value, '$[1]')

-- name: document
SELECT tenant, kind, name, body, version, expires_at FROM document WHERE tenant = ? AND kind = ? AND name = ?

-- name: configuration
SELECT tenant, kind, name, body, version, expires_at FROM document WHERE kind IN (?1, ?2)

-- name: documents
SELECT tenant, kind, name, body, version, expires_at
FROM document WHERE tenant = ?1 AND kind = ?2 AND substr(name, 1, length(?3)) = ?3 ORDER BY name

-- name: bucket
SELECT tat FROM bucket WHERE tenant = ? AND queue = ? AND grp = ?

-- name: position
SELECT grp FROM position WHERE tenant = ? AND queue = ?

-- name: depth
SELECT (SELECT count(*) FROM ready WHERE queue = ?1 AND tenant = ?2)
     + (SELECT count(*) FROM scheduled WHERE queue = ?1 AND tenant = ?2)
     + (SELECT count(*) FROM blocked WHERE queue = ?1 AND tenant = ?2)

-- name: holders
-- Running jobs and draining slots of every tenant, queue and group.
SELECT tenant, queue, grp, count(*)
FROM (SELECT tenant, queue, grp FROM running UNION ALL SELECT tenant, queue, coalesce(grp, '') FROM slot)
GROUP BY tenant, queue, grp

-- name: live_tenants
SELECT tenant FROM ready WHERE queue = ?1
UNION SELECT tenant FROM scheduled WHERE queue = ?1
UNION SELECT tenant FROM blocked WHERE queue = ?1
UNION SELECT tenant FROM running WHERE queue = ?1
ORDER BY tenant

-- name: chunks
SELECT position, tenant, at, body FROM feed WHERE position > ?1 ORDER BY position LIMIT ?2

-- name: tenant_chunks
SELECT position, tenant, at, body FROM feed WHERE tenant = ?3 AND position > ?1 ORDER BY position LIMIT ?2

-- name: identity
SELECT id FROM identity

-- name: chunks_between
SELECT position, body FROM feed WHERE position > ?1 AND position <= ?2 ORDER BY position

-- name: chunk_sizes
SELECT position, length(body) FROM feed WHERE position > ?1 ORDER BY position
