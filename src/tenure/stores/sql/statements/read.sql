-- Point reads and counts.

-- name: arrivals
-- The first arrival number and the last. Two selects: SQLite goes to an end of the tree for one of them at a time only.
SELECT (SELECT min(seq) FROM tenure.job), (SELECT max(seq) FROM tenure.job)

-- name: bindings
SELECT b.tenant, b.queue, b.job_type, b.key, b.job_id, b.fingerprint, b.uniqueness, b.expires_at
FROM @keys(tenant text, queue text, job_type text, key text)
    @find(tenure.binding AS b: b.tenant = want.tenant AND b.queue = want.queue AND b.job_type = want.job_type AND b.key = want.key)

-- name: edges_from
SELECT e.tenant, e.parent, e.child, e.child_seq, e.on_failure, e.resolved
FROM @keys(tenant text, parent text)
    @find(tenure.edge AS e: e.tenant = want.tenant AND e.parent = want.parent)

-- name: edges_to
SELECT e.tenant, e.parent, e.child, e.child_seq, e.on_failure, e.resolved
FROM @keys(tenant text, child text)
    @find(tenure.edge AS e: e.tenant = want.tenant AND e.child = want.child)

-- name: dead_letters
SELECT d.tenant, d.job_id, d.at, d.disposition, d.new_id
FROM @keys(tenant text, job_id text)
    @find(tenure.dead_letter AS d: d.tenant = want.tenant AND d.job_id = want.job_id)

-- name: results
-- A record tells when its result expires.
SELECT r.seq, r.body, r.codec, r.expires_at
FROM @keys(expires_at bigint, seq bigint)
    @find(tenure.result AS r: r.expires_at = want.expires_at AND r.seq = want.seq)

-- name: slots
SELECT s.tenant, s.job_id, s.lease_seq, s.queue, s.grp, s.deadline
FROM @keys(tenant text, job_id text)
    @find(tenure.slot AS s: s.tenant = want.tenant AND s.job_id = want.job_id)

-- name: attached
SELECT a.seq, a.member, a.body
FROM @keys(seq bigint, family text)
    @find(tenure.attached AS a: a.seq = want.seq AND a.family = want.family)
ORDER BY a.seq, a.member

-- name: members
SELECT a.seq, a.member
FROM @keys(seq bigint, family text)
    @find(tenure.attached AS a: a.seq = want.seq AND a.family = want.family)
ORDER BY a.seq, a.member

-- name: document
SELECT tenant, kind, name, body, version, expires_at FROM tenure.document WHERE tenant = $1 AND kind = $2 AND name = $3

-- name: configuration
SELECT tenant, kind, name, body, version, expires_at FROM tenure.document WHERE kind IN ($1, $2)

-- name: documents
SELECT tenant, kind, name, body, version, expires_at
FROM tenure.document WHERE tenant = $1 AND kind = $2 AND substr(name, 1, length($3)) = $3 ORDER BY name

-- name: bucket
SELECT tat FROM tenure.bucket WHERE tenant = $1 AND queue = $2 AND grp = $3

-- name: position
SELECT grp FROM tenure.position WHERE tenant = $1 AND queue = $2

-- name: live_tenants
SELECT tenant FROM tenure.ready WHERE queue = $1
UNION SELECT tenant FROM tenure.scheduled WHERE queue = $1
UNION SELECT tenant FROM tenure.blocked WHERE queue = $1
UNION SELECT tenant FROM tenure.running WHERE queue = $1
ORDER BY tenant

-- name: chunks
SELECT position, tenant, at, body FROM tenure.feed WHERE position > $1 ORDER BY position LIMIT $2

-- name: tenant_chunks
SELECT position, tenant, at, body FROM tenure.feed WHERE tenant = $3 AND position > $1 ORDER BY position LIMIT $2

-- name: identity
SELECT id FROM tenure.identity
