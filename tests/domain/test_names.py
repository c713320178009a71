"""Names, ids and limits: what is accepted, and that a refusal names its field."""

import pytest

from tenure.domain import names
from tenure.domain.errors import InvalidValue

GOOD_NAMES = ["a", "Z9", "send_mail", "v1.2-beta", ".", "-", "x" * 64]
BAD_NAMES = ["", "x" * 65, "a b", "a/b", "é", "a\n", "\n", "a:b", "*", "٣"]


@pytest.mark.parametrize("value", GOOD_NAMES)
def test_a_name(value: str) -> None:
    assert names.name("queue", value) == value


@pytest.mark.parametrize("value", [*BAD_NAMES, None, 3, b"a"])
def test_not_a_name(value: str) -> None:
    with pytest.raises(InvalidValue, match=r"^queue "):
        names.name("queue", value)


def test_a_tenant_doesnt_start_with_an_underscore() -> None:
    assert names.tenant_name("acme_1") == "acme_1"
    with pytest.raises(InvalidValue, match=r"^tenant '_system'"):
        names.tenant_name("_system")
    with pytest.raises(InvalidValue, match=r"^tenant ''"):
        names.tenant_name("")
    with pytest.raises(InvalidValue, match=r"^tenant '\*'"):
        names.tenant_name("*")


def test_an_id_is_a_canonical_uuid() -> None:
    id = "0190c3a0-1b2c-7def-8abc-0123456789ab"
    assert names.job_id(id) == id


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1",
        "0190C3A0-1B2C-7DEF-8ABC-0123456789AB",
        "0190c3a01b2c7def8abc0123456789ab",
        "{0190c3a0-1b2c-7def-8abc-0123456789ab}",
        "0190c3a0-1b2c-7def-8abc-0123456789ag",
        "0190c3a0-1b2c-7def-8abc-0123456789ab\n",
        None,
    ],
)
def test_not_an_id(value: str) -> None:
    with pytest.raises(InvalidValue, match=r"^new_id "):
        names.job_id(value, "new_id")


@pytest.mark.parametrize("value", ["k", "order:42", "a b", "é" * 128, "x" * 256, "𝄞"])
def test_a_text(value: str) -> None:
    assert names.text("key", value) == value


@pytest.mark.parametrize("value", ["", "a\x00b", "a\nb", "\x7f", "\x85", "é" * 129, "x" * 257, "\ud800", None, 3])
def test_not_a_text(value: str) -> None:
    with pytest.raises(InvalidValue, match=r"^key "):
        names.text("key", value)


@pytest.mark.parametrize("value", [-100, 0, 100])
def test_an_integer(value: int) -> None:
    assert names.integer("priority", value, -100, 100) == value


@pytest.mark.parametrize("value", [-101, 101, True, 1.0, "1", None])
def test_not_an_integer(value: int) -> None:
    with pytest.raises(InvalidValue, match=r"^priority .* from -100 to 100"):
        names.integer("priority", value, -100, 100)


def test_a_duration_isnt_negative() -> None:
    assert names.duration("delay", 0) == 0
    with pytest.raises(InvalidValue, match=r"^delay -1"):
        names.duration("delay", -1)
    with pytest.raises(InvalidValue, match=r"^expires 0"):
        names.duration("expires", 0, 1)
    with pytest.raises(InvalidValue, match=r"^delay "):
        names.duration("delay", names.MAX_DURATION + 1)


def test_an_instant_is_within_four_digit_years() -> None:
    assert names.instant("run_at", names.MAX_TIME) == 253_402_300_799_999
    for value in (-1, names.MAX_TIME + 1):
        with pytest.raises(InvalidValue, match=r"^run_at "):
            names.instant("run_at", value)


def test_a_size() -> None:
    assert names.size("payload", b"x" * 10, 10) == b"x" * 10
    with pytest.raises(InvalidValue, match=r"^payload has 11 bytes: at most 10"):
        names.size("payload", b"x" * 11, 10)
    with pytest.raises(InvalidValue, match=r"^payload: give bytes, not str"):
        names.size("payload", "text", 10)  # type: ignore[arg-type]  # what a careless caller does


def test_labels() -> None:
    most = {f"label-{number}": "x" for number in range(16)}
    assert names.labels(most) == most
    with pytest.raises(InvalidValue, match=r"^labels: .* 16"):
        names.labels({**most, "one-more": "x"})
    with pytest.raises(InvalidValue, match=r"^label 'a b'"):
        names.labels({"a b": "x"})
    with pytest.raises(InvalidValue, match=r"^label team "):
        names.labels({"team": ""})
    with pytest.raises(InvalidValue, match=r"^label team has 257 bytes"):
        names.labels({"team": "x" * 257})


def test_a_long_value_isnt_quoted_whole() -> None:
    with pytest.raises(InvalidValue) as caught:
        names.name("queue", "x" * 100_000)
    assert len(str(caught.value)) < 200


def test_the_limits_of_the_contract() -> None:
    assert names.MAX_PAYLOAD == 256 * 1024
    assert names.MAX_RESULT == 64 * 1024
    assert names.MAX_MESSAGE == 1024
    assert (names.MAX_PARENTS, names.MAX_CHILDREN, names.MAX_LABELS) == (1_000, 1_000, 16)
