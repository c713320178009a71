"""H2, H3, H11, H12, H14 of the checker: the feed, in itself and against what happened."""

from typing import Any

import pytest

from tests.test_checker_builders import START, Body, Tape, settled, violates


def two_jobs(*, sequential: bool = True) -> Tape:
    tape = Tape(sequential=sequential)
    tape.enqueue("j1")
    tape.enqueue("j2", "b")
    return tape


def test_following_rereading_and_a_tenants_view_agree() -> None:
    tape = two_jobs()
    first, second = tape.enqueued("j1"), tape.enqueued("j2", "b")
    tape.events(second, first)
    tape.events(second, first, after=None, cursor="c2")
    tape.events(second, tenant="b", after=None, cursor="b1")
    tape.events()


def test_h11_the_past_changes() -> None:
    tape = two_jobs()
    first, second = tape.enqueued("j1"), tape.enqueued("j2", "b")
    tape.events(first, second)
    with violates("H11", "a later reader"):
        tape.events(second, first, after=None)


def test_h11_a_tenants_view_differs_from_the_feed() -> None:
    tape = two_jobs(sequential=False)
    tape.events(tape.enqueued("j1"), tape.enqueued("j2", "b"))
    tape.events(tape.enqueued("j1", priority=9), tenant="a", after=None)
    with violates("H11"):
        tape.finish()


def test_h14_a_tenant_sees_anothers_event() -> None:
    tape = two_jobs()
    with violates("H14"):
        tape.events(tape.enqueued("j2", "b"), tenant="a", after=None)


def test_h11_one_cursor_for_two_places() -> None:
    tape = two_jobs(sequential=False)
    tape.events(tape.enqueued("j1"), cursor="same")
    tape.events(tape.enqueued("j2", "b"), cursor="same")
    with violates("H11", "cursor"):
        tape.finish()


def test_h11_an_event_is_missing() -> None:
    tape = two_jobs()
    with violates("H11", "missing"):
        tape.events(tape.enqueued("j1"))


def test_h11_an_event_that_nothing_explains() -> None:
    tape = two_jobs()
    extra = tape.event("cancelled", "j1", 2)
    with violates("H11"):
        tape.events(tape.enqueued("j1"), extra)


@pytest.mark.parametrize(
    ("property_", "wrong"),
    [
        ("H11", {"priority": 7}),
        ("H11", {"run_at": START + 1}),
        ("H11", {"at": START + 1}),
        ("H11", {"group": "x"}),
        ("H11", {"key_hash": "00"}),
        ("H5", {"payload_size": 99}),
        ("H5", {"payload_hash": "0" * 64}),
    ],
)
def test_an_event_says_something_wrong(property_: str, wrong: Body) -> None:
    tape = Tape()
    tape.enqueue("j1")
    with violates(property_, next(iter(wrong))):
        tape.events(tape.enqueued("j1", **wrong))


@pytest.mark.parametrize("wrong", [{"run_ms": 7}, {"run_ms": None}, {"reason": "error"}, {"result_size": 3}])
def test_h11_the_end_of_a_lease_says_something_wrong(wrong: Body) -> None:
    tape = Tape()
    tape.enqueue("j1")
    tape.claim(tape.job("j1"))
    tape.settle("j1", "succeed", settled("succeeded"))
    with violates("H11"):
        tape.events(tape.enqueued("j1"), tape.claimed("j1"), tape.ended("succeeded", "j1", **wrong))


def test_h11_a_cursor_goes_on_past_what_is_gone() -> None:
    tape = two_jobs()
    tape.events(tape.enqueued("j1"), tape.enqueued("j2", "b"), cursors=["c1~1", "c2"])
    with violates("H11", "sees nothing"):
        tape.events(after="c1~1", cursor="c9")


def test_h11_a_cursor_within_a_page_stands_elsewhere_later() -> None:
    tape = two_jobs()
    first, second = tape.enqueued("j1"), tape.enqueued("j2", "b")
    tape.events(first, second, cursors=["c1~1", "c2"])
    tape.events(second, after="c1~1", cursor="c2")
    with violates("H11", "cursor"):
        tape.events(first, second, after=None, cursors=["c0", "c1~1"], cursor="c2")


def test_h11_a_cursor_expires_before_its_time() -> None:
    tape = two_jobs()
    tape.events(tape.enqueued("j1"), tape.enqueued("j2", "b"))
    with violates("H11", "retention"):
        asked = {"tenant": None, "after": "c2", "limit": 10}
        tape.call("events", asked, {"refused": "CursorExpired", "args": []}, phase="refused")


def test_a_trimmed_feed_begins_later() -> None:
    tape = two_jobs()
    first, second = tape.enqueued("j1"), tape.enqueued("j2", "b")
    tape.events(first, second)
    tape.tick(14 * 86_400_000 + 1)
    tape.events(second, after=None, cursor="c2")


# The account in itself, as under any interleaving


def account(*events: Any, jobs: tuple[str, ...] = ("j1",), **more: Any) -> Tape:
    """Jobs that were sent, and a page of events about them."""
    tape = Tape(sequential=False)
    for id_ in jobs:
        tape.enqueue(id_, **more)
    tape.events(*(event(tape) for event in events))
    return tape


def enqueued(id_: str = "j1", **more: Any) -> Any:
    version = more.pop("version_", 1)
    return lambda tape: {**tape.enqueued(id_, **more), "version": version}


def claimed(version: int = 2, id_: str = "j1", **more: Any) -> Any:
    return lambda tape: tape.claimed(id_, version, at=START, **more)


def ended(kind: str, version: int = 3, id_: str = "j1", **more: Any) -> Any:
    return lambda tape: tape.ended(kind, id_, version, at=more.pop("at", START), **more)


def test_a_good_path() -> None:
    tape = account(
        enqueued(), claimed(), ended("released", attempt=0), claimed(4, lease_seq=2), ended("succeeded", 5, lease_seq=2)
    )
    tape.finish()


@pytest.mark.parametrize(
    ("property_", "events"),
    [
        ("H2", [enqueued(version_=2)]),
        ("H2", [enqueued(), enqueued()]),
        ("H2", [enqueued(), claimed(3)]),
        ("H2", [enqueued(), ended("succeeded", 2, lease_seq=0, attempt=0)]),
        ("H2", [enqueued(), claimed(), ended("succeeded"), ended("failed", 4)]),
        ("H2", [enqueued(), claimed(), ended("succeeded"), claimed(4, lease_seq=2, attempt=2)]),
        ("H8", [enqueued(), claimed(), ended("cancelled"), ended("succeeded", 4)]),
        ("H3", [enqueued(), claimed(), claimed(3, lease_seq=2, attempt=2)]),
        ("H3", [enqueued(), claimed(lease_seq=2)]),
        ("H3", [enqueued(max_attempts=0), claimed()]),
        ("H3", [enqueued(), claimed(), ended("lease_lost", at=START)]),
        ("H10", [enqueued(run_at=START + 1), claimed()]),
        ("H11", [claimed()]),
        ("H11", [enqueued(), claimed(), ended("succeeded", at=START - 1)]),
    ],
)
def test_a_bad_path(property_: str, events: list[Any]) -> None:
    tape = account(*events)
    with violates(property_):
        tape.finish()


def test_h12_a_child_is_unblocked_before_its_parent_ends() -> None:
    tape = Tape(sequential=False)
    tape.enqueue("j1")
    tape.enqueue("j2", parents=["j1"])
    tape.events(tape.enqueued("j1"), tape.enqueued("j2"), tape.event("unblocked", "j2", 2))
    with violates("H12"):
        tape.finish()
