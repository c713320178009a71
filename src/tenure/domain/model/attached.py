"""Rows that jobs have beside their records, each under a name of its own: its member.

No claim, list or success reads or writes them. They are read when they are asked for, written by the operation that
makes them, carried by dump and load, and gone with their job. A family of them is declared here and nowhere else: a
store keeps its rows by (job, family, member), in byte order of the members, and needs no schema of its own for another
one. The families that every store keeps in a place of their own are in `families.py`.
"""

from typing import Any

import msgspec

from tenure.domain.job import Traceback


class Attached(msgspec.Struct, frozen=True):
    """A family of rows beside records."""

    name: str
    """In a store, and in a dump."""
    shape: Any
    """The type of a row's value."""
    most: int
    """Rows a job may have."""


TRACEBACKS = Attached("traceback", Traceback, 20)
"""By lease. Of more than there may be the first go."""

ATTACHED = {family.name: family for family in (TRACEBACKS,)}


def member(lease_seq: int) -> str:
    """A lease as the name of a row: in byte order as in number."""
    return f"{lease_seq:020d}"
