-- Everything of one kind by its key, after a given key; and what restoring needs besides the writes.

-- name: restore_job
-- In place if it is there: what lies beside a job goes with its row.
INSERT INTO job (seq, tenant, id, queue, job_type, enqueued_at, spec, state, priority, run_at, live)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (seq) DO UPDATE SET tenant = excluded.tenant, id = excluded.id, queue = excluded.queue,
    job_type = excluded.job_type, enqueued_at = excluded.enqueued_at, spec = excluded.spec, state = excluded.state,
    priority = excluded.priority, run_at = excluded.run_at, live = excluded.live

-- name: restore_body
-- The payload comes with an item of its own.
INSERT OR IGNORE INTO body (seq, payload) VALUES (?, x'')

-- name: dump_body
SELECT job.tenant, job.id, body.payload FROM job CROSS JOIN body ON body.seq = job.seq
WHERE (job.tenant, job.id) > (?1, ?2) ORDER BY job.tenant, job.id LIMIT ?3
