"""Job types as workers publish them: what producers without the code know of them, and what workers' handlers take.

The card of a type (`JOB_TYPE`) is that of the worker that started last, and stays. During a deploy there are two codes,
so workers also write down what they handle (`HANDLED`), in documents named by their content: those of both codes stand
side by side, each until ten minutes after the last worker of its code.
"""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from tenure.domain.calls import Document
from tenure.domain.errors import InvalidValue
from tenure.domain.names import EVERYONE, MAX_DOCUMENT, MINUTE, SYSTEM, Ms
from tenure.domain.store import Store
from tenure.engine.definition import Definition

JOB_TYPE = "job_type"
"""Document kind of a job type; its name is the type's."""
HANDLED = "handled"
"""Document kind, in the store's own tenant, of the types that workers of one code handle; its name is its digest."""
HANDLED_TTL: Ms = 10 * MINUTE

log = logging.getLogger("tenure.worker")


class JobTypeCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a job type takes and gives, as JSON Schemas: enough to enqueue it without its code."""

    name: str
    queue: str
    codec: str
    description: str
    parameters: dict[str, Any]
    result: dict[str, Any]


class Handled(msgspec.Struct, frozen=True):
    """Job types that workers of one code handle, with the JSON Schema of their parameters; None where there is none."""

    job_types: dict[str, dict[str, Any] | None]


def handled_by(definitions: list[Definition[Any, Any]]) -> list[Document]:
    """What workers with these handlers write down: one document, or as many as their size asks for."""
    return [_document(Handled(part)) for part in _parts({one.name: _parameters(one) for one in definitions})]


def _parameters(definition: Definition[Any, Any]) -> dict[str, Any] | None:
    try:
        parameters: dict[str, Any] = definition.signature.schema()["parameters"]
    except (InvalidValue, TypeError):
        return None  # said where its card is written
    return parameters


def _parts(schemas: dict[str, dict[str, Any] | None]) -> Iterator[dict[str, dict[str, Any] | None]]:
    part: dict[str, dict[str, Any] | None] = {}
    size, most = 0, MAX_DOCUMENT // 2
    for name, schema in sorted(schemas.items()):
        own = len(msgspec.json.encode(schema)) + len(name)
        if part and size + own > most:
            yield part
            part, size = {}, 0
        part[name] = schema if own <= most else None
        size += own
    yield part


def _document(handled: Handled) -> Document:
    body = msgspec.json.encode(handled)
    return Document(tenant=SYSTEM, kind=HANDLED, name=hashlib.sha256(body).hexdigest()[:32], body=body)


async def handled_now(store: Store) -> dict[str, Handled]:
    """What workers of the last ten minutes handle, by documents' names. One that can't be read is left out."""
    found: dict[str, Handled] = {}
    for one in await store.list_documents(SYSTEM, HANDLED):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            found[one.name] = msgspec.json.decode(one.body or b"", type=Handled)
    return found


async def publish(store: Store, definitions: list[Definition[Any, Any]]) -> None:
    """Writes down the job types, where they changed."""
    known = {one.name: one.body for one in await store.list_documents(EVERYONE, JOB_TYPE)}
    for definition in definitions:
        try:
            body = msgspec.json.encode(_card_of(definition))
        except (InvalidValue, TypeError) as error:
            log.warning(
                "job type %s has no schema (%s): it runs, but arguments that are sent without its code go unchecked",
                definition.name,
                error,
            )
            continue
        if known.get(definition.name) != body:
            await store.put_document(Document(tenant=EVERYONE, kind=JOB_TYPE, name=definition.name, body=body))


def _card_of(definition: Definition[Any, Any]) -> JobTypeCard:
    schemas = definition.signature.schema()
    return JobTypeCard(
        name=definition.name,
        queue=definition.queue,
        codec=definition.declared.get("codec", "json"),
        description=(definition.function.__doc__ or "").strip().partition("\n")[0],
        parameters=schemas["parameters"],
        result=schemas["result"],
    )


async def published(store: Store, name: str) -> JobTypeCard | None:
    """What workers say of a job type; None when none has said anything."""
    for document in await store.list_documents(EVERYONE, JOB_TYPE, prefix=name):
        if document.name == name and document.body is not None:
            return msgspec.json.decode(document.body, type=JobTypeCard)
    return None
