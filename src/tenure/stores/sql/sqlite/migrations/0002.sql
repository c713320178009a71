-- Schema 2: who this store is. Followers of the feed keep a position in it, which means nothing in another store's.

CREATE TABLE identity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id  TEXT NOT NULL
) STRICT;
INSERT INTO identity VALUES (1, lower(hex(randomblob(16))));
