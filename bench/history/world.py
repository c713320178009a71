"""The world that a history tells of: who enqueues what, when the load is high, and how things go wrong."""

import math

import msgspec
import numpy as np

from bench.history.chance import Chance
from tenure.domain.names import DAY, HOUR, Ms

Weights = np.ndarray[tuple[int], np.dtype[np.float64]]

_STONES = ("amber", "basalt", "cobalt", "flint", "garnet", "jasper", "opal", "quartz")
_TREES = ("alder", "birch", "cedar", "maple", "rowan")
TENANTS = tuple(f"{stone}-{tree}" for tree in _TREES for stone in _STONES)
"""From the largest to the smallest."""

ZIPF = 1.1
REGIONS = (0, 2, 7)
"""Hours that a tenant's day is shifted by."""

KEYED = {"billing": 4, "sync": 1}
"""Queues whose jobs run in groups, with the groups' limit."""


class Error(msgspec.Struct, frozen=True):
    """A way to fail: the reason is the one a worker would settle with."""

    family: str
    template: str
    reason: str = "error"

    def message(self, chance: Chance) -> str:
        """The template with numbers, ids, names and addresses that differ each time."""
        return self.template.format(
            n=chance.below(10_000),
            m=chance.below(90) + 10,
            uuid=chance.uuid7(chance.bits() >> 14, 0).upper(),
            hex=f"{chance.bits():x}",
            name=_NAMES[chance.below(len(_NAMES))],
        )


_NAMES = ("invoice.pdf", "données.csv", "größe", "北京", "users", "o k", "r\u00e9sum\u00e9 🙂.txt", "")

TIMEOUT = Error("ConnectTimeout", "connect to 10.0.{m}.{n}:443 timed out after {m}.{n} s")
REFUSED = Error("ConnectionRefusedError", "[Errno 111] connection to db-{m} refused (request {uuid})")
STATUS = Error("HTTPStatusError", "server error '50{m}' for url 'https://api.example.com/v1/{name}/{n}'")
RATE = Error("RateLimited", "too many requests,\n\tretry after {m} s")
KEY = Error("KeyError", "'{name}'")
VALUE = Error("ValueError", 'could not convert "{name}" to a number: row {n}, column {m}')
MEMORY = Error("MemoryError", "")
SEGFAULT = Error("Crashed", "the worker process ended while the job ran (signal 11 at 0x{hex})", "crashed")
HUNG = Error("Timeout", "the handler hadn't ended after 3600 s", "timeout")
DEADLOCK = Error("OperationalError", "deadlock detected\nDETAIL: process {n} waits for 0x{hex}; blocked by {n}.\r\n")
UNICODE = Error("UnicodeDecodeError", "“{name}” isn’t UTF‑8: byte 0xFF at {n} … {m} more")
LONG = Error("ValidationError", "{n} errors in order {uuid}: " + "field '{name}' is missing; " * 14)
PERMANENT = Error("NotFound", "customer {uuid} doesn't exist", "permanent")
PAYLOAD = Error("InvalidPayload", "expected `int`, got `str` - at `$.items[{m}].count`", "invalid_payload")

NETWORK = (TIMEOUT, REFUSED, STATUS, RATE)
DATA = (KEY, VALUE, UNICODE, LONG)
HEAVY = (MEMORY, SEGFAULT, HUNG, DEADLOCK)
FATAL = (PERMANENT, PAYLOAD)


class Kind(msgspec.Struct, frozen=True):
    """A job type: its share of the load, how long it runs (a lognormal), how often and how it fails."""

    name: str
    queue: str
    weight: float
    median: Ms
    sigma: float = 0.9
    fails: float = 0.02
    errors: tuple[Error, ...] = NETWORK
    attempts: int = 3
    priority: int = 0
    progress: bool = False
    results: bool = True
    days: float = 0.0
    """Share of its runs that take a day and more."""


KINDS = (
    Kind("mail.send", "mail", 16, 180, fails=0.012, attempts=5),
    Kind("mail.digest", "mail", 3, 900),
    Kind("mail.bounce", "mail", 2, 60, fails=0.005, results=False),
    Kind("webhook.deliver", "webhooks", 14, 350, 1.3, 0.06, attempts=8),
    Kind("webhook.verify", "webhooks", 1.5, 120),
    Kind("image.resize", "images", 9, 700, 0.7, 0.008, HEAVY),
    Kind("image.classify", "images", 3, 1_500, 0.6, 0.01, HEAVY),
    Kind("image.purge", "images", 1, 40, results=False),
    Kind("report.daily", "reports", 1.2, 45_000, 1.0, 0.03, DATA, progress=True),
    Kind("report.export", "reports", 2, 20_000, 1.2, 0.03, DATA, progress=True),
    Kind("import.file", "imports", 2.5, 30_000, 1.4, 0.05, DATA, progress=True),
    Kind("import.row", "imports", 12, 80, 0.8, 0.015, DATA),
    Kind("import.check", "imports", 2, 400, errors=DATA),
    Kind("billing.charge", "billing", 4, 1_200, 0.8, 0.025, attempts=6, priority=50),
    Kind("billing.invoice", "billing", 2, 2_500, priority=20),
    Kind("billing.refund", "billing", 0.5, 1_800, priority=50),
    Kind("sync.account", "sync", 3, 4_000, 1.1, 0.04, attempts=10),
    Kind("sync.calendar", "sync", 3, 1_000, 1.1, 0.03),
    Kind("search.index", "search", 8, 250, 0.9, 0.01, HEAVY, results=False),
    Kind("search.rebuild", "search", 0.3, 600_000, 1.0, 0.05, HEAVY, progress=True),
    Kind("model.train", "models", 0.6, 900_000, 1.5, 0.08, HEAVY, 2, progress=True, days=0.15),
    Kind("model.score", "models", 4, 300, 0.6),
    Kind("cache.warm", "default", 3, 90, priority=-20, results=False),
    Kind("session.clean", "default", 2, 50, results=False),
    Kind("audit.write", "default", 1.5, 30, fails=0.002),
)
BACKLOG = Kind("archive.pack", "archive", 0, 5_000, progress=True)
"""The type of jobs that nobody takes up, when a deep backlog is asked for."""

KIND_NAMED = {kind.name: kind for kind in (*KINDS, BACKLOG)}
WORKERS = {
    queue: tuple(f"{queue}-{number}" for number in range(1, 5))
    for queue in {kind.queue for kind in KIND_NAMED.values()}
}


def shares() -> Weights:
    """Each tenant's part of the load: Zipf."""
    ranks = np.arange(1, len(TENANTS) + 1, dtype=np.float64)
    weights = ranks**-ZIPF
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def load(hour: Ms) -> Weights:
    """What each tenant asks for in the hour that starts then, against its mean: days, nights and weekends."""
    shifted = [hour + REGIONS[number % len(REGIONS)] * HOUR for number in range(len(TENANTS))]
    return np.multiply(shares(), [_of_day(at // HOUR % 24) * _of_week(at // DAY) for at in shifted])


def _of_day(hour: int) -> float:
    """Busy from nine to five, with a midday dip and a batch at two in the morning."""
    office = 1.6 * math.exp(-(((hour - 10) / 2.2) ** 2)) + 1.5 * math.exp(-(((hour - 15) / 2.5) ** 2))
    return 0.25 + office + (0.8 if hour == 2 else 0.0)


def _of_week(day: int) -> float:
    """The epoch was a Thursday."""
    return (1.1, 1.0, 0.3, 0.25, 1.2, 1.15, 1.05)[day % 7]


STORM_HOURS = 36

Storms = dict[tuple[str, int], Error]
"""(job type, hours since the epoch) → the error that nearly every attempt of that hour ends with."""


def storms(rng: np.random.Generator, hours: range) -> Storms:
    """One in a day and a half, at a busy hour, of a type that is common enough to hurt."""
    common = [kind for kind in KINDS if kind.weight >= 8]
    found: Storms = {}
    for start in range(hours.start, hours.stop, STORM_HOURS):
        span = range(start, min(start + STORM_HOURS, hours.stop))
        if rng.random() < len(span) / STORM_HOURS:
            busiest = max(span, key=lambda hour: float(load(hour * HOUR).sum()))
            kind, error = common[int(rng.integers(len(common)))], NETWORK[int(rng.integers(len(NETWORK)))]
            found[kind.name, busiest] = error
    return found
