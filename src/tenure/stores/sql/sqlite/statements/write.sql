-- Keeping what a unit changed. Each is run for many rows at once.

-- name: add_job
INSERT INTO job (seq, tenant, id, queue, job_type, enqueued_at, spec, state, priority, run_at, live)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: save_job
UPDATE job SET state = ?, priority = ?, run_at = ?, live = ? WHERE seq = ?

-- name: save_turn
-- Where a job stood in its line when it left it.
UPDATE job SET priority = ?, run_at = ? WHERE seq = ?

-- name: add_body
INSERT INTO body (seq, payload) VALUES (?, ?)

-- name: put_ready
INSERT INTO ready (queue, tenant, grp, prio_neg, run_at, seq, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: drop_ready
DELETE FROM ready WHERE queue = ? AND tenant = ? AND grp = ? AND prio_neg = ? AND run_at = ? AND seq = ?

-- name: put_scheduled
INSERT INTO scheduled (queue, tenant, grp, prio_neg, run_at, seq, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: drop_scheduled
DELETE FROM scheduled WHERE queue = ? AND run_at = ? AND seq = ?

-- name: put_blocked
INSERT INTO blocked (queue, tenant, seq) VALUES (?, ?, ?)

-- name: drop_blocked
DELETE FROM blocked WHERE queue = ? AND tenant = ? AND seq = ?

-- name: put_running
INSERT OR REPLACE INTO running (seq, queue, tenant, grp, token, deadline, live) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: drop_running
DELETE FROM running WHERE seq = ?

-- name: put_finished
INSERT OR REPLACE INTO finished (seq, day, state, live) VALUES (?, ?, ?, ?)

-- name: lease_range
-- The hot path: the jobs of a plain lane that a claim took are those of its line that can't expire, up to the last one
-- taken. One statement for all of them: 1 µs a job where a statement for each took 3.
INSERT INTO running (seq, queue, tenant, grp, token, deadline, live)
SELECT seq, queue, tenant, grp, ?7, ?8, ?9 FROM ready
WHERE queue = ?1 AND tenant = ?2 AND grp = '' AND (prio_neg, run_at, seq) <= (?3, ?4, ?5)
  AND run_at <= ?6 AND expires_at IS NULL

-- name: leave_range
DELETE FROM ready
WHERE queue = ?1 AND tenant = ?2 AND grp = '' AND (prio_neg, run_at, seq) <= (?3, ?4, ?5)
  AND run_at <= ?6 AND expires_at IS NULL

-- name: end_running
DELETE FROM running WHERE seq IN (SELECT value FROM json_each(?1))

-- name: finish_alike
-- Jobs that one claim took first and that end at once differ in nothing here.
INSERT INTO finished (seq, day, state, live) SELECT value, ?2, 'succeeded', ?3 FROM json_each(?1)

-- name: drop_binding
DELETE FROM binding WHERE tenant = ? AND queue = ? AND job_type = ? AND key = ?

-- name: put_meta
UPDATE meta SET
    mark = ?, seq = ?, epoch = ?, frozen = ?, loading = ?, last_turn = ?, hold_until = ?, feed_head = ?,
    feed_floor = ?, cascade_head = ?, config = config + ?

-- name: set_payload
INSERT OR REPLACE INTO body (seq, payload) SELECT seq, ?3 FROM job WHERE tenant = ?1 AND id = ?2
