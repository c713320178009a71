"""Names, ids and limits, validated in one place.

Every check returns its value, so that it reads as `queue = name("queue", queue)`, and raises `InvalidValue` with the
field, the value and what is allowed.
"""

import re
from typing import NewType

from tenure.domain.errors import InvalidValue

Tenant = NewType("Tenant", str)
JobId = NewType("JobId", str)
QueueName = NewType("QueueName", str)

Ms = int
"""Integer milliseconds: a duration, or a time since the Unix epoch in UTC."""

SYSTEM = "_system"
"""The tenant of events that concern the whole store."""
EVERYONE = "*"
"""The tenant of configuration that is the default for each tenant."""

SECOND: Ms = 1_000
MINUTE: Ms = 60 * SECOND
HOUR: Ms = 60 * MINUTE
DAY: Ms = 24 * HOUR

MAX_PAYLOAD = 256 * 1024
MAX_RESULT = 64 * 1024
MAX_MESSAGE = 1024
MAX_BATCH = 1_000
MAX_LABELS = 16
MAX_TEXT = 256
MAX_FAMILY = 128
MAX_TRACEBACK = 16 * 1024
MAX_PARENTS = 1_000
MAX_CHILDREN = 1_000
MAX_DOCUMENT = 256 * 1024
MAX_TIME: Ms = 253_402_300_799_999
"""The last millisecond of the year 9999."""
MAX_DURATION: Ms = 3_660 * DAY

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LEFT_OUT = "\n[{} bytes left out]\n"


def name(field: str, value: str) -> str:
    """A tenant, queue, job type, worker, schedule, label or document name."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InvalidValue(f"{field} {value!r:.80}: give 1 to 64 of A-Z a-z 0-9 . _ -")
    return value


def tenant_name(value: str) -> str:
    """A user's tenant: names that start with `_` belong to the store."""
    name("tenant", value)
    if value[0] == "_":
        raise InvalidValue(f"tenant {value!r}: names that start with _ belong to the store")
    return value


def job_id(value: str, field: str = "id") -> str:
    """A UUID in its canonical lower-case form; version 7 keeps the store's pages together."""
    if not isinstance(value, str) or not _UUID.fullmatch(value):
        raise InvalidValue(f"{field} {value!r:.80}: give a UUID in lower-case canonical form")
    return value


def text(field: str, value: str, most: int = MAX_TEXT) -> str:
    """A key, group or label value: 1 to `most` bytes of UTF-8 without control characters."""
    if not isinstance(value, str) or not value or _CONTROL.search(value):
        raise InvalidValue(f"{field} {value!r:.80}: give 1 to {most} bytes of text without control characters")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidValue(f"{field} {value!r:.80}: it can't be written as UTF-8") from None
    if size > most:
        raise InvalidValue(f"{field} has {size} bytes: at most {most} are allowed")
    return value


def prose(field: str, value: str, most: int) -> str:
    """A text of any characters: at most `most` bytes of UTF-8."""
    if not isinstance(value, str):
        raise InvalidValue(f"{field}: give text, not {type(value).__name__}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidValue(f"{field}: it can't be written as UTF-8") from None
    if size > most:
        raise InvalidValue(f"{field} has {size} bytes: at most {most} are allowed")
    return value


def shortened(value: str, most: int) -> str:
    """A text cut to at most `most` bytes of UTF-8: what is too much goes from its middle, with a note of how much."""
    body = value.encode(errors="replace")
    if len(body) <= most:
        return body.decode()
    half = (most - len(_LEFT_OUT.format(len(body)))) // 2
    note = _LEFT_OUT.format(len(body) - 2 * half)
    return f"{body[:half].decode(errors='ignore')}{note}{body[-half:].decode(errors='ignore')}"


def integer(field: str, value: int, low: int, high: int) -> int:
    """An integer (never a bool) within `low..high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidValue(f"{field} {value!r:.80}: give an integer from {low} to {high}")
    return value


def duration(field: str, value: Ms, low: Ms = 0) -> Ms:
    """A duration in milliseconds."""
    return integer(field, value, low, MAX_DURATION)


def instant(field: str, value: Ms) -> Ms:
    """A time in milliseconds since the Unix epoch."""
    return integer(field, value, 0, MAX_TIME)


def size(field: str, value: bytes, most: int) -> bytes:
    """A body of at most `most` bytes."""
    if not isinstance(value, bytes):
        raise InvalidValue(f"{field}: give bytes, not {type(value).__name__}")
    if len(value) > most:
        raise InvalidValue(f"{field} has {len(value)} bytes: at most {most} are allowed")
    return value


def labels(value: dict[str, str]) -> dict[str, str]:
    """At most 16 labels: a name each, with a short text."""
    if not isinstance(value, dict) or len(value) > MAX_LABELS:
        raise InvalidValue(f"labels: give at most {MAX_LABELS} names with their values")
    for label, content in value.items():
        name("label", label)
        text(f"label {label}", content)
    return value
