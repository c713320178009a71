"""Freeze, dump, load, thaw: everything a store keeps, verbatim, into another."""

from collections.abc import Sequence
from types import GenericAlias
from typing import Any

import msgspec
from msgspec.structs import replace

from tenure.domain.calls import DumpItem, DumpPage, Epoch
from tenure.domain.errors import InvalidValue, NotFrozen, Refused, StoreNotEmpty
from tenure.domain.job import Ref
from tenure.domain.model.attached import ATTACHED
from tenure.domain.model.families import FAMILIES
from tenure.domain.model.tables import Chunk, Meta
from tenure.domain.model.unit import Unit

KINDS: dict[str, Any] = {
    "meta": Meta,
    **{family.name: family.shape for family in FAMILIES.values()},
    **{family.name: GenericAlias(tuple, (Ref, str, family.shape)) for family in ATTACHED.values()},
    "chunk": Chunk,
}
"""What a dump holds, in its order, and the shape of each."""

_encode = msgspec.msgpack.Encoder().encode
_decoders = {kind: msgspec.msgpack.Decoder(shape) for kind, shape in KINDS.items()}


def freeze(unit: Unit) -> Epoch:
    if not unit.meta.frozen:
        unit.meta = replace(unit.meta, frozen=True)
    return Epoch(unit.meta.epoch)


def thaw(unit: Unit) -> Epoch | Refused:
    if not unit.meta.frozen:
        return NotFrozen()
    unit.meta = replace(unit.meta, frozen=False, loading=False, epoch=unit.meta.epoch + 1)
    return Epoch(unit.meta.epoch)


def dump(unit: Unit, after: str | None, limit: int) -> DumpPage | Refused:
    """A page of everything; kinds in their order, each by its key."""
    if not unit.meta.frozen:
        return NotFrozen()
    kind, key = _parsed(after, unit.meta.epoch)
    items: list[DumpItem] = []
    kinds = list(KINDS)
    for current in kinds[kinds.index(kind) :]:
        rows = unit.tables.dump(current, key, limit - len(items))
        items.extend(DumpItem(current, _encode(value)) for _, value in rows)
        if len(items) == limit:
            return DumpPage(tuple(items), f"{unit.meta.epoch} {current} {rows[-1][0]}")
        key = ""
    return DumpPage(tuple(items), None)


def _parsed(after: str | None, epoch: int) -> tuple[str, str]:
    """The kind and key of a cursor. Each freeze has an epoch: pages of two of them aren't one dump."""
    if after is None:
        return next(iter(KINDS)), ""
    given, _, place = after.partition(" ")
    kind, _, key = place.partition(" ")
    if kind not in KINDS or not given.isdecimal():
        raise InvalidValue(f"cursor {after!r:.80}: it isn't one of a dump")
    if int(given) != epoch:
        raise InvalidValue(f"cursor {after!r:.80}: the store was thawed since; begin the dump again")
    return kind, key


def load(unit: Unit, items: Sequence[DumpItem]) -> int | Refused:
    """Writes dumped items into an empty frozen store; the same items again change nothing."""
    meta = unit.meta
    if not meta.frozen:
        return NotFrozen()
    if not meta.loading and (meta.seq or meta.feed_head or unit.tables.dump("document", "", 1)):
        return StoreNotEmpty()
    values = [_value(item) for item in items]
    unit.meta = replace(meta, loading=True)
    for item, value in zip(items, values, strict=True):
        if item.kind == "meta":
            unit.meta = replace(value, frozen=True, loading=True)
        else:
            unit.tables.restore(item.kind, value)
    return len(items)


def _value(item: DumpItem) -> Any:
    """What an item holds. All are read before the first is written, so a damaged one leaves the store as it was."""
    if item.kind not in _decoders:
        raise InvalidValue(f"dump item of unknown kind {item.kind!r:.80}: a newer Tenure wrote it")
    try:
        return _decoders[item.kind].decode(item.body)
    except msgspec.DecodeError as error:
        raise InvalidValue(f"dump item of kind {item.kind}: {error}") from error
