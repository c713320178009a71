"""A row becomes a job: the same one that the API would make of the same arguments."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from pyspark.sql.types import StructType

from tenure.codecs import known_codecs
from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.job import NewJob
from tenure.engine.app import DEFAULT_TENANT
from tenure.engine.ids import uuid7
from tenure.engine.importing import import_app
from tenure.engine.options import Options, merged, new_job
from tenure.spark.columns import payload_columns
from tenure.spark.job_type import definition_of
from tenure.spark.keys import key_of
from tenure.spark.options import BATCH_LABEL
from tenure.spark.write_options import WriteOptions

RESULT_TTL = names.DAY // 1_000
"""Seconds that results are kept where neither the job type nor the write says so: a batch takes its time."""

Arguments = Mapping[str, Any]


class JobMaker:
    """Makes the jobs of one write. Raises `InvalidValue` with the reason why a row can't be one."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self.app = None if options.app is None else import_app(options.app)
        definition = None if self.app is None else definition_of(self.app, options.job_type)
        self._signature = None if definition is None else definition.signature
        self._codec = (known_codecs() if self.app is None else self.app.codecs).get(options.codec)
        self._base = _base(options, {} if definition is None else definition.declared)
        self._labels = dict(self._base.get("labels", {}))
        self.key = key_of(options.key_columns)
        self._arguments = _arguments(options, schema)

    def __call__(self, row: Mapping[str, Any]) -> NewJob:
        options, said, arguments = self._options, self._of_the_row(row), self._arguments(row)
        return new_job(
            tenant=self._tenant(row),
            id=uuid7(),
            job_type=options.job_type,
            payload=self._payload(arguments),
            codec=self._codec.name,
            arguments=lambda: arguments if self._signature is None else self._signature.with_defaults(arguments),
            options=cast(Options, {**self._base, **said}),
        )

    def _payload(self, arguments: Arguments) -> bytes:
        if self._signature is None:
            return self._codec.encode(arguments)
        return self._signature.encode(self._signature.bind((), arguments), self._codec)

    def _tenant(self, row: Mapping[str, Any]) -> str:
        column = self._options.tenant_column
        if column is None:
            return self._options.tenant or DEFAULT_TENANT
        tenant: str | None = row[column] or self._options.tenant
        if tenant is None:
            raise InvalidValue(f"tenant column {column!r} is null, and option tenant doesn't say whose such rows are")
        return tenant

    def _of_the_row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What the row says about its job. A null says nothing."""
        options = self._options
        said: dict[str, Any] = {"key": self.key(row), "labels": self._labels_of(row)}
        for name, column in (
            ("queue", options.queue_column),
            ("priority", options.priority_column),
            ("run_at", options.run_at_column),
            ("group", options.group_column),
        ):
            if column is not None and row[column] is not None:
                said[name] = row[column]
        return said

    def _labels_of(self, row: Mapping[str, Any]) -> dict[str, str]:
        column, labels = self._options.labels_column, self._labels
        if column is not None and row[column]:
            if BATCH_LABEL in row[column]:
                raise InvalidValue(f"labels column {column!r}: label {BATCH_LABEL!r} is the write's own; rename it")
            labels = {**labels, **row[column]}
        return labels


def _base(options: WriteOptions, declared: Mapping[str, Any]) -> Options:
    """What holds for every job of the write."""
    given: dict[str, Any] = {
        "unique": "retained",
        "queue": options.queue,
        "priority": options.priority,
        "max_attempts": options.max_attempts,
        "result_ttl": options.result_ttl,
        "labels": {**declared.get("labels", {}), BATCH_LABEL: options.batch},
    }
    said = {name: value for name, value in given.items() if value is not None}
    return merged({"result_ttl": RESULT_TTL, **declared}, said)


def _arguments(options: WriteOptions, schema: StructType) -> Callable[[Mapping[str, Any]], Arguments]:
    struct, columns = options.payload, payload_columns(options, schema)
    if struct is not None:
        return lambda row: _struct(struct, row)
    if columns == schema.names:
        return lambda row: row
    return lambda row: {name: row[name] for name in columns}


def _struct(column: str, row: Mapping[str, Any]) -> Arguments:
    found: Arguments | None = row[column]
    if found is None:
        raise InvalidValue(f"payload column {column!r} is null")
    return found
