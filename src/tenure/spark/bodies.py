"""Payloads and results opened while they are read: as JSON, or typed as a job type's handler has them.

A body that can't be opened is nothing, with the reason in the column beside it: one bad row never ends a read.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tenure.blobs.errors import BlobNotFound
from tenure.blobs.spill import Body, is_spilled, unspill
from tenure.blobs.store import BlobStore
from tenure.codecs import Codecs, known_codecs
from tenure.domain.errors import InvalidValue, NotReady, StoreError
from tenure.domain.job import Result
from tenure.domain.store import Columns
from tenure.engine.app import Tenure
from tenure.engine.definition import Definition
from tenure.engine.importing import import_app
from tenure.engine.sync import PORTAL
from tenure.spark.options import BYTES, PARSED, ReadOptions
from tenure.spark.shapes import JSON, Shape, shape_of
from tenure.spark.tables import TEXT, Field, JobTable

OPENED = {"payload": ("payload", "codec", "tenant", "id"), "result": ("result", "tenant", "id")}
"""The columns that have a body, and the fields that it takes to open it."""


def with_bodies(table: JobTable, options: ReadOptions) -> JobTable:
    """The table with its bodies as the options ask for them. Raises what is wrong with the app or the job type."""
    name = next((column.name for column in table.columns if column.name in OPENED), None)
    if options.bodies == BYTES or name is None:
        return table
    opener = Opener(options, name)
    columns: list[Field] = []
    for column in table.columns:
        if column.name == name:
            columns.append(Field(name, opener.shape.type, f"{name}_value"))
            columns.append(Field(f"{name}_error", TEXT, f"{name}_error"))
        else:
            columns.append(column)
    return JobTable(
        *columns,
        rows=lambda page: opener.added(table.rows(page)),
        needs={*table.needs, *OPENED[name]},
        makes={*table.makes, f"{name}_value", f"{name}_error"},
    )


class Opener:
    """Opens the bodies of one column."""

    def __init__(self, options: ReadOptions, name: str) -> None:
        app = None if options.app is None else import_app(options.app)
        self._name = name
        self._codecs: Codecs = known_codecs() if app is None else app.codecs
        self._blobs: BlobStore | None = None if app is None else app.blob_store
        self._type: Any = Any
        self.shape: Shape = JSON
        if options.bodies == PARSED and app is not None:
            signature = _definition(app, options).signature
            self._type = signature.arguments_type if name == "payload" else signature.result_type
            self.shape = shape_of(self._type)

    def added(self, page: Columns) -> Columns:
        """A page with the opened bodies, and why some aren't."""
        bodies = [_body(*values) for values in zip(*(page[field] for field in OPENED[self._name]), strict=True)]
        opened = [self._opened(*one) for one in bodies]
        values = self._fitting(opened)
        return {**page, f"{self._name}_value": values, f"{self._name}_error": [error for _, error in opened]}

    def _opened(self, body: Body, tenant: str, id: str) -> tuple[Any, str | None]:
        try:
            if is_spilled(body.codec):
                body = PORTAL.run(unspill(self._blobs, tenant, id, body))
            value = self._codecs.get(body.codec).decode(body.content, self._type)
            return self.shape.of(value), None
        except (InvalidValue, NotReady, BlobNotFound, StoreError, TypeError) as error:
            return None, f"{type(error).__name__}: {error}"

    def _fitting(self, opened: list[tuple[Any, str | None]]) -> list[Any]:
        """The values, but for those that Spark's types can't hold: these are put down as errors."""
        values = [value for value, _ in opened]
        if _fits(values, self.shape.type) is None:
            return values
        for at, value in enumerate(values):
            reason = _fits([value], self.shape.type)
            if reason is not None:
                values[at] = None
                opened[at] = (None, reason)
        return values


def _body(*values: Any) -> tuple[Body, str, str]:
    if isinstance(values[0], Result):
        result, tenant, id = values
        return Body(result.body, result.codec), tenant, id
    payload, codec, tenant, id = values
    return Body(payload, codec), tenant, id


def _fits(values: Sequence[Any], type_: pa.DataType) -> str | None:
    try:
        pa.array(values, type_)
    except (pa.ArrowException, OverflowError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _definition(app: Tenure, options: ReadOptions) -> Definition[Any, Any]:
    found = app.definitions.get(options.job_type or "")
    if found is None:
        known = ", ".join(sorted(app.definitions)) or "none at all"
        raise InvalidValue(f"option jobType={options.job_type!r:.80}: {options.app} has {known}")
    return found
