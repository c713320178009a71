"""fsck: what a store keeps beside its records, rebuilt from the records and compared."""

from typing import Protocol, runtime_checkable

from tenure.domain.errors import Unsupported
from tenure.domain.store import Store


@runtime_checkable
class Verifiable(Protocol):
    """A store that can compare its indexes with its records."""

    async def verify(self) -> list[str]:
        """Every difference, in words."""


async def fsck(store: Store) -> list[str]:
    """Everything wrong inside a store; empty for a sound one. Raises `Unsupported` if the store can't tell."""
    if not isinstance(store, Verifiable):
        raise Unsupported(f"the {store.capabilities.name} store can't verify itself")
    return await store.verify()
