"""Jobs that code declares to come again and again: `@app.job(cron="0 3 * * *", tz="Europe/Rome")`, or `every=60`.

Workers keep a document beside each declared schedule. It names what their code declares, each declaration with the
store's time when a worker first and last had it. Of those that a worker had in the last ten minutes, the one that was
first seen last holds: workers of old and new code don't undo each other's, and after a roll back the older holds again.
Time in which workers ran and none of them declared the schedule adds up; after 24 hours it pauses.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec

from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.names import DAY, MINUTE, SECOND, Ms
from tenure.engine.cron import cron
from tenure.engine.durations import milliseconds

DECLARATION = "declaration"
"""Document kind of what is known of a declared schedule's code; its name is the schedule's."""

LOOK: Ms = 2 * MINUTE
"""How often a worker says what it declares."""
LIVE: Ms = 10 * MINUTE
"""How long a declaration counts after a worker last had it."""
REMEMBERED: Ms = DAY
"""How long a declaration isn't new when it comes back: its worker may only have been away."""
UNDECLARED: Ms = DAY
"""How long a schedule goes on that no worker declares."""
MOST_SEEN = 20
"""Declarations of one schedule that are kept: every worker having one of its own must not grow the document."""

PERIODIC_OPTIONS = ("cron", "every", "tz")


class Periodic(NamedTuple):
    """When a declared job comes: by a cron expression in a time zone, or at an interval."""

    cron: str | None
    every_ms: Ms | None
    tz: str


def periodic(job: str, options: Mapping[str, Any]) -> Periodic | None:
    """What a job's options say of when it comes; None: they don't. Raises `InvalidValue`."""
    expression, every, tz = (options.get(name) for name in PERIODIC_OPTIONS)
    if expression is not None and every is not None:
        raise InvalidValue(f"job {job}: cron and every both say when it comes; give one")
    if tz is not None and expression is None:
        raise InvalidValue(f"job {job}: tz is the time zone of a cron expression; give cron too, or leave it out")
    try:
        if expression is not None:
            cron(names.text("cron", expression), names.text("tz", "UTC" if tz is None else tz))
            return Periodic(expression, None, "UTC" if tz is None else cast(str, tz))
        if every is None:
            return None
        interval = milliseconds("every", every)
    except InvalidValue as error:
        raise InvalidValue(f"job {job}: {error}") from None
    if interval < SECOND:
        raise InvalidValue(f"job {job}: every {every!r:.80}: give an interval of 1 second or more")
    return Periodic(None, interval, "UTC")


class Seen(msgspec.Struct, frozen=True):
    """When workers first and last had a declaration, by the store's time."""

    first: Ms
    last: Ms


class Declaration(msgspec.Struct, frozen=True):
    """What workers know of a declared schedule's code."""

    seen: dict[str, Seen] = {}
    """By the digest of what was declared."""
    looked_at: Ms = 0
    missing: Ms = 0
    """How long workers have run since one of them declared it."""

    def looked(self, now: Ms, digest: str | None) -> "Declaration":
        """The same after the look of a worker that declares it so, or not at all (None)."""
        seen = {one: times for one, times in self.seen.items() if now - times.last < REMEMBERED}
        if digest is None:
            ran = min(now - self.looked_at, 2 * LOOK) if self.looked_at else 0
            return Declaration(seen, now, self.missing + ran)
        seen[digest] = Seen(seen[digest].first if digest in seen else now, now)
        kept = sorted(seen, key=lambda one: (seen[one].last, seen[one].first, one))[-MOST_SEEN:]
        return Declaration({one: seen[one] for one in kept}, now)

    def fresh(self, now: Ms, digest: str | None) -> bool:
        """Whether another look so soon would say nothing new."""
        said = self.looked_at if digest is None else self.seen[digest].last if digest in self.seen else 0
        return now - said < LOOK // 2

    def holds(self, now: Ms) -> str | None:
        """The declaration that counts; None when no worker has declared the schedule in the last ten minutes."""
        live = [(times.first, digest) for digest, times in self.seen.items() if now - times.last < LIVE]
        return max(live)[1] if live else None


def declaration_of(body: bytes | None) -> Declaration:
    """What a document says; one that can't be read says nothing."""
    try:
        return Declaration() if body is None else msgspec.json.decode(body, type=Declaration)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Declaration()
