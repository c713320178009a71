"""Configuration of queues and tenants: documents that the store itself reads.

A queue is configured for everyone (tenant `*`) or for one tenant; field by field the nearest set value holds.
"""

import msgspec

from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.names import Ms
from tenure.domain.rate import Bucket, Rate
from tenure.domain.states import Mode

QUEUE = "queue"
"""Document kind of a queue's configuration; its name is the queue."""
TENANT = "tenant"
"""Document kind of a tenant's configuration; its name is the tenant."""

MAX_GROUP_LIMITS = 1_000


class QueueConfig(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is set for a queue at one level; None leaves a field to the next level. Durations in milliseconds."""

    mode: Mode | None = None
    ordered: bool | None = None
    """Keyed only: each group runs one at a time, strictly by arrival."""
    group_limit: int | None = None
    group_limits: dict[str, int] | None = None
    """Limits of single groups, over `group_limit`."""
    group_rate: Rate | None = None
    group_burst: int | None = None
    limit: int | None = None
    rate: Rate | None = None
    burst: int | None = None
    weight: int | None = None
    max_depth: int | None = None
    lease: Ms | None = None
    grace: Ms | None = None
    paused: bool | None = None

    def __post_init__(self) -> None:
        for field in ("group_limit", "limit", "group_burst", "burst"):
            _check(field, getattr(self, field), 1, 1_000_000)
        _check("weight", self.weight, 1, 16)
        _check("max_depth", self.max_depth, 0, 1_000_000_000)
        _check("lease", self.lease, 1, names.DAY)
        _check("grace", self.grace, 0, names.DAY)
        if len(self.group_limits or {}) > MAX_GROUP_LIMITS:
            raise InvalidValue(f"group_limits: at most {MAX_GROUP_LIMITS} groups may have a limit of their own")
        for group, limit in (self.group_limits or {}).items():
            names.text("group", group)
            names.integer(f"group_limits[{group}]", limit, 1, 1_000_000)


class TenantConfig(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is set for a tenant."""

    weight: int | None = None
    paused: bool | None = None

    def __post_init__(self) -> None:
        _check("weight", self.weight, 1, 16)


def _check(field: str, value: int | None, low: int, high: int) -> None:
    if value is not None:
        names.integer(field, value, low, high)


class QueueRules(msgspec.Struct, frozen=True):
    """What holds for one tenant's queue, every level taken into account."""

    mode: Mode = Mode.PLAIN
    ordered: bool = False
    group_limit: int | None = None
    group_limits: dict[str, int] = {}
    group_bucket: Bucket | None = None
    limit: int | None = None
    bucket: Bucket | None = None
    weight: int = 1
    max_depth: int | None = None
    lease: Ms | None = None
    grace: Ms | None = None
    paused: bool = False

    def limit_of(self, group: str) -> int | None:
        """How many jobs of `group` may run at once; None is any number."""
        return 1 if self.ordered else self.group_limits.get(group, self.group_limit)


NO_RULES = QueueRules()


def merge(own: QueueConfig | None, everyone: QueueConfig | None) -> QueueRules:
    """The rules of one tenant's queue, from its own configuration over everyone's."""
    if own is None and everyone is None:
        return NO_RULES
    near, far = own or QueueConfig(), everyone or QueueConfig()

    def nearest(field: str, default: object = None) -> object:
        value = getattr(near, field)
        value = getattr(far, field) if value is None else value
        return default if value is None else value

    def bucket(rate: object, burst: object) -> Bucket | None:
        return Bucket(rate, burst) if isinstance(rate, Rate) and isinstance(burst, int) else None

    mode = nearest("mode", Mode.PLAIN)
    return msgspec.convert(
        {
            "mode": mode,
            "ordered": mode is Mode.KEYED and nearest("ordered", False),
            "group_limit": nearest("group_limit"),
            "group_limits": nearest("group_limits", {}),
            "group_bucket": bucket(nearest("group_rate"), nearest("group_burst", 1)),
            "limit": nearest("limit"),
            "bucket": bucket(nearest("rate"), nearest("burst", 1)),
            "weight": nearest("weight", 1),
            "max_depth": nearest("max_depth"),
            "lease": nearest("lease"),
            "grace": nearest("grace"),
            "paused": bool(near.paused or far.paused),
        },
        QueueRules,
    )
