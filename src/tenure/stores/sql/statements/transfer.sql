-- Everything of one kind by its key, after a given key; and what restoring needs besides the writes.

-- name: dump_job
SELECT seq, spec, state, priority, run_at, live FROM tenure.record
WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT $3

-- name: dump_binding
SELECT tenant, queue, job_type, key, job_id, fingerprint, uniqueness, expires_at FROM tenure.binding
WHERE (tenant, queue, job_type, key) > ($1, $2, $3, $4) ORDER BY tenant, queue, job_type, key LIMIT $5

-- name: dump_edge
SELECT tenant, parent, child, child_seq, on_failure, resolved FROM tenure.edge
WHERE (tenant, parent, child) > ($1, $2, $3) ORDER BY tenant, parent, child LIMIT $4

-- name: dump_dead_letter
SELECT tenant, job_id, at, disposition, new_id FROM tenure.dead_letter
WHERE (tenant, job_id) > ($1, $2) ORDER BY tenant, job_id LIMIT $3

-- name: dump_result
-- By its own key. By its job's, each page would look at every result, or at every job.
SELECT j.tenant, j.id, r.body, r.codec, r.expires_at, r.seq FROM tenure.result AS r CROSS JOIN tenure.job AS j
WHERE j.seq = r.seq AND (r.expires_at, r.seq) > ($1, $2) ORDER BY r.expires_at, r.seq LIMIT $3

-- name: restore_result
INSERT INTO tenure.result (expires_at, seq, body, codec)
SELECT $5, seq, $3, $4 FROM tenure.job WHERE tenant = $1 AND id = $2
ON CONFLICT (expires_at, seq) DO UPDATE SET body = excluded.body, codec = excluded.codec

-- name: dump_attached
-- By its own key, too.
SELECT j.tenant, j.id, a.member, a.body, a.seq FROM tenure.attached AS a CROSS JOIN tenure.job AS j
WHERE j.seq = a.seq AND a.family = $3 AND a.seq >= $1 AND (a.seq, a.member) > ($1, $2)
ORDER BY a.seq, a.member LIMIT $4

-- name: restore_attached
INSERT INTO tenure.attached (seq, family, member, body)
SELECT seq, $3, $4, $5 FROM tenure.job WHERE tenant = $1 AND id = $2
ON CONFLICT (seq, family, member) DO UPDATE SET body = excluded.body

-- name: verify_attached
-- All of them, by their key, after a given one.
SELECT seq, family, member, body FROM tenure.attached
WHERE (seq, family, member) > ($1, $2, $3) ORDER BY seq, family, member LIMIT $4

-- name: dump_slot
SELECT tenant, job_id, lease_seq, queue, grp, deadline FROM tenure.slot
WHERE (tenant, job_id) > ($1, $2) ORDER BY tenant, job_id LIMIT $3

-- name: dump_cascade
SELECT position, tenant, id FROM tenure.cascade WHERE position > $1 ORDER BY position LIMIT $2

-- name: dump_bucket
SELECT tenant, queue, grp, tat FROM tenure.bucket
WHERE (tenant, queue, grp) > ($1, $2, $3) ORDER BY tenant, queue, grp LIMIT $4

-- name: dump_position
SELECT tenant, queue, grp FROM tenure.position WHERE (tenant, queue) > ($1, $2) ORDER BY tenant, queue LIMIT $3

-- name: dump_document
SELECT tenant, kind, name, body, version, expires_at FROM tenure.document
WHERE (tenant, kind, name) > ($1, $2, $3) ORDER BY tenant, kind, name LIMIT $4

-- name: dump_chunk
SELECT position, tenant, at, body FROM tenure.feed WHERE position > $1 ORDER BY position LIMIT $2
