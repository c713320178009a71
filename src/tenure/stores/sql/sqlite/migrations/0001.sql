-- Schema 1 of the SQLite store.
--
-- `job` has one row per job: its `spec`, which never changes, and the rest as it last waited. The payload lies apart in
-- `body`. What changes while a job runs is in its row of `running`, and how it ended in its row of `finished`; these
-- rows are inserted and deleted whole, so a claim and a success leave the wide row alone.
--
-- Where a waiting job stands is said by narrow tables, each ordered as its scan needs it: ready, scheduled, blocked,
-- in_order, expiring. They are derived from the record alone (`entries.py`), moved with it in the same transaction, and
-- `verify` compares them with a rebuild. There are no counters: limits and depths are counted from these tables when a
-- queue has them.
--
-- Roads not taken: the same facts as partial indexes over one wide row (SQLite visits every index whose columns an
-- UPDATE names: 13 µs a transition against 5 µs for a narrow update, a delete and an insert); updating the wide row at
-- each transition (it grows, full pages split: 95 pages in the log for a claim and settle of 200 jobs).

CREATE TABLE meta (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    mark         INTEGER NOT NULL,  -- latest time of any write: the clock never reads less
    seq          INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    frozen       INTEGER NOT NULL,
    loading      INTEGER NOT NULL,
    last_turn    INTEGER,
    hold_until   INTEGER NOT NULL,
    feed_head    INTEGER NOT NULL,
    feed_floor   INTEGER NOT NULL,
    cascade_head INTEGER NOT NULL,
    promoted     INTEGER NOT NULL,  -- jobs with run_at up to here may stand in `ready`
    config       INTEGER NOT NULL   -- counts changes of queue and tenant documents, for caches
) STRICT;
INSERT INTO meta VALUES (1, 0, 0, 1, 0, 0, NULL, 0, 0, 0, 0, 0, 0);

CREATE TABLE job (
    seq         INTEGER PRIMARY KEY,  -- order of arrival
    tenant      TEXT NOT NULL,
    id          TEXT NOT NULL,
    queue       TEXT NOT NULL,
    job_type    TEXT NOT NULL,
    enqueued_at INTEGER NOT NULL,
    spec        BLOB NOT NULL,        -- MessagePack
    state       TEXT NOT NULL CHECK (state IN ('pending', 'blocked')),  -- as it last waited, like live
    priority    INTEGER NOT NULL,
    run_at      INTEGER NOT NULL,
    live        BLOB,                 -- MessagePack: everything else that changes; NULL of a job as it was enqueued
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX listing ON job (tenant, seq);

CREATE TABLE body (
    seq     INTEGER PRIMARY KEY,
    payload BLOB NOT NULL
) STRICT;

CREATE TABLE ready (
    queue      TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    grp        TEXT NOT NULL,     -- '' without a group
    prio_neg   INTEGER NOT NULL,  -- minus priority, so that ascending order is the contract's
    run_at     INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (queue, tenant, grp, prio_neg, run_at, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE scheduled (
    queue      TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    grp        TEXT NOT NULL,
    prio_neg   INTEGER NOT NULL,
    run_at     INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (queue, run_at, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX scheduled_lane ON scheduled (queue, tenant);

CREATE TABLE blocked (
    queue  TEXT NOT NULL,
    tenant TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    PRIMARY KEY (queue, tenant, seq)
) STRICT, WITHOUT ROWID;

-- As many rows as workers have slots, so it is read whole where its other columns are asked for: indexes on them would
-- cost each claim and each settle two b-tree operations more.
CREATE TABLE running (
    seq      INTEGER PRIMARY KEY,
    queue    TEXT NOT NULL,
    tenant   TEXT NOT NULL,
    grp      TEXT NOT NULL,
    token    BLOB NOT NULL,    -- hash of the claim id
    deadline INTEGER NOT NULL, -- lease_until + grace
    live     BLOB NOT NULL
) STRICT;

CREATE TABLE in_order (
    queue      TEXT NOT NULL,
    tenant     TEXT NOT NULL,
    grp        TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (queue, tenant, grp, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE expiring (
    expires_at INTEGER NOT NULL,
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    PRIMARY KEY (expires_at, tenant, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE finished (
    seq   INTEGER PRIMARY KEY,
    day   INTEGER NOT NULL,  -- UTC days since the epoch
    state TEXT NOT NULL CHECK (state IN ('succeeded', 'failed', 'cancelled')),
    live  BLOB NOT NULL
) STRICT;
CREATE INDEX finished_day ON finished (day, state);

-- Every job with the state it is in.
CREATE VIEW record AS
SELECT job.seq, job.tenant, job.id, job.queue, job.job_type, job.enqueued_at, job.spec,
       iif(running.seq IS NULL, coalesce(finished.state, job.state), 'running') AS state,
       job.priority, job.run_at, coalesce(running.live, finished.live, job.live) AS live
FROM job LEFT JOIN running ON running.seq = job.seq LEFT JOIN finished ON finished.seq = job.seq;

CREATE TABLE label (
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    value  TEXT NOT NULL,
    seq    INTEGER NOT NULL,
    PRIMARY KEY (tenant, name, value, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX label_seq ON label (seq);

CREATE TABLE binding (
    tenant      TEXT NOT NULL,
    queue       TEXT NOT NULL,
    job_type    TEXT NOT NULL,
    key         TEXT NOT NULL,
    job_id      TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    uniqueness  TEXT NOT NULL,
    expires_at  INTEGER,
    PRIMARY KEY (tenant, queue, job_type, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX binding_job ON binding (tenant, job_id);
CREATE INDEX binding_expiring ON binding (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE edge (
    tenant     TEXT NOT NULL,
    parent     TEXT NOT NULL,
    child      TEXT NOT NULL,
    child_seq  INTEGER NOT NULL,
    on_failure TEXT NOT NULL,
    resolved   INTEGER NOT NULL,
    PRIMARY KEY (tenant, parent, child)
) STRICT, WITHOUT ROWID;
CREATE INDEX edge_child ON edge (tenant, child);

CREATE TABLE cascade (
    position INTEGER PRIMARY KEY,
    tenant   TEXT NOT NULL,
    id       TEXT NOT NULL
) STRICT;

CREATE TABLE dead_letter (
    tenant      TEXT NOT NULL,
    job_id      TEXT NOT NULL,
    at          INTEGER NOT NULL,
    disposition TEXT NOT NULL,
    new_id      TEXT,
    PRIMARY KEY (tenant, job_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE result (
    expires_at INTEGER NOT NULL,  -- follows from the record, so it can stand in the key
    seq        INTEGER NOT NULL,
    body       BLOB NOT NULL,
    codec      TEXT NOT NULL,
    PRIMARY KEY (expires_at, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE slot (
    tenant    TEXT NOT NULL,
    job_id    TEXT NOT NULL,
    lease_seq INTEGER NOT NULL,
    queue     TEXT NOT NULL,
    grp       TEXT,
    deadline  INTEGER NOT NULL,
    PRIMARY KEY (tenant, job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX slot_lane ON slot (queue, tenant, grp);

CREATE TABLE bucket (
    tenant TEXT NOT NULL,
    queue  TEXT NOT NULL,
    grp    TEXT NOT NULL,
    tat    INTEGER NOT NULL,  -- microseconds
    PRIMARY KEY (tenant, queue, grp)
) STRICT, WITHOUT ROWID;

CREATE TABLE position (
    tenant TEXT NOT NULL,
    queue  TEXT NOT NULL,
    grp    TEXT NOT NULL,
    PRIMARY KEY (tenant, queue)
) STRICT, WITHOUT ROWID;

CREATE TABLE document (
    tenant     TEXT NOT NULL,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    body       BLOB NOT NULL,
    version    INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (tenant, kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE feed (
    position INTEGER PRIMARY KEY,
    tenant   TEXT NOT NULL,
    at       INTEGER NOT NULL,
    body     BLOB NOT NULL  -- NDJSON, one event a line
) STRICT;
CREATE INDEX feed_tenant ON feed (tenant, position);
