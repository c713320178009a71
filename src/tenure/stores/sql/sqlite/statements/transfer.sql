-- Everything of one kind by its key, after a given key; and what restoring needs besides the writes.

-- name: restore_body
-- The payload comes with an item of its own.
INSERT OR IGNORE INTO body (seq, payload) VALUES (?, x'')

-- name: dump_body
SELECT job.tenant, job.id, body.payload FROM job CROSS JOIN body ON body.seq = job.seq
WHERE (job.tenant, job.id) > (?1, ?2) ORDER BY job.tenant, job.id LIMIT ?3
