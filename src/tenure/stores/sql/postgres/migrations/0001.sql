-- Schema 1 of the PostgreSQL store. `tenure.` stands for the schema that the store was given.
--
-- The same tables as in SQLite (../../sqlite/migrations): `job` is what never changes and how a job last waited,
-- `running` what changes while it runs, `finished` how it ended; narrow tables say where a waiting job stands. Rows of
-- these move by DELETE and INSERT, so nothing is updated in place while jobs flow. What differs, and why:
--
-- * The payload stands in `job`: a row of its own would cost each enqueue an insert and an index entry more.
-- * Where a job stands carries the record's `version`. Whoever moves a job deletes its row by key and version; one that
--   finds nothing was overtaken, and begins again (tables.py). That is what keeps a transition atomic while many write.
-- * Arrival numbers and positions come from sequences; there is no row that every writer would have to wait for.
-- * Events go to `inbox`. Whoever reads the feed moves what is visible there to `feed`, under one lock, and numbers it:
--   so the feed is dense, causes come before effects, and an open transaction delays its own events only.
-- * Each claim leaves one row in `claimed`, from which what it holds is found, and what of it was lost. Indexes on
--   `running` for the same would take three entries for every job: a third of a claim's time.
-- * Names are compared by their bytes (COLLATE "C"), as the contract has them. Where two indexes begin with the same
--   column one of them says "POSIX", which is the same order under another name: a plan made while a table was empty can't
--   tell them apart, and the wrong one reads everything of a tenant (3.4 ms a job, measured, instead of 4 µs). So would
--   PostgreSQL 18 look a job up by `seq` in an index that has it second, once for each tenant: that one has `seq + 0`.
-- * Tables that are read from their beginning say which transaction wrote each row (`xid`): while somebody holds a
--   transaction their beginnings are dead rows, and a reader that knows what is new needn't walk them (frontier.py).
--   Every writer stamps: INSERT by the default, an UPDATE must say so. The index is on `xid` alone: with another column
--   before it, it would be mistaken for the one that has the order.

CREATE SEQUENCE tenure.arrival AS bigint;
CREATE SEQUENCE tenure.cascading AS bigint;

CREATE TABLE tenure.meta (
    one        integer PRIMARY KEY CHECK (one = 1),
    epoch      bigint NOT NULL,
    frozen     boolean NOT NULL,
    loading    boolean NOT NULL,
    last_turn  bigint,
    hold_until bigint NOT NULL,
    feed_floor bigint NOT NULL,
    config     bigint NOT NULL,  -- counts changes of queue and tenant documents, for caches
    version    bigint NOT NULL   -- counts changes of this row
);
INSERT INTO tenure.meta VALUES (1, 1, false, false, NULL, 0, 0, 0, 0);

CREATE TABLE tenure.identity (
    one integer PRIMARY KEY CHECK (one = 1),
    id  text NOT NULL
);
INSERT INTO tenure.identity VALUES (1, replace(gen_random_uuid()::text, '-', ''));

CREATE TABLE tenure.job (
    seq         bigint PRIMARY KEY,  -- order of arrival
    tenant      text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    job_type    text COLLATE "C" NOT NULL,
    enqueued_at bigint NOT NULL,
    spec        bytea NOT NULL,      -- MessagePack
    state       text NOT NULL,       -- as it last waited, like live. A CHECK would be read anew by every statement: 9 µs
    priority    bigint NOT NULL,
    run_at      bigint NOT NULL,
    live        bytea,               -- MessagePack: everything else that changes; NULL of a job as it was enqueued
    payload     bytea NOT NULL,
    CONSTRAINT job_id UNIQUE (tenant, id)
);
CREATE INDEX job_listing ON tenure.job (tenant COLLATE "POSIX", (seq + 0));

CREATE TABLE tenure.ready (
    queue      text COLLATE "C" NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    grp        text COLLATE "C" NOT NULL,  -- '' without a group
    prio_neg   bigint NOT NULL,            -- minus priority, so that ascending order is the contract's
    run_at     bigint NOT NULL,
    seq        bigint NOT NULL,
    expires_at bigint,
    version    bigint NOT NULL,
    xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (queue, tenant, grp, prio_neg, run_at, seq)
);
CREATE INDEX ready_xid ON tenure.ready (xid);

CREATE TABLE tenure.scheduled (
    queue      text COLLATE "C" NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    grp        text COLLATE "C" NOT NULL,
    prio_neg   bigint NOT NULL,
    run_at     bigint NOT NULL,
    seq        bigint NOT NULL,
    expires_at bigint,
    version    bigint NOT NULL,
    xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (queue, run_at, seq)
);
CREATE INDEX scheduled_xid ON tenure.scheduled (xid);
CREATE INDEX scheduled_lane ON tenure.scheduled (queue COLLATE "POSIX", tenant);

CREATE TABLE tenure.blocked (
    queue   text COLLATE "C" NOT NULL,
    tenant  text COLLATE "C" NOT NULL,
    seq     bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (queue, tenant, seq)
);
CREATE INDEX blocked_seq ON tenure.blocked (seq);

CREATE TABLE tenure.running (
    seq      bigint PRIMARY KEY,
    queue    text COLLATE "C" NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    grp      text COLLATE "C" NOT NULL,
    token    bytea NOT NULL,   -- hash of the claim id
    deadline bigint NOT NULL,  -- lease_until + grace
    version  bigint NOT NULL,
    live     bytea NOT NULL,
    limited  boolean NOT NULL  -- its queue has a limit that it counts for
);
CREATE INDEX running_limited ON tenure.running (queue, tenant) WHERE limited;
CREATE INDEX running_group ON tenure.running (queue, tenant, grp) WHERE grp <> '';

CREATE TABLE tenure.claimed (
    token    bytea PRIMARY KEY,
    deadline bigint NOT NULL,   -- not after that of any job that still runs under the token
    seqs     bigint[] NOT NULL,
    xid      xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX claimed_deadline ON tenure.claimed (deadline);
CREATE INDEX claimed_xid ON tenure.claimed (xid);

CREATE TABLE tenure.in_order (
    queue      text COLLATE "C" NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    grp        text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    expires_at bigint,
    PRIMARY KEY (queue, tenant, grp, seq)
);

CREATE TABLE tenure.expiring (
    expires_at bigint NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    PRIMARY KEY (expires_at, tenant, id)
);

CREATE TABLE tenure.finished (
    seq     bigint PRIMARY KEY,
    day     bigint NOT NULL,  -- UTC days since the epoch
    state   text COLLATE "C" NOT NULL CHECK (state IN ('succeeded', 'failed', 'cancelled')),
    version bigint NOT NULL,
    live    bytea NOT NULL
);
CREATE INDEX finished_day ON tenure.finished USING brin (day) WITH (pages_per_range = 16, autosummarize = on);

CREATE TABLE tenure.ended (
    day   bigint NOT NULL,
    state text COLLATE "C" NOT NULL,
    PRIMARY KEY (day, state)
);

-- Every job with the state it is in. OFFSET 0: looked up by key, whatever statistics say. A table that was emptied and has
-- its pages still seems to cost nothing to read as a whole, and all its dead rows would be.
CREATE VIEW tenure.record AS
SELECT job.seq, job.tenant, job.id, job.queue, job.job_type, job.enqueued_at, job.spec,
       CASE WHEN running.seq IS NULL THEN coalesce(finished.state, job.state) ELSE 'running' END AS state,
       job.priority, job.run_at, coalesce(running.live, finished.live, job.live) AS live, job.payload
FROM tenure.job
    LEFT JOIN LATERAL (SELECT * FROM tenure.running AS r WHERE r.seq = job.seq OFFSET 0) AS running ON true
    LEFT JOIN LATERAL (SELECT * FROM tenure.finished AS f WHERE f.seq = job.seq OFFSET 0) AS finished ON true;

CREATE TABLE tenure.label (
    tenant text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    value  text COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    PRIMARY KEY (tenant, name, value, seq)
);
CREATE INDEX label_seq ON tenure.label (seq);

CREATE TABLE tenure.binding (
    tenant      text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    job_type    text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    job_id      text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    uniqueness  text NOT NULL,
    expires_at  bigint,
    PRIMARY KEY (tenant, queue, job_type, key)
);
CREATE INDEX binding_job ON tenure.binding (job_id, tenant);
CREATE INDEX binding_expiring ON tenure.binding (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE tenure.edge (
    tenant     text COLLATE "C" NOT NULL,
    parent     text COLLATE "C" NOT NULL,
    child      text COLLATE "C" NOT NULL,
    child_seq  bigint NOT NULL,
    on_failure text NOT NULL,
    resolved   bigint NOT NULL,
    PRIMARY KEY (parent, tenant, child)
);
CREATE INDEX edge_child ON tenure.edge (child, tenant);

CREATE TABLE tenure.cascade (
    position bigint PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL
);

-- Parents that had not ended when a child was tied to them. A parent that ended meanwhile may not have seen the child:
-- the sweeper looks, once nobody holds the parent.
CREATE TABLE tenure.recheck (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL
);

CREATE TABLE tenure.dead_letter (
    tenant      text COLLATE "C" NOT NULL,
    job_id      text COLLATE "C" NOT NULL,
    at          bigint NOT NULL,
    disposition text NOT NULL,
    new_id      text,
    PRIMARY KEY (tenant, job_id)
);

CREATE TABLE tenure.result (
    expires_at bigint NOT NULL,  -- follows from the record, so it can stand in the key
    seq        bigint NOT NULL,
    body       bytea NOT NULL,
    codec      text NOT NULL,
    PRIMARY KEY (expires_at, seq)
);

CREATE TABLE tenure.slot (
    tenant    text COLLATE "C" NOT NULL,
    job_id    text COLLATE "C" NOT NULL,
    lease_seq bigint NOT NULL,
    queue     text COLLATE "C" NOT NULL,
    grp       text COLLATE "C",
    deadline  bigint NOT NULL,
    PRIMARY KEY (tenant, job_id)
);
CREATE INDEX slot_lane ON tenure.slot (queue, tenant, grp);

CREATE TABLE tenure.bucket (
    tenant text COLLATE "C" NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    grp    text COLLATE "C" NOT NULL,
    tat    bigint NOT NULL,  -- microseconds
    PRIMARY KEY (tenant, queue, grp)
);

CREATE TABLE tenure.position (
    tenant text COLLATE "C" NOT NULL,
    queue  text COLLATE "C" NOT NULL,
    grp    text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, queue)
);

CREATE TABLE tenure.document (
    tenant     text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    body       bytea NOT NULL,
    version    bigint NOT NULL,
    expires_at bigint,
    PRIMARY KEY (tenant, kind, name)
);

CREATE TABLE tenure.inbox (
    seq    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    at     bigint NOT NULL,
    body   bytea NOT NULL,
    xid    xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX inbox_xid ON tenure.inbox (xid);

CREATE TABLE tenure.feed (
    position bigint PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    at       bigint NOT NULL,
    body     bytea NOT NULL  -- NDJSON, one event a line
);
CREATE INDEX feed_tenant ON tenure.feed (tenant, position);

-- Rows that can't be, set aside whole so that they stop nobody (quarantine.py).
CREATE TABLE tenure.quarantine (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq    bigint NOT NULL,
    at     timestamptz NOT NULL DEFAULT now(),
    reason text NOT NULL,
    held   jsonb NOT NULL  -- table → its rows
);

-- Events of one operation are much alike: pglz takes a millisecond for those of 500 jobs, lz4 a tenth of it.
DO $$
BEGIN
    IF EXISTS (SELECT 1 FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE tenure.inbox ALTER COLUMN body SET COMPRESSION lz4;
        ALTER TABLE tenure.feed ALTER COLUMN body SET COMPRESSION lz4;
        ALTER TABLE tenure.job ALTER COLUMN payload SET COMPRESSION lz4;
        ALTER TABLE tenure.result ALTER COLUMN body SET COMPRESSION lz4;
    END IF;
END $$;

-- Rows here come and go, so a table is as long as its backlog and as dead as its traffic.
--
-- * Vacuumed at 1,000 dead rows and 5 % of the table, not at 20 %: with a million waiting jobs that would be 200,000 dead
--   rows, all of them at the head of the index that every claim begins with. Below 1,000 it isn't worth a scan.
-- * The cost delay stays the server's. Without one, vacuum reads again and again what an old snapshot doesn't let it
--   clean, at the expense of everyone else.
-- * The end of a table is never cut off: that takes the table away from everybody for a moment, and it will be full again.
DO $$
DECLARE
    hot text;
BEGIN
    FOREACH hot IN ARRAY ARRAY['ready', 'scheduled', 'running', 'claimed', 'in_order', 'expiring', 'inbox'] LOOP
        EXECUTE format('ALTER TABLE tenure.%I SET (autovacuum_vacuum_scale_factor = 0.05, '
            'autovacuum_vacuum_threshold = 1000, vacuum_truncate = off)', hot);
    END LOOP;
END $$;

-- Rows that are updated in place, in columns that no index has: as long as their page has room for another version they
-- cost no index entry, and whoever reads the page next clears the old ones away. Each of these tables is small.
ALTER TABLE tenure.running SET (fillfactor = 50);  -- renewals
ALTER TABLE tenure.bucket SET (fillfactor = 50);
ALTER TABLE tenure.position SET (fillfactor = 50);
ALTER TABLE tenure.document SET (fillfactor = 50);  -- the workers' signs of life
