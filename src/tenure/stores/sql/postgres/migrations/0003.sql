-- needs: 1
-- Schema 3: rows that jobs have beside their records, of any family (`domain/model/attached.py`): tracebacks.
--
-- They go with their job, whoever purges it: programs of schemas 1 and 2 go on, and don't know of them, hence a trigger.
-- They keep no tracebacks, and a dump of theirs has none: while there are any, don't dump with them.
CREATE TABLE tenure.attached (
    seq    bigint NOT NULL,
    family text COLLATE "C" NOT NULL,
    member text COLLATE "C" NOT NULL,
    body   bytea NOT NULL,  -- MessagePack
    PRIMARY KEY (seq, family, member)
);

DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE tenure.attached ALTER COLUMN body SET COMPRESSION lz4;
    END IF;
END $$;

-- What ended goes from `finished` too when it is replayed or discarded, to come back with another version: then its job is
-- still there. A job that succeeded at once has nothing beside it, and isn't looked at: a foreign key on `job` took 25 µs
-- for each purged job, as long as its purge takes otherwise.
CREATE FUNCTION tenure.purge_attached() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tenure.attached WHERE seq = OLD.seq AND NOT EXISTS (SELECT FROM tenure.job WHERE job.seq = OLD.seq);
    RETURN NULL;
END $$;
CREATE TRIGGER purge_attached AFTER DELETE ON tenure.finished FOR EACH ROW
    WHEN (OLD.version > 3 OR OLD.state <> 'succeeded') EXECUTE FUNCTION tenure.purge_attached();

-- Roles that may use jobs may use what lies beside them.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN
        SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role, a.privilege_type AS may
        FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        WHERE c.oid = 'tenure.job'::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON tenure.attached TO %s', granted.may, granted.role);
    END LOOP;
END $$;
