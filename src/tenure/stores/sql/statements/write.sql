-- Keeping what a unit changed. Each is run for many rows at once.

-- name: put_in_order
INSERT INTO tenure.in_order (queue, tenant, grp, seq, expires_at)
@rows(queue text, tenant text, grp text, seq bigint, expires_at bigint)

-- name: drop_in_order
DELETE FROM tenure.in_order
WHERE (queue, tenant, grp, seq) @each(queue text, tenant text, grp text, seq bigint)

-- name: put_expiring
INSERT INTO tenure.expiring (expires_at, tenant, id, seq) @rows(expires_at bigint, tenant text, id text, seq bigint)

-- name: drop_expiring
DELETE FROM tenure.expiring WHERE (expires_at, tenant, id) @each(expires_at bigint, tenant text, id text)

-- name: add_label
INSERT INTO tenure.label (tenant, name, value, seq) @rows(tenant text, name text, value text, seq bigint)

-- name: put_binding
INSERT INTO tenure.binding (tenant, queue, job_type, key, job_id, fingerprint, uniqueness, expires_at)
@rows(tenant text, queue text, job_type text, key text, job_id text, fingerprint bytea, uniqueness text, expires_at bigint)
ON CONFLICT (tenant, queue, job_type, key) DO UPDATE SET job_id = excluded.job_id, fingerprint = excluded.fingerprint,
    uniqueness = excluded.uniqueness, expires_at = excluded.expires_at

-- name: put_edge
INSERT INTO tenure.edge (tenant, parent, child, child_seq, on_failure, resolved)
@rows(tenant text, parent text, child text, child_seq bigint, on_failure text, resolved bigint)
ON CONFLICT (tenant, parent, child) DO UPDATE SET child_seq = excluded.child_seq, on_failure = excluded.on_failure,
    resolved = excluded.resolved

-- name: drop_edge
DELETE FROM tenure.edge WHERE (tenant, parent, child) @each(tenant text, parent text, child text)

-- name: put_dead_letter
INSERT INTO tenure.dead_letter (tenant, job_id, at, disposition, new_id)
@rows(tenant text, job_id text, at bigint, disposition text, new_id text)
ON CONFLICT (tenant, job_id) DO UPDATE SET at = excluded.at, disposition = excluded.disposition,
    new_id = excluded.new_id

-- name: drop_dead_letter
DELETE FROM tenure.dead_letter WHERE (tenant, job_id) @each(tenant text, job_id text)

-- name: put_result
INSERT INTO tenure.result (expires_at, seq, body, codec) @rows(expires_at bigint, seq bigint, body bytea, codec text)

-- name: drop_result
DELETE FROM tenure.result
WHERE seq IN (SELECT job.seq FROM tenure.job WHERE (job.tenant, job.id) @each(tenant text, id text))

-- name: put_slot
INSERT INTO tenure.slot (tenant, job_id, lease_seq, queue, grp, deadline)
@rows(tenant text, job_id text, lease_seq bigint, queue text, grp text, deadline bigint)
ON CONFLICT (tenant, job_id) DO UPDATE SET lease_seq = excluded.lease_seq, queue = excluded.queue, grp = excluded.grp,
    deadline = excluded.deadline

-- name: drop_slot
DELETE FROM tenure.slot WHERE (tenant, job_id) @each(tenant text, job_id text)

-- name: put_attached
INSERT INTO tenure.attached (seq, family, member, body) @rows(seq bigint, family text, member text, body bytea)
ON CONFLICT (seq, family, member) DO UPDATE SET body = excluded.body

-- name: drop_attached
DELETE FROM tenure.attached WHERE (seq, family, member) @each(seq bigint, family text, member text)

-- name: put_cascade
INSERT INTO tenure.cascade (position, tenant, id) @rows(position bigint, tenant text, id text)
ON CONFLICT (position) DO UPDATE SET tenant = excluded.tenant, id = excluded.id

-- name: drop_cascade
DELETE FROM tenure.cascade WHERE position @each(position bigint)

-- name: put_bucket
INSERT INTO tenure.bucket (tenant, queue, grp, tat) @rows(tenant text, queue text, grp text, tat bigint)
ON CONFLICT (tenant, queue, grp) DO UPDATE SET tat = excluded.tat

-- name: put_position
INSERT INTO tenure.position (tenant, queue, grp) @rows(tenant text, queue text, grp text)
ON CONFLICT (tenant, queue) DO UPDATE SET grp = excluded.grp

-- name: put_document
INSERT INTO tenure.document (tenant, kind, name, body, version, expires_at)
@rows(tenant text, kind text, name text, body bytea, version bigint, expires_at bigint)
ON CONFLICT (tenant, kind, name) DO UPDATE SET body = excluded.body, version = excluded.version,
    expires_at = excluded.expires_at

-- name: drop_document
DELETE FROM tenure.document WHERE (tenant, kind, name) @each(tenant text, kind text, name text)

-- name: add_chunk
INSERT INTO tenure.feed (position, tenant, at, body) @rows(position bigint, tenant text, at bigint, body bytea)
ON CONFLICT (position) DO UPDATE SET tenant = excluded.tenant, at = excluded.at, body = excluded.body

-- name: touch_config
UPDATE tenure.meta SET config = config + 1
