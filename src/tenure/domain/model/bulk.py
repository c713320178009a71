"""Moves of many jobs at once, as a unit of work keeps them."""

import msgspec

from tenure.domain.job import Job, Result


class BulkLease(msgspec.Struct, frozen=True, gc=False):
    """Jobs of one tenant, queue and group that one claim leased, in the order of their line: at least one.

    Their records differ in spec, priority and run_at alone.
    """

    jobs: list[Job]
    """As they are now."""


class BulkSuccess(msgspec.Struct, frozen=True, gc=False):
    """Jobs of one tenant, queue and group that one call ended well: at least one.

    Their records differ in spec, priority and run_at alone.
    """

    ended: Job
    """The first of them, as it is now."""
    jobs: list[Job]
    """All, as they ran."""
    results: list[tuple[int, Result]]
    """(arrival number, result) of those that have one."""
    frees: bool
    """Whether a job may have waited for a place that they held."""
