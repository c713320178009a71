"""The history checker: proves or refutes that what clients saw of a store keeps the contract.

Independent on purpose: nothing here imports `tenure.domain`, which is what it proves. It has its own table of moves,
its own order, rates, rotation and keys, in their plainest form, over plain JSON.

    checker = Checker(sequential=True)
    for entry in read_history(path):
        checker.feed(entry)      # raises Violation
    summary = checker.finish()   # raises Violation

`violation`  what is said           `ledger`     the state rebuilt from calls (sequential)
`check`      the checker            `sequential` every verb against the ledger, exactly
`feed`       readers' pages         `concurrent` clients and feed under any interleaving
`paths`      the feed replayed      `liveness`   what is stuck at the end
"""

from tenure.testing.checker.check import Checker
from tenure.testing.checker.violation import PROPERTIES, Summary, Violation

__all__ = ["PROPERTIES", "Checker", "Summary", "Violation"]
