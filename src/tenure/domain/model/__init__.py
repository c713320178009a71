"""The contract as pure functions: each verb takes a unit of work over a store's tables and answers.

No function here reads a clock, draws a random number or touches anything but its unit. A store begins a `Unit` at its
own now, runs a verb on it, and keeps what the unit changed, atomically.
"""

from tenure.domain.model.claim import claim
from tenure.domain.model.command import command
from tenure.domain.model.enqueue import enqueue
from tenure.domain.model.settle import renew, settle
from tenure.domain.model.sweep import purge, sweep
from tenure.domain.model.tables import Chunk, FinishedBatch, Meta, Tables
from tenure.domain.model.unit import Unit

__all__ = [
    "Chunk",
    "FinishedBatch",
    "Meta",
    "Tables",
    "Unit",
    "claim",
    "command",
    "enqueue",
    "purge",
    "renew",
    "settle",
    "sweep",
]
