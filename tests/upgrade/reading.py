"""Everything that a store keeps, as one version reads it, and the same as another does."""

from collections.abc import AsyncIterator, Iterator
from enum import Enum
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from tenure.domain.calls import DumpPage
from tenure.domain.model.tables import Meta
from tenure.domain.model.transfer import KINDS
from tenure.domain.store import Store

PAGE = 1_000
RESULT = "result"


async def everything(store: Store) -> AsyncIterator[tuple[str, Any]]:
    """Kind and value of each thing that a store keeps: records, bodies, keys, documents, the feed. Freezes it.

    In the order of the dump, but results by their jobs: versions differ in whose order they take.
    """
    decoders = {kind: msgspec.msgpack.Decoder(shape) for kind, shape in KINDS.items()}
    await store.freeze()
    cursor = None
    results: list[Any] = []
    while True:
        page = await store.dump(after=cursor, limit=PAGE)
        assert isinstance(page, DumpPage), page
        for item in page.items:
            value = decoders[item.kind].decode(item.body)
            if item.kind == RESULT:
                results.append(value)
                continue
            for result in sorted(results, key=itemgetter(0)):
                yield RESULT, result
            results.clear()
            yield item.kind, replace(value, mark=0) if isinstance(value, Meta) else value  # the freeze itself moves it
        cursor = page.cursor
        if cursor is None:
            break
    for result in sorted(results, key=itemgetter(0)):
        yield RESULT, result


def shown(value: Any) -> Any:
    """A value as JSON, structs by the names of their fields."""
    match value:
        case msgspec.Struct():
            return {field: shown(getattr(value, field)) for field in value.__struct_fields__}
        case bytes():
            return value.hex()
        case Enum():
            return value.value
        case list() | tuple():
            return [shown(item) for item in value]
        case dict():
            return {str(key): shown(item) for key, item in value.items()}
    return value


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Where what is read now isn't what was shown before: a field that differs or is gone, or a new one that isn't at
    its default.
    """
    if isinstance(after, msgspec.Struct) and isinstance(before, dict):
        yield from (f"{path}.{gone} is gone" for gone in sorted(before.keys() - set(after.__struct_fields__)))
        for field in after.__struct_fields__:
            value, here = getattr(after, field), f"{path}.{field}"
            if field in before:
                yield from differences(before[field], value, here)
            elif value != default_of(after, field):
                yield f"{here} is new and {value!r:.80}, not its default"
    elif isinstance(after, (list, tuple)) and isinstance(before, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif before != shown(after):
        yield f"{path} was {before!r:.80}, is {shown(after)!r:.80}"


def default_of(value: msgspec.Struct, field: str) -> Any:
    """A field's default; `NODEFAULT` for one that has none."""
    (found,) = (one for one in msgspec.structs.fields(value) if one.name == field)
    return found.default if found.default_factory is msgspec.NODEFAULT else found.default_factory()
