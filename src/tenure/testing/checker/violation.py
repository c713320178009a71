"""What the checker says: a contradiction between a history and the contract, or a summary of a history without one."""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tenure.testing.history import Entry

PROPERTIES = {
    "H1": "at most one successful settle per token, none after cancel or loss",
    "H2": "per-job versions dense, a path of the table, nothing after terminal but replayed and discarded",
    "H3": "at most one unexpired lease, lease_seq grows, attempt in range",
    "H4": "no acknowledged enqueue is lost",
    "H5": "nothing invented: what runs is what was enqueued",
    "H6": "group, queue and depth limits",
    "H7": "rates",
    "H8": "cancel wins",
    "H9": "key epochs",
    "H10": "order and fairness",
    "H11": "the feed is prefix-stable, causal and complete",
    "H12": "flows",
    "H13": "results",
    "H14": "tenancy",
    "H15": "liveness",
}


class Violation(AssertionError):
    """The history contradicts the contract: `property` names the promise, `entry` is where it showed."""

    def __init__(self, property: str, message: str, entry: "Entry | None" = None) -> None:
        super().__init__(property, message)
        self.property = property
        self.message = message
        self.entry = entry

    def __str__(self) -> str:
        where = "" if self.entry is None else f"\n  at {self.entry.process}/{self.entry.call} {self.entry.verb}"
        return f"{self.property} ({PROPERTIES[self.property]}): {self.message}{where}"


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a history without contradictions amounts to."""

    entries: int = 0
    calls: int = 0
    refused: int = 0
    unknown: int = 0
    events: int = 0
    acknowledged: int = 0
    """Enqueued jobs that a client was told of."""
    enqueued: int = 0
    """Jobs that the feed tells of."""
    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    recovered: int = 0
    """Leases taken from workers that were lost (events `lease_lost`)."""
    dead_lettered: int = 0
    live: int = 0
    """Jobs that haven't ended."""
    lost: int = 0
    """Acknowledged jobs that the feed knows nothing of."""
    settled_twice: int = 0
    feed_complete: bool = False
    """The feed was read to its end after the last change."""
