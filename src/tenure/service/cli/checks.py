"""What `tenure doctor` finds."""

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """It works, and may not for long or not for everyone."""
    PROBLEM = "problem"
    """It doesn't work."""


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at, and what to do about it."""

    level: Level
    name: str
    found: str
    advice: str = ""


def ok(name: str, found: str) -> Check:
    return Check(Level.OK, name, found)


def warning(name: str, found: str, advice: str) -> Check:
    return Check(Level.WARNING, name, found, advice)


def problem(name: str, found: str, advice: str) -> Check:
    return Check(Level.PROBLEM, name, found, advice)
