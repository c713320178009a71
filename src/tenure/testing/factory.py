"""How the suites get a store to prove. A new store's test file is a factory and a few lines."""

from typing import Protocol

from tenure.domain.store import Clock, Store


class StoreFactory(Protocol):
    """Makes migrated, empty stores of one kind, each in a private place."""

    name: str

    async def create(self, clock: Clock) -> Store:
        """A new empty store that tells time by `clock`."""

    async def crash(self, store: Store, clock: Clock) -> Store:
        """Ends the store's process as a crash would and opens what survived.

        A store that survives nothing (memory) answers the same store, untouched.
        """

    async def second(self, store: Store, clock: Clock) -> Store:
        """Another client of the same store, as from another process; memory answers the same store."""

    async def destroy(self, store: Store) -> None:
        """Closes the store and removes all it kept."""
