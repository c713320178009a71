"""Statements as files: `-- name: x` begins one, comments stay with it, a blank line before the next ends it.

One text for every dialect wherever that is possible (the folder `statements` here), and a folder of its own for what a
dialect does better in its own way. The common text names tables as `tenure.job`, parameters as `$1`, and many rows of
parameters by one of three words, each followed by columns and types:

    FROM @keys(tenant text, id text)   the rows themselves, as `want`
    @rows(seq bigint, body bytea)      what an INSERT takes
    (tenant, id) @each(...)            whichever a DELETE is to find

After `@keys`, `@find(tenure.slot AS s: s.id = want.id)` joins what is found for each of them, one by one: SQLite joins
in the order written, PostgreSQL from behind OFFSET 0. Left to itself it would begin with a table that statistics call
empty, and read all of it, dead rows too.

Four words are PostgreSQL's only; three of them are explained where they are used (`postgres/frontier.py`):

    run_at <= @now($3)                          the time that is given, or the transaction's own
    WITH @moment($1, $2)                        what is visible now, and was in a snapshot before
    FROM @news(tenure.ready: queue, seq) AS r   the rows that are new since
    SELECT @walked(tenure.ready_pkey)           how much of indexes the transaction has read, in entries
"""

import re
from collections.abc import Callable
from importlib import resources

import msgspec

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MANY = re.compile(r"@(keys|rows|each)\(([^)]*)\)")
_FIND = re.compile(r"@find\((\S+) AS (\w+): ([^)]*)\)")
_COMMENT = re.compile(r"--[^\n]*")
_MARK = re.compile(r"\?(\d*)")
_MOMENT = re.compile(r"@moment\((\$\d+), (\$\d+)\)")
_NOW = re.compile(r"@now\((\$\d+)\)")
_NEWS = re.compile(r"@news\((\S+): ([^)]*)\)")
_WALKED = re.compile(r"@walked\(([^)]*)\)")

_MOMENT_SQL = r"""moment AS MATERIALIZED (
    SELECT now, before, ARRAY(
        SELECT x FROM pg_snapshot_xip(before) AS x WHERE pg_visible_in_snapshot(x, now)
        UNION ALL SELECT \2::text::xid8 UNION ALL SELECT pg_current_xact_id_if_assigned()
    ) AS ended
    FROM (SELECT pg_current_snapshot() AS now, \1::text::pg_snapshot AS before OFFSET 0) AS taken
)"""
_NOW_SQL = r"coalesce(\1::bigint, floor(extract(epoch FROM now()) * 1000)::bigint)"
_NEWS_SQL = r"""(
    SELECT \2 FROM \1
    WHERE xid >= (SELECT pg_snapshot_xmax(before) FROM moment) AND xid < (SELECT pg_snapshot_xmax(now) FROM moment)
    UNION ALL SELECT \2 FROM \1 WHERE xid = ANY ((SELECT ended FROM moment)::xid8[])
    OFFSET 0
)"""
_WALKED_SQL = (
    "pg_stat_get_xact_tuples_returned({0}) "
    "+ 32 * (pg_stat_get_xact_blocks_fetched({0}) - 3 * pg_stat_get_xact_numscans({0}))"
)
"""Entries that are known to be dead aren't returned, but their pages are read: each takes as long as 32 entries do that
aren't known to be. A look-up reads three pages or fewer, unless there are millions of entries."""


class Statement(msgspec.Struct, frozen=True):
    """A statement as its driver wants it, and the types of the columns that come as arrays."""

    text: str
    types: tuple[str, ...] = ()
    exact: str = ""
    """The same, failing (with a division by zero) unless it changes as many rows as its last parameter says."""
    order: tuple[int, ...] = ()
    """Which parameter each mark stands for, where that isn't simply one after the other."""


Dialect = Callable[[str], Statement]
"""Makes a driver's statement of the common text."""


def load(package: str, dialect: Dialect) -> dict[str, Statement]:
    """The common statements and those of a package's own `statements` folder."""
    found: dict[str, Statement] = {}
    for folder in (__package__ or "", package):
        for file in sorted((resources.files(folder) / "statements").iterdir(), key=lambda file: file.name):
            parts = _NAME.split(file.read_text(encoding="utf-8"))[1:]
            for name, body in zip(parts[::2], parts[1::2], strict=True):
                if name in found:
                    raise AssertionError(f"two statements are named {name}")
                found[name] = dialect(body.strip())
    return found


def _columns(given: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in (column.split() for column in given.split(","))]


def sqlite(text: str) -> Statement:
    """Many keys are one JSON array; many rows are one statement run for each of them."""

    def many(found: re.Match[str]) -> str:
        marks = f"({', '.join('?' for _ in _columns(found[2]))})"
        return {"keys": "json_each(?1) AS want", "rows": f"VALUES {marks}", "each": f"= {marks}"}[found[1]]

    text = _FIND.sub(r"CROSS JOIN \1 AS \2 WHERE \3", text)
    keys = next((_columns(found[2]) for found in _MANY.finditer(text) if found[1] == "keys"), [])
    for at, (name, _) in enumerate(keys):
        text = text.replace(f"want.{name}", f"json_extract(want.value, '$[{at}]')")
    text = _MANY.sub(many, text).replace("tenure.", "")
    return _unnumbered(re.sub(r"\$(\d+)", r"?\1", text))


def _unnumbered(text: str) -> Statement:
    """The same with marks that have no numbers: Python 3.12.0 to 3.12.3 warns of `?1` as of a name (gh-117995)."""
    order: list[int] = []
    text = _COMMENT.sub("", text)
    for found in _MARK.finditer(text):
        order.append(int(found[1]) - 1 if found[1] else max(order, default=-1) + 1)
    return Statement(_MARK.sub("?", text), order=() if order == [*range(len(order))] else tuple(order))


def _walked(indexes: list[str]) -> str:
    return " + ".join(_WALKED_SQL.format(f"'{index}'::regclass") for index in indexes)


def postgres(schema: str) -> Dialect:
    """Many keys or rows are one array for each column."""

    def dialect(text: str) -> Statement:
        text = _NOW.sub(_NOW_SQL, _NEWS.sub(_NEWS_SQL, _MOMENT.sub(_MOMENT_SQL, text)))
        text = _WALKED.sub(lambda found: _walked(found[1].split(", ")), text)
        text = _FIND.sub(r"CROSS JOIN LATERAL (SELECT * FROM \1 AS \2 WHERE \3 OFFSET 0) AS \2", text)
        found = _MANY.search(text)
        columns = [] if found is None else _columns(found[2])
        arrays = ", ".join(f"${at}::{kind}[]" for at, (_, kind) in enumerate(columns, 1))
        named = ", ".join(name for name, _ in columns)
        forms = {
            "keys": f"unnest({arrays}) AS want ({named})",
            "rows": f"SELECT * FROM unnest({arrays}) AS new ({named})",
            "each": f"= ANY ({arrays})" if len(columns) == 1 else f"IN (SELECT * FROM unnest({arrays}))",
        }
        text = _MANY.sub(lambda one: forms[one[1]], text).replace("tenure.", f"{schema}.")
        count = f"SELECT 1 / (count(*) = ${len(columns) + 1})::int FROM changed"
        return Statement(
            text, tuple(kind for _, kind in columns), f"WITH changed AS (\n{text}\nRETURNING 1\n)\n{count}"
        )

    return dialect
