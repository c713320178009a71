"""What a read was asked for, taken from Spark's options once, and checked before any work starts."""

import difflib
from collections.abc import Mapping

import msgspec

from tenure.domain import names
from tenure.domain.calls import JobFilter
from tenure.domain.errors import InvalidValue

KNOWN = ("url", "table", "tenant", "labels", "batch")
"""Spark gives keys in lower case."""
TABLES = ("jobs", "attempts", "events", "dead_letters", "results")
BATCH = 1_000
MOST_BATCH = names.MAX_BATCH


class ReadOptions(msgspec.Struct, frozen=True):
    """Options of `spark.read.format("tenure")`."""

    url: str
    """Where the store is."""
    table: str = "jobs"
    tenant: str | None = None
    """Whose; None: everyone's."""
    labels: dict[str, str] = {}
    """Jobs that carry all of these."""
    batch: int = BATCH
    """Records that are read at once."""

    @property
    def where(self) -> JobFilter:
        """What the options alone ask for."""
        return JobFilter(tenant=self.tenant, labels=self.labels)


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Raises `InvalidValue` that says what to change."""
    for key in given:
        if key not in KNOWN and key != "path":
            raise InvalidValue(f"option {key!r:.80}: {_hint(key)}")
    if given.get("path"):
        raise InvalidValue('a path was given: say .option("url", "sqlite:////path/to/jobs.db").load() instead')
    if not given.get("url"):
        raise InvalidValue('option url: say where the store is, as in .option("url", "sqlite:////path/to/jobs.db")')
    table = given.get("table", "jobs")
    if table not in TABLES:
        raise InvalidValue(f"option table={table!r:.80}: give one of {', '.join(TABLES)}")
    labels = _labels(given.get("labels", ""))
    if labels and table == "events":
        raise InvalidValue("option labels: events carry labels only when a job is enqueued; filter the rows instead")
    tenant = given.get("tenant")
    return ReadOptions(
        url=given["url"],
        table=table,
        tenant=None if tenant is None else names.tenant_name(tenant),
        labels=labels,
        batch=_number("batch", given.get("batch", str(BATCH)), 1, MOST_BATCH),
    )


def _hint(key: str) -> str:
    close = difflib.get_close_matches(key, KNOWN, 1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(KNOWN)}"


def _labels(text: str) -> dict[str, str]:
    """`team=crm,region=eu`."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = part.partition("=")
        if not separator or name in found:
            raise InvalidValue(f"option labels={text!r:.80}: give name=value pairs, each name once")
        found[name] = value
    return names.labels(found) if found else found


def _number(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise InvalidValue(f"option {name}={text!r:.80}: give a number from {least} to {most}")
    return int(text)
