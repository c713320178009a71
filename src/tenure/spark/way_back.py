"""Keys and results as functions of columns, for the way back: Spark runs them where the rows are."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # it is there, its type isn't

from tenure.blobs.spill import Body, unspill
from tenure.blobs.store import BlobStore
from tenure.codecs import Codecs, known_codecs
from tenure.domain.errors import InvalidValue
from tenure.engine.importing import import_app
from tenure.spark.columns import rows_of
from tenure.spark.keys import KeyOf, key_of

Function = Callable[..., Column]
"""Of columns."""


def key_text(columns: Sequence[str]) -> Function:
    """A function of a struct of the key columns: the key that the sink gives such a row; null where it gives none."""

    def text(rows: pa.Array) -> pa.Array:
        key = key_of(columns)
        return pa.array([_or_none(key, row) for row in rows_of(pa.RecordBatch.from_struct_array(rows))], pa.string())

    return cast(Function, arrow_udf(text, "string"))


def _or_none(key: KeyOf, row: dict[str, Any]) -> str | None:
    try:
        return key(row)
    except InvalidValue:
        return None


def result_text(target: str | None) -> Function:
    """A function of result, codec, tenant and job id: the result as JSON.

    `target` is the app whose codecs and blob store are needed, if the ones that come with Tenure aren't enough.
    """

    def text(result: pa.Array, codec: pa.Array, tenant: pa.Array, id: pa.Array) -> pa.Array:
        app = None if target is None else import_app(target)
        codecs, blobs = (known_codecs(), None) if app is None else (app.codecs, app.blob_store)
        bodies = zip(result.to_pylist(), codec.to_pylist(), tenant.to_pylist(), id.to_pylist(), strict=True)
        return pa.array(asyncio.run(_texts(codecs, blobs, list(bodies))), pa.string())

    return cast(Function, arrow_udf(text, "string"))


async def _texts(codecs: Codecs, blobs: BlobStore | None, bodies: Sequence[tuple[Any, ...]]) -> list[str | None]:
    texts: list[str | None] = []
    for content, codec, tenant, id in bodies:
        if content is None or codec == "json":
            texts.append(None if content is None else content.decode())
            continue
        body = await unspill(blobs, tenant, id, Body(content, codec))
        texts.append(msgspec.json.encode(codecs.get(body.codec).decode(body.content)).decode())
    return texts
