"""Listing jobs: a filter as one statement, walked newest first."""

from typing import Any

from tenure.domain.calls import JobFilter


def query_sql(where: JobFilter, before_seq: int | None, limit: int) -> tuple[str, list[Any]]:
    """The statement and its values. Labels and dead letters are looked up by their own indexes."""
    terms: list[str] = []
    values: list[Any] = []

    def term(sql: str, *given: Any) -> None:
        terms.append(sql)
        values.extend(given)

    if where.tenant is not None:
        term("tenant = ?", where.tenant)
    if where.queue is not None:
        term("queue = ?", where.queue)
    if where.job_type is not None:
        term("job_type = ?", where.job_type)
    if where.states is not None:
        marks = ", ".join("?" for _ in where.states)
        term(f"state IN ({marks})", *(state.value for state in where.states))
    if where.enqueued_from is not None:
        term("enqueued_at >= ?", where.enqueued_from)
    if where.enqueued_before is not None:
        term("enqueued_at < ?", where.enqueued_before)
    for name, value in where.labels.items():
        if where.tenant is None:
            term("seq IN (SELECT seq FROM label WHERE name = ? AND value = ?)", name, value)
        else:
            sql = "seq IN (SELECT seq FROM label WHERE label.tenant = ? AND name = ? AND value = ?)"
            term(sql, where.tenant, name, value)
    if where.dead_letter is not None:
        sql = (
            "EXISTS (SELECT 1 FROM dead_letter AS d "
            "WHERE d.tenant = record.tenant AND d.job_id = record.id AND d.disposition = ?)"
        )
        term(sql, where.dead_letter.value)
    if before_seq is not None:
        term("seq < ?", before_seq)
    condition = " AND ".join(terms) or "1"
    columns = "seq, spec, state, priority, run_at, live"
    return f"SELECT {columns} FROM record WHERE {condition} ORDER BY seq DESC LIMIT ?", [*values, limit]
