"""Listing jobs: a filter as one statement, walked newest first, or in order of arrival when all are read.

The statements are in the common text, their values marked by `?` in order.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tenure.domain.calls import JobFilter
from tenure.domain.model.listing import Comparison, Condition, conditions
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
    for one in conditions(where):
        _add(terms, one, listed, where.tenant)
    return terms


def _add(terms: Terms, one: Condition, listed: str, tenant: str | None) -> None:
    column = listed if one.field == "tenant" else one.field
    match one.test:
        case Comparison.IS:
            terms.add(f"{column} = ?", one.value)
        case Comparison.AMONG:
            marks = ", ".join("?" for _ in one.value)
            terms.add(f"{column} IN ({marks})", *(value.value for value in one.value))
        case Comparison.FROM:
            terms.add(f"{column} >= ?", one.value)
        case Comparison.BEFORE:
            terms.add(f"{column} < ?", one.value)
        case Comparison.LABEL if tenant is None:
            terms.add("seq IN (SELECT seq FROM tenure.label WHERE name = ? AND value = ?)", one.field, one.value)
        case Comparison.LABEL:
            sql = "seq IN (SELECT seq FROM tenure.label WHERE label.tenant = ? AND name = ? AND value = ?)"
            terms.add(sql, tenant, one.field, one.value)
        case Comparison.LETTER:
            sql = (
                "EXISTS (SELECT 1 FROM tenure.dead_letter AS d "
                "WHERE d.tenant = record.tenant AND d.job_id = record.id AND d.disposition = ?)"
            )
            terms.add(sql, one.value.value)
