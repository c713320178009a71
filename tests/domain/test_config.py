"""Configuration (§11): bounds of every field, and which level's value holds."""

from typing import Any

import msgspec
import pytest

from tenure.domain.config import NO_RULES, QueueConfig, QueueRules, TenantConfig, merge
from tenure.domain.errors import InvalidValue
from tenure.domain.names import DAY, SECOND
from tenure.domain.rate import Bucket, Rate
from tenure.domain.states import Mode


def test_nothing_set() -> None:
    assert merge(None, None) == merge(QueueConfig(), None) == merge(None, QueueConfig()) == NO_RULES == QueueRules()
    assert (NO_RULES.mode, NO_RULES.weight, NO_RULES.limit, NO_RULES.paused) == (Mode.PLAIN, 1, None, False)


def test_the_nearest_set_value_holds_field_by_field() -> None:
    rules = merge(QueueConfig(limit=2, weight=3), QueueConfig(limit=5, max_depth=0, lease=7_000))
    assert (rules.limit, rules.weight, rules.max_depth, rules.lease) == (2, 3, 0, 7_000)


def test_a_set_zero_or_false_is_set() -> None:
    rules = merge(QueueConfig(max_depth=0, grace=0), QueueConfig(max_depth=9, grace=9))
    assert (rules.max_depth, rules.grace) == (0, 0)
    keyed = QueueConfig(mode=Mode.KEYED, ordered=True)
    assert merge(QueueConfig(ordered=False), keyed).ordered is False


@pytest.mark.parametrize(
    ("own", "everyone", "paused"),
    [(None, True, True), (False, True, True), (True, False, True), (True, None, True), (False, None, False)],
)
def test_paused_anywhere_is_paused(own: bool | None, everyone: bool | None, paused: bool) -> None:
    assert merge(QueueConfig(paused=own), QueueConfig(paused=everyone)).paused is paused


def test_rate_and_burst_may_come_from_two_levels() -> None:
    rules = merge(QueueConfig(burst=4, group_rate=Rate(1, SECOND)), QueueConfig(rate=Rate(2, SECOND)))
    assert rules.bucket == Bucket(Rate(2, SECOND), 4)
    assert rules.group_bucket == Bucket(Rate(1, SECOND), 1)
    assert merge(QueueConfig(burst=4), None).bucket is None


def test_the_limit_of_a_group() -> None:
    rules = merge(QueueConfig(mode=Mode.KEYED, group_limit=2, group_limits={"big": 9}), None)
    assert (rules.limit_of("big"), rules.limit_of("small")) == (9, 2)
    assert merge(QueueConfig(mode=Mode.KEYED), None).limit_of("any") is None


def test_ordered_groups_run_one_at_a_time() -> None:
    rules = merge(QueueConfig(mode=Mode.KEYED, ordered=True, group_limit=5, group_limits={"big": 9}), None)
    assert (rules.limit_of("big"), rules.limit_of("small")) == (1, 1)


def test_order_needs_a_keyed_queue() -> None:
    assert merge(QueueConfig(ordered=True), None).ordered is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("limit", 0),
        ("limit", -1),
        ("limit", True),
        ("group_limit", 0),
        ("burst", 0),
        ("group_burst", 0),
        ("weight", 0),
        ("weight", 17),
        ("max_depth", -1),
        ("lease", 0),
        ("lease", DAY + 1),
        ("grace", -1),
        ("grace", DAY + 1),
    ],
)
def test_bad_queue_values(field: str, value: int) -> None:
    fields: dict[str, Any] = {field: value}
    with pytest.raises(InvalidValue, match=f"^{field} "):
        QueueConfig(**fields)


def test_bad_group_limits() -> None:
    with pytest.raises(InvalidValue, match=r"^group_limits\[g\] 0"):
        QueueConfig(group_limits={"g": 0})
    with pytest.raises(InvalidValue, match=r"^group "):
        QueueConfig(group_limits={"": 1})
    with pytest.raises(InvalidValue, match=r"^group_limits: at most 1000"):
        QueueConfig(group_limits={f"g{number}": 1 for number in range(1_001)})


@pytest.mark.parametrize("weight", [0, 17, True])
def test_bad_tenant_values(weight: int) -> None:
    with pytest.raises(InvalidValue, match=r"^weight "):
        TenantConfig(weight=weight)


@pytest.mark.parametrize(
    "config",
    [
        QueueConfig(),
        QueueConfig(mode=Mode.KEYED, ordered=True, group_limits={"g": 2}, rate=Rate(3, SECOND), burst=2, paused=True),
    ],
)
def test_a_configuration_survives_json(config: QueueConfig) -> None:
    assert msgspec.json.decode(msgspec.json.encode(config), type=QueueConfig) == config


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="limits"):
        msgspec.json.decode(b'{"limits": 1}', type=QueueConfig)
