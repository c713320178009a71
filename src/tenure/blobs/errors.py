"""What can go wrong with a blob besides what can go wrong with any store."""

from tenure.domain.errors import Refused, StoreError


class BlobNotFound(Refused):
    """No such blob in this tenant; another tenant's blob answers the same."""

    says = "no such blob in this tenant"


class BlobDamaged(StoreError):
    """What is stored isn't what was put: its size or its hash differs, or it is no plain file."""
