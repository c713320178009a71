-- needs: 1
-- Schema 2: what enqueues and changes of a queue's mode know of each other (`modes.py`).
--
-- `moded` is the count of configuration changes (`meta.config`) as of the last change of a mode. A sequence: everybody sees
-- it at once, whatever snapshot their statement has. Programs of schema 1 go on, and don't look: while there are any that
-- enqueue, no queue's mode should be changed.
CREATE SEQUENCE tenure.moded AS bigint;

-- Roles that may use the other sequences may use this one.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role, a.privilege_type AS may
        FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        WHERE c.oid = 'tenure.arrival'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON SEQUENCE tenure.moded TO %s', granted.may, granted.role);
    END LOOP;
END $$;
