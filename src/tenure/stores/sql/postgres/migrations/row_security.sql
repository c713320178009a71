-- Row-level security, if asked for: `migrate(row_security=True)`. May be run again, and is, after each migration: what is
-- there already is left alone, for whoever changes a policy has the table for themselves.
--
-- Two roles, both without a login, for the roles of programs to be members of:
--
-- * `tenure_fleet` sees every row: workers, sweepers, operators. Whoever migrates becomes a member.
-- * `tenure_tenant` sees the rows of the tenant that a setting names. Without it, none.
--
-- FORCEd: the tables' owner is held to the policies too. Nobody bypasses them, and no function runs as somebody else.
DO $$
DECLARE
    home     constant regnamespace := (SELECT relnamespace FROM pg_class WHERE oid = 'tenure.job'::regclass);
    mine     constant text := format('tenant = current_setting(%L, true)', 'tenure' || '.tenant');
    by_seq   constant text := format('EXISTS (SELECT 1 FROM %s.job AS j WHERE j.seq = %%I.seq)', home);
    found    record;
    role     text;
    rows     text;
BEGIN
    FOREACH role IN ARRAY ARRAY['tenure_fleet', 'tenure_tenant'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', home, role);
    END LOOP;
    IF NOT pg_has_role(current_user, 'tenure_fleet', 'USAGE') THEN
        EXECUTE format('GRANT tenure_fleet TO %I', current_user);
    END IF;
    EXECUTE format('GRANT ALL ON ALL TABLES IN SCHEMA %s TO tenure_fleet', home);
    EXECUTE format('GRANT ALL ON ALL SEQUENCES IN SCHEMA %s TO tenure_fleet', home);
    EXECUTE format('GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA %s TO tenure_tenant', home);

    FOR found IN
        SELECT c.relname AS name, EXISTS (
            SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
        ) AS named
        FROM pg_class AS c WHERE c.relnamespace = home AND c.relkind = 'r' AND c.relname <> 'migration'
            AND NOT c.relforcerowsecurity
    LOOP
        EXECUTE format('ALTER TABLE %s.%I ENABLE ROW LEVEL SECURITY', home, found.name);
        EXECUTE format('ALTER TABLE %s.%I FORCE ROW LEVEL SECURITY', home, found.name);
        EXECUTE format('CREATE POLICY fleet ON %s.%I TO tenure_fleet USING (true)', home, found.name);
        rows := CASE WHEN found.named THEN mine
                     WHEN found.name IN ('finished', 'result', 'attached') THEN format(by_seq, found.name) END;
        IF rows IS NOT NULL THEN
            EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s.%I TO tenure_tenant', home, found.name);
            EXECUTE format('CREATE POLICY tenant ON %s.%I TO tenure_tenant USING (%s)', home, found.name, rows);
        END IF;
    END LOOP;

    -- Events are numbered by the fleet: whoever doesn't see all of them can't.
    REVOKE INSERT, UPDATE, DELETE ON tenure.feed FROM tenure_tenant;
    -- What a queue's configuration says of every tenant is each tenant's to read.
    IF NOT EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = 'tenure.document'::regclass AND polname = 'everyone') THEN
        CREATE POLICY everyone ON tenure.document FOR SELECT TO tenure_tenant USING (tenant = '*');
    END IF;
    -- The store's own numbers can be read. UPDATE of a column that no policy lets anyone update is what a weak lock on the
    -- table takes, and every writer holds one.
    GRANT SELECT, UPDATE (one) ON tenure.meta TO tenure_tenant;
    IF NOT EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = 'tenure.meta'::regclass AND polname = 'tenant') THEN
        CREATE POLICY tenant ON tenure.meta FOR SELECT TO tenure_tenant USING (true);
    END IF;
    -- Which days have ended jobs is nobody's secret.
    GRANT SELECT, INSERT ON tenure.ended TO tenure_tenant;
    IF NOT EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = 'tenure.ended'::regclass AND polname = 'tenant') THEN
        CREATE POLICY tenant ON tenure.ended TO tenure_tenant USING (true);
    END IF;
    GRANT SELECT ON tenure.migration TO tenure_fleet, tenure_tenant;

    -- A view sees what its owner sees, unless it is told otherwise, which PostgreSQL 14 can't be.
    IF current_setting('server_version_num')::int >= 150000 THEN
        IF NOT EXISTS (
            SELECT 1 FROM pg_class WHERE oid = 'tenure.record'::regclass AND 'security_invoker=on' = ANY (reloptions)
        ) THEN
            EXECUTE 'ALTER VIEW tenure.record SET (security_invoker = on)';
        END IF;
        GRANT SELECT ON tenure.record TO tenure_tenant;
    END IF;
END $$;
