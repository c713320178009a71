-- What a claim of `batch` jobs and the settle of the same move: two transactions, no checks.
WITH next AS MATERIALIZED (
    SELECT ctid, seq FROM tenure.ready WHERE queue = 'default' AND tenant = 'default' AND grp = ''
    ORDER BY prio_neg, run_at, seq LIMIT :batch FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM tenure.ready WHERE ctid = ANY (ARRAY(SELECT ctid FROM next))
), leased AS (
    INSERT INTO tenure.running (seq, queue, tenant, grp, token, deadline, live, version, limited)
    SELECT seq, 'default', 'default', '', decode(md5('token'), 'hex'), 0, decode(repeat('ab', 110), 'hex'), 2, false FROM next
), held AS (
    INSERT INTO tenure.claimed (token, deadline, seqs)
    SELECT decode(md5(min(seq)::text), 'hex'), 9000000000000, array_agg(seq) FROM next HAVING count(*) > 0
), told AS (
    INSERT INTO tenure.inbox (tenant, at, body) SELECT 'default', 0, convert_to(string_agg(
        '{"tenant":"default","kind":"claimed","at":1794811904848,"job_id":"' || seq || '-0000-7000-8000-000000000000",'
        '"version":2,"queue":"default","job_type":"noop","attempt":1,"lease_seq":1,"worker":"host-28762-6313",'
        '"lease_until":1794811964848,"waited_ms":129}' || chr(10), ''
    ), 'UTF8') FROM next HAVING count(*) > 0
)
SELECT coalesce(array_agg(next.seq), '{}')::text AS seqs, coalesce(sum(length(job.spec) + length(job.payload)), 0) AS size
FROM next CROSS JOIN LATERAL (SELECT * FROM tenure.job WHERE job.seq = next.seq OFFSET 0) AS job \gset
WITH changed AS (
    DELETE FROM tenure.running WHERE seq = ANY (:seqs::bigint[]) RETURNING seq
), done AS (
    INSERT INTO tenure.finished (seq, day, state, live, version)
    SELECT seq, 20000, 'succeeded', decode(repeat('ab', 117), 'hex'), 3 FROM changed
)
INSERT INTO tenure.inbox (tenant, at, body) SELECT 'default', 0, convert_to(string_agg(
    '{"tenant":"default","kind":"succeeded","at":1794811904875,"job_id":"' || seq || '-0000-7000-8000-000000000000",'
    '"version":3,"queue":"default","job_type":"noop","attempt":1,"lease_seq":1,"worker":"host-28762-6313","run_ms":27,'
    '"reason":"ok"}' || chr(10), ''
), 'UTF8') FROM changed HAVING count(*) > 0;
