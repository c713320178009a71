"""Tenure: a job queue with leases, fencing tokens and tenants, and one semantics on every store.

The contract is `docs/semantics.md`; sections are cited as §n throughout the code.
"""

__version__ = "0.1.0"
