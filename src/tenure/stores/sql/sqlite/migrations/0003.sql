-- Schema 3: rows that jobs have beside their records, of any family (`domain/model/attached.py`): tracebacks.
--
-- They go with their job, whoever deletes it: a program of schema 2 that still has the file open doesn't know of them,
-- hence a trigger. With a rowid: rows of many kilobytes don't belong into a key's b-tree.

CREATE TABLE attached (
    seq    INTEGER NOT NULL,
    family TEXT NOT NULL,
    member TEXT NOT NULL,
    body   BLOB NOT NULL,  -- MessagePack
    PRIMARY KEY (seq, family, member)
) STRICT;

CREATE TRIGGER job_gone AFTER DELETE ON job BEGIN
    DELETE FROM attached WHERE seq = old.seq;
END;
