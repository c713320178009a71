"""Listing jobs: a filter as one statement, walked newest first, or in order of arrival when all are read.

The statements are in the common text, their values marked by `?` in order.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tenure.domain.calls import JobFilter
from tenure.domain.store import Span


class Terms:
    """Conditions that all hold, and their values."""

    def __init__(self) -> None:
        self._terms: list[str] = []
        self.values: list[Any] = []

    def add(self, sql: str, *given: Any) -> None:
        self._terms.append(sql)
        self.values.extend(given)

    def __str__(self) -> str:
        return " AND ".join(self._terms) or "TRUE"


class Listed(NamedTuple):
    """What the index is on by which the jobs of one tenant are listed."""

    tenant: str = "tenant"
    seq: str = "seq"

    def seq_for(self, where: JobFilter) -> str:
        """What the records that match are ordered by."""
        return "seq" if where.tenant is None else self.seq


LISTED = Listed()


def query_sql(where: JobFilter, before_seq: int | None, limit: int, listed: Listed = LISTED) -> tuple[str, list[Any]]:
    """A page of records, newest first: the statement and its values."""
    terms, seq = _terms(where, listed.tenant), listed.seq_for(where)
    if before_seq is not None:
        terms.add(f"{seq} < ?", before_seq)
    columns = "seq, spec, state, priority, run_at, live"
    return f"SELECT {columns} FROM tenure.record AS record WHERE {terms} ORDER BY {seq} DESC LIMIT ?", [
        *terms.values,
        limit,
    ]


def scan_sql(
    columns: Sequence[str], where: JobFilter, span: Span, records: str, listed: Listed = LISTED
) -> tuple[str, list[Any]]:
    """All records of a span in order of arrival: the statement and its values. `records` is where they are found.

    One statement for all pages: a list of labelled jobs is made once, not for each page.
    """
    terms, seq = _terms(where, listed.tenant), listed.seq_for(where)
    for term in span_terms(span, seq):
        terms.add(term)
    return f"SELECT {', '.join(columns)} FROM {records} AS record WHERE {terms} ORDER BY {seq}", terms.values


def span_terms(span: Span, seq: str = "seq") -> list[str]:
    """What holds for the arrival numbers of a span. They are numbers, so they stand in the text."""
    after = [] if span.after is None else [f"{seq} > {int(span.after)}"]
    until = [] if span.until is None else [f"{seq} <= {int(span.until)}"]
    return after + until


def _terms(where: JobFilter, listed: str) -> Terms:
    """Labels and dead letters are looked up by their own indexes."""
    terms = Terms()
    if where.tenant is not None:
        terms.add(f"{listed} = ?", where.tenant)
    if where.queue is not None:
        terms.add("queue = ?", where.queue)
    if where.job_type is not None:
        terms.add("job_type = ?", where.job_type)
    if where.states is not None:
        marks = ", ".join("?" for _ in where.states)
        terms.add(f"state IN ({marks})", *(state.value for state in where.states))
    if where.enqueued_from is not None:
        terms.add("enqueued_at >= ?", where.enqueued_from)
    if where.enqueued_before is not None:
        terms.add("enqueued_at < ?", where.enqueued_before)
    for name, value in where.labels.items():
        if where.tenant is None:
            terms.add("seq IN (SELECT seq FROM tenure.label WHERE name = ? AND value = ?)", name, value)
        else:
            sql = "seq IN (SELECT seq FROM tenure.label WHERE label.tenant = ? AND name = ? AND value = ?)"
            terms.add(sql, where.tenant, name, value)
    if where.dead_letter is not None:
        sql = (
            "EXISTS (SELECT 1 FROM tenure.dead_letter AS d "
            "WHERE d.tenant = record.tenant AND d.job_id = record.id AND d.disposition = ?)"
        )
        terms.add(sql, where.dead_letter.value)
    return terms
