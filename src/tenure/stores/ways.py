"""Which way a call went, for a campaign that must know that every way was taken.

A store may answer one call in several ways: by the model, or by a shorter one where that is faster. Lockstep shows that
the answers are equal, of the ways that were taken. Each store has one `Ways` and names the way as it takes it; without
a listener that is one comparison (35 ns) a call, and one for each job that was claimed before.
"""

from collections.abc import Callable
from enum import StrEnum


class Way(StrEnum):
    """A way that a call can go, or a part of one. The value says which verb it is of, then how it is done."""

    # Enqueue
    ENQUEUE_MODEL = "enqueue: model"
    ENQUEUE_QUICK = "enqueue: one job, without a fiber"
    ENQUEUE_ONE = "enqueue: one job, one statement"
    ENQUEUE_ALIKE = "enqueue: alike, one statement"
    ENQUEUE_NUMBERED = "enqueue: alike, numbered first"
    ENQUEUE_MIXED = "enqueue: mixed, one statement"
    ENQUEUE_JOINED = "enqueue: in a user's transaction"

    # Claim: where it looks
    LOOK_PLAIN = "look: from the beginning of every line"
    LOOK_FRONTIER = "look: from a frontier"
    LOOK_DISCOVER = "look: for a new frontier"
    LOOK_DUE = "look: moves what is due, at a frontier"
    LOOK_GROUPS = "look: groups together"
    LOOK_RING = "look: lines of several lanes together"

    # Claim: how it leases
    CLAIM_MODEL = "claim: model"
    CLAIM_HOT = "claim: hot, as enqueued"
    CLAIM_HOT_AGAIN = "claim: hot, claimed before"
    CLAIM_HOT_GROUP = "claim: hot, of a group"
    CLAIM_HOT_MODEL = "claim: hot, a job by the model"
    CLAIM_LONE = "claim: from the only lane"
    CLAIM_FEW = "claim: few, one statement"
    CLAIM_FEW_FAILED = "claim: few in vain, then the usual way"
    CLAIM_KEPT_AT_ONCE = "claim: kept by one statement"

    # Settle
    SETTLE_MODEL = "settle: model"
    SETTLE_HOT = "settle: hot"
    SETTLE_HOT_AGAIN = "settle: hot, claimed before"
    SETTLE_FINISHED = "settle: one statement"
    SETTLE_KEPT_AT_ONCE = "settle: kept by one statement"

    # Reading what was written in order of arrival
    BORDER = "read: from a border on"
    BORDER_NONE = "read: all there is"

    # Writing
    GROUPED = "write: several calls in one transaction"
    OVERTAKEN = "write: overtaken, begun again"


class Ways:
    """Who listens to which ways a store's calls go: nobody, or one listener. Any thread may call it."""

    __slots__ = ("heard",)

    def __init__(self) -> None:
        self.heard: Callable[[Way], None] | None = None

    def took(self, way: Way) -> None:
        if self.heard is not None:
            self.heard(way)
