"""fsck of a SQLite file."""

from tenure.domain.model.entries import WAITING
from tenure.stores.sql.sqlite.tables import SqliteTables
from tenure.stores.sql.verify import QUESTIONS, attached, found, questions, records


def verify(tables: SqliteTables) -> list[str]:
    """Every difference found, in words; empty for a sound store."""
    connection = tables.connection
    connection.execute("BEGIN")
    try:
        problems = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        stored = {table: set(connection.execute(f"SELECT * FROM {table}")) for table in WAITING}
        (border,) = connection.execute("SELECT max(promoted, mark) FROM meta").fetchone()
        problems += records(tables, stored, border, found)
        problems += attached(tables)
        problems += questions(tables, {**QUESTIONS, **_QUESTIONS})
        return problems
    finally:
        connection.execute("ROLLBACK")


_QUESTIONS = {
    "job without a body": "SELECT seq FROM job EXCEPT SELECT seq FROM body",
    "body without a job": "SELECT seq FROM body EXCEPT SELECT seq FROM job",
    "child that nobody will tell of its parent's end": """
        SELECT e.tenant, e.parent, e.child FROM edge AS e JOIN record AS p ON p.tenant = e.tenant AND p.id = e.parent
        WHERE NOT e.resolved AND p.state IN ('succeeded', 'failed', 'cancelled') AND NOT EXISTS (
            SELECT 1 FROM cascade AS w WHERE w.tenant = e.tenant AND w.id = e.parent
        )""",
    "feed with a gap": """
        SELECT m.feed_floor, m.feed_head, f.first, f.last, f.chunks
        FROM meta AS m, (SELECT min(position) AS first, max(position) AS last, count(*) AS chunks FROM feed) AS f
        WHERE f.chunks <> m.feed_head - m.feed_floor
           OR (f.chunks > 0 AND (f.first <> m.feed_floor + 1 OR f.last <> m.feed_head))""",
}
"""Questions whose every answer is a fault."""
