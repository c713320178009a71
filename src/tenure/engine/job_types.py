"""Job types as workers publish them: what producers without the code know of them."""

import logging
from typing import Any

import msgspec

from tenure.domain.calls import Document
from tenure.domain.errors import InvalidValue
from tenure.domain.names import EVERYONE
from tenure.domain.store import Store
from tenure.engine.definition import Definition

JOB_TYPE = "job_type"
"""Document kind of a job type; its name is the type's."""

log = logging.getLogger("tenure.worker")


class JobTypeCard(msgspec.Struct, frozen=True, kw_only=True):
    """What a job type takes and gives, as JSON Schemas: enough to enqueue it without its code."""

    name: str
    queue: str
    codec: str
    description: str
    parameters: dict[str, Any]
    result: dict[str, Any]


async def publish(store: Store, definitions: list[Definition[Any, Any]]) -> None:
    """Writes down the job types, where they changed."""
    known = {one.name: one.body for one in await store.list_documents(EVERYONE, JOB_TYPE)}
    for definition in definitions:
        try:
            body = msgspec.json.encode(_card_of(definition))
        except (InvalidValue, TypeError) as error:
            log.warning("job type %s isn't published: %s", definition.name, error)
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
