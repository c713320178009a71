"""A view of the schema: a transaction that only reads, and sees nothing of what others commit after it began.

It takes no lock that a writer minds. The server can't clean up behind it, so it isn't for hours.

Rows come by a cursor, a page at a time, the next on its way while one is worked on. 200,000 records into Python, rows
a second: 325,000 to 430,000 so; 265,000 to 385,000 by a cursor that waits, 245,000 by COPY (binary), 240,000 by COPY
(CSV) and pyarrow. ADBC gave 310,000 to 380,000: 523,000 if the columns stay in Arrow, which they can't, since most of a
record is MessagePack. libpq's own stream of rows gave 400,000 to 565,000 for the same processor time, but nothing else
may be asked on its connection meanwhile.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

from psycopg import Connection

from tenure.domain.calls import JobFilter
from tenure.domain.names import Ms
from tenure.domain.store import Clock, Span
from tenure.stores.sql.postgres.connection import Server, translated
from tenure.stores.sql.postgres.lending import Connected
from tenure.stores.sql.postgres.migrate import check
from tenure.stores.sql.postgres.place import Place
from tenure.stores.sql.postgres.runners import OwnRunner
from tenure.stores.sql.query import span_terms
from tenure.stores.sql.rows import Row
from tenure.stores.sql.snapshot import SqlSnapshot

BEGIN = b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
PATIENT = b"""
SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')
"""
"""A page of rare jobs may take long to find, and whoever reads may work on one for long."""
_SCANNING = b"""
SELECT set_config('enable_mergejoin', 'on', true), set_config('enable_hashjoin', 'on', true),
       set_config('enable_seqscan', 'on', true), set_config('cursor_tuple_fraction', '1', true)
"""
"""Everything is read, in order: three tables side by side. One by one, 200,000 records took the server three times as
long (580 ms, not 185)."""


class ViewTables(Connected):
    """The tables as one view of them."""

    def __init__(self, connection: "Connection[Any]", server: Server) -> None:
        super().__init__(OwnRunner(connection), Place(server.schema, slack=0), guest=server.pooled)
        self._numbers = count(1)

    def pages(self, sql: str, values: Sequence[Any], size: int) -> Iterator[list[Row]]:
        name, run = f"view_{next(self._numbers)}", self.pipeline.run
        run(f"DECLARE {name} NO SCROLL CURSOR FOR {self.pipeline.written(sql)}", values)
        asking = f"FETCH {size} FROM {name}"
        found = run(asking, ())
        while True:
            coming = run(asking, ())
            page = found.fetchall()
            if page:
                yield page
            if len(page) < size:
                break
            found = coming
        run(f"CLOSE {name}", ())

    def joins_results(self, where: JobFilter) -> bool:
        """If all are read. They have no index by arrival number: for a few jobs each is looked up by its time.

        Of 200,000 records, 160,000 with a result, each took 12 µs of processor time so, client and server, and 15 with
        look-ups, which had to be waited for too.
        """
        return where == JobFilter(states=where.states)

    def records(self, span: Span, with_results: bool = False) -> str:
        """The span is said of each table: the server doesn't infer it, and would read the others from the first row."""
        within = "".join(f" {word} {term}" for word, term in zip(("WHERE", "AND"), span_terms(span), strict=False))
        more, results = "", ""
        if with_results:
            more = ", result.body AS result_body, result.codec AS result_codec, result.expires_at AS result_expires_at"
            results = f" LEFT JOIN (SELECT * FROM tenure.result{within}) AS result ON result.seq = job.seq"
        return (
            "(SELECT job.seq, job.tenant, job.id, job.queue, job.job_type, job.enqueued_at, job.spec, job.priority, "
            "job.run_at, job.payload, coalesce(running.live, finished.live, job.live) AS live, "
            f"CASE WHEN running.seq IS NULL THEN coalesce(finished.state, job.state) ELSE 'running' END AS state{more} "
            "FROM tenure.job "
            f"LEFT JOIN (SELECT seq, live FROM tenure.running{within}) AS running ON running.seq = job.seq "
            f"LEFT JOIN (SELECT seq, live, state FROM tenure.finished{within}) AS finished ON finished.seq = job.seq"
            f"{results})"
        )

    def number_events(self) -> None:
        """Gives what is told its place in the feed, for those who look at the feed of the view."""
        with self.transaction():
            self.connection.execute("BEGIN")
            self.sequence()
            self.connection.execute("COMMIT")

    def scan_freely(self) -> None:
        """Sets up the transaction for reading much."""
        self.connection.execute(PATIENT)
        self.connection.execute(_SCANNING)


@contextmanager
def snapshot(server: Server, clock: Clock | None) -> Iterator[SqlSnapshot]:
    """The store as it is now, for this thread, until the block ends."""
    with closing(server.connect()) as connection:
        tables = ViewTables(connection, server)
        with translated(server):
            check(connection, server)
            tables.number_events()
            connection.execute(BEGIN)
        with viewed(server, tables, None if clock is None else clock()) as made:
            yield made


@contextmanager
def viewed(server: Server, tables: ViewTables, at: Ms | None) -> Iterator[SqlSnapshot]:
    """What the transaction that has begun sees, at a time that was agreed upon or the server's."""
    with translated(server):
        tables.scan_freely()
        with tables.transaction():
            _, now = tables.begin(writing=False)
            yield SqlSnapshot(tables, now if at is None else at, lambda: translated(server))
