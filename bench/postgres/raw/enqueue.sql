-- What an enqueue of `batch` jobs writes, and nothing else: no checks, no answers, nothing sent by the client.
WITH new AS MATERIALIZED (
    SELECT nextval('tenure.arrival') AS seq, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
    FROM generate_series(1, :batch)
), jobs AS (
    INSERT INTO tenure.job (seq, tenant, id, queue, job_type, enqueued_at, spec, state, priority, run_at, live, payload)
    SELECT seq, 'default', to_char(seq, 'FM000000000000000000000000000000000000'), 'default', 'noop', now,
           decode(repeat('ab', 161), 'hex'), 'pending', 0, now, NULL, '\x7b2273656e74223a307d'
    FROM new
), ready AS (
    INSERT INTO tenure.ready (queue, tenant, grp, prio_neg, run_at, seq, expires_at, version)
    SELECT 'default', 'default', '', 0, now, seq, NULL, 1 FROM new
)
INSERT INTO tenure.inbox (tenant, at, body)
SELECT 'default', min(now), convert_to(string_agg(
    '{"tenant":"default","kind":"enqueued","at":' || now || ',"job_id":"' || seq || '-0000-7000-8000-000000000000","version":1,'
    '"queue":"default","job_type":"noop","attempt":0,"lease_seq":0,"priority":0,"max_attempts":3,"payload_size":10,'
    '"run_at":' || now || E'}\n', ''
), 'UTF8') FROM new;
