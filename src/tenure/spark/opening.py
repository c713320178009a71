"""Opening a store from one of Spark's processes."""

from typing import cast

from tenure.domain.errors import Unsupported
from tenure.domain.store import SnapshotStore
from tenure.stores.opening import open_store


def snapshot_store(url: str) -> SnapshotStore:
    """The store at a URL, if Spark's processes can read it."""
    store = open_store(url)
    if not store.capabilities.multi_process:
        raise Unsupported(f"the {store.capabilities.name} store lives in one process: Spark's can't read it")
    if not hasattr(store, "snapshot"):
        raise Unsupported(f"the {store.capabilities.name} store can't be read by Spark")
    return cast(SnapshotStore, store)
