-- The scans of a claim.

-- name: promote
-- Jobs of one queue that became due move from `scheduled` to `ready`, at most a bounded number at once.
INSERT INTO ready
SELECT queue, tenant, grp, prio_neg, run_at, seq, expires_at FROM scheduled
WHERE queue = ?1 AND run_at <= ?2 ORDER BY run_at, seq LIMIT ?3

-- name: promoted
-- The rows that `promote` has just copied.
DELETE FROM scheduled WHERE (queue, run_at, seq) IN (
    SELECT queue, run_at, seq FROM scheduled WHERE queue = ?1 AND run_at <= ?2 ORDER BY run_at, seq LIMIT ?3
)

-- name: demote
-- The clock went back before anything was written: jobs that only seemed due are scheduled again.
INSERT INTO scheduled SELECT queue, tenant, grp, prio_neg, run_at, seq, expires_at FROM ready WHERE run_at > ?1

-- name: demoted
DELETE FROM ready WHERE run_at > ?1

-- name: set_promoted
UPDATE meta SET promoted = ?1

-- name: tenants
-- Loose scan: one index seek per tenant, whatever its backlog.
WITH RECURSIVE found (tenant) AS (
    SELECT (SELECT tenant FROM ready WHERE queue = ?1 AND tenant > ?2 ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT tenant FROM ready WHERE queue = ?1 AND tenant > found.tenant ORDER BY tenant LIMIT 1)
    FROM found WHERE found.tenant IS NOT NULL
    LIMIT ?3
)
SELECT tenant FROM found WHERE tenant IS NOT NULL

-- name: groups
WITH RECURSIVE found (grp) AS (
    SELECT (SELECT grp FROM ready WHERE queue = ?1 AND tenant = ?2 AND grp > ?3 ORDER BY grp LIMIT 1)
    UNION ALL
    SELECT (SELECT grp FROM ready WHERE queue = ?1 AND tenant = ?2 AND grp > found.grp ORDER BY grp LIMIT 1)
    FROM found WHERE found.grp IS NOT NULL
    LIMIT ?4
)
SELECT grp FROM found WHERE grp IS NOT NULL

-- name: line
-- Due jobs of one tenant, queue and group in the contract's order, from a place on; expired ones are passed over.
SELECT job.seq, job.spec, job.state, job.priority, job.run_at, job.live, body.payload
FROM ready CROSS JOIN job CROSS JOIN body
WHERE ready.queue = ?1 AND ready.tenant = ?2 AND ready.grp = ?3
  AND (ready.prio_neg, ready.run_at, ready.seq) > (?4, ?5, ?6)
  AND ready.run_at <= ?7 AND (ready.expires_at IS NULL OR ready.expires_at > ?7)
  AND job.seq = ready.seq AND body.seq = ready.seq
ORDER BY ready.prio_neg, ready.run_at, ready.seq LIMIT ?8

-- name: upcoming
-- Future jobs of a queue by time; the reader stops at the first that isn't paused.
SELECT run_at, tenant FROM scheduled WHERE queue = ?1 AND run_at > ?2 ORDER BY run_at

-- name: running_under
SELECT job.tenant, job.id FROM running CROSS JOIN job
WHERE running.token = $1 AND job.seq = running.seq ORDER BY job.tenant, job.id
