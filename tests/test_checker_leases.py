"""H1, H2, H3, H8 of the checker, sequential: leases, settles, cancels, and the order of refusals."""

from contextlib import nullcontext
from typing import Any

import pytest

from tests.test_checker_builders import GRACE, START, TTL, Body, Tape, outcome, refused, settled, token, violates


def running(**more: Any) -> Tape:
    """One job under its first lease."""
    tape = Tape()
    tape.enqueue("j1", **more)
    tape.claim(tape.job("j1"))
    return tape


def renewed(until: int, *, cancel_requested: bool = False) -> Body:
    return {"type": "Renewed", "lease_until": until, "cancel_requested": cancel_requested}


def test_the_same_settle_again_gets_the_same_answer() -> None:
    tape = running()
    tape.settle("j1", "succeed", settled("succeeded"))
    tape.settle("j1", "succeed", settled("succeeded"))
    tape.settle("j1", "fail", refused("JobFinished", "succeeded"))


def test_h1_a_token_settled_with_two_outcomes() -> None:
    tape = running()
    tape.settle("j1", "succeed", settled("succeeded"))
    with violates("H1"):
        tape.settle("j1", "fail", settled("failed"))


def test_h1_a_repeated_settle_must_not_be_refused() -> None:
    tape = running()
    tape.settle("j1", "retry", settled("pending"))
    with violates("H1"):
        tape.settle("j1", "retry", refused("LeaseLost"))


def test_h1_a_stale_worker_succeeds_while_attempt_two_runs() -> None:
    tape = running()
    tape.tick(TTL + GRACE + 1)
    tape.sweep(lost=1)
    second = tape.job("j1", lease_seq=2, version=4, attempt=2)
    tape.claim(second, claim_id="c2", worker="w")
    tape.settle("j1", "succeed", refused("LeaseLost"))
    with violates("H1", "LeaseLost"):
        tape.settle("j1", "succeed", settled("succeeded"))


def test_h1_the_secret_is_the_fence_not_the_lease_number() -> None:
    tape = running()
    with violates("H1", "LeaseLost"):
        tape.settle("j1", "succeed", settled("succeeded"), secret="forged")


@pytest.mark.parametrize("late", [0, 1])
def test_holder_and_sweep_are_exact_complements(late: int) -> None:
    tape = running()
    tape.tick(TTL + GRACE + late)
    if late:
        tape.settle("j1", "succeed", refused("LeaseExpired"))
        tape.sweep(lost=1)
    else:
        tape.sweep(lost=0)
        tape.settle("j1", "succeed", settled("succeeded"))


def test_h3_a_settle_after_the_deadline() -> None:
    tape = running()
    tape.tick(TTL + GRACE + 1)
    with violates("H3", "LeaseExpired"):
        tape.settle("j1", "succeed", settled("succeeded"))


def test_h3_a_lease_swept_at_its_deadline() -> None:
    tape = running()
    tape.tick(TTL + GRACE)
    with violates("H3"):
        tape.sweep(lost=1)


def test_h15_an_expired_lease_left_by_sweep() -> None:
    tape = running()
    tape.tick(TTL + GRACE + 1)
    with violates("H15"):
        tape.sweep(lost=0)


@pytest.mark.parametrize(("named", "right"), [(["j1"], True), ([], False), (["j1", "j2"], False), (["j2"], False)])
def test_h15_a_sweep_names_what_it_fails(named: list[str], right: bool) -> None:
    tape = running(max_attempts=1)
    tape.enqueue("j2", max_attempts=2)
    tape.claim(tape.job("j2"), claim_id="c2")
    tape.tick(TTL + GRACE + 1)
    with nullcontext() if right else violates("H15", "names"):
        tape.sweep(lost=2, failed=named)


def test_a_held_sweep_takes_nothing() -> None:
    tape = running()
    tape.tick(TTL + GRACE + 1)
    tape.sweep(lost=0, hold=50)
    tape.tick(49)
    tape.sweep(lost=0)
    tape.tick(1)
    tape.sweep(lost=1)


def test_h3_a_shorter_hold_must_not_shorten_a_longer_one() -> None:
    tape = running()
    tape.tick(TTL + GRACE + 1)
    tape.sweep(lost=0, hold=50)
    tape.sweep(lost=0, hold=1)
    tape.tick(49)
    with violates("H3"):
        tape.sweep(lost=1)


def test_h3_a_held_sweep_takes_a_lease() -> None:
    tape = running()
    tape.tick(TTL + GRACE + 1)
    with violates("H3"):
        tape.sweep(lost=1, hold=50)


def test_h15_the_turn_is_once_per_interval() -> None:
    tape = running()
    tape.sweep(interval=100)
    tape.tick(99)
    tape.sweep(interval=100, turn=False)
    tape.tick(1)
    with violates("H15", "turn"):
        tape.sweep(interval=100, turn=False)


def test_renewal_extends_and_never_shortens() -> None:
    tape = running()
    tape.tick(500)
    tape.renew("j1", renewed(START + 500 + TTL))
    tape.tick(-400)
    tape.renew("j1", renewed(START + 500 + TTL))


def test_h3_a_renewal_that_shortens() -> None:
    tape = running()
    tape.tick(500)
    with violates("H3"):
        tape.renew("j1", renewed(START + 400 + TTL))


def test_h3_the_same_lease_given_out_twice() -> None:
    tape = running()
    with violates("H3", "running"):
        tape.claim(tape.job("j1", lease_seq=2), claim_id="c2")


def test_a_claim_id_in_use_answers_what_it_holds() -> None:
    tape = running()
    tape.enqueue("j2")
    tape.claim(tape.job("j1"), cursor=["", 0, 0])


def test_h3_a_claim_id_in_use_takes_more() -> None:
    tape = running()
    tape.enqueue("j2")
    with violates("H3", "claim id in use"):
        tape.claim(tape.job("j2"), cursor=["", 0, 0])


def test_h3_lease_seq_must_grow() -> None:
    tape = running()
    tape.settle("j1", "release", settled("pending"))
    with violates("H3"):
        tape.claim(tape.job("j1", lease_seq=1, version=4), claim_id="c2")


def test_h3_a_release_gives_the_attempt_back() -> None:
    tape = running()
    tape.settle("j1", "release", settled("pending"))
    with violates("H3", "attempt"):
        tape.claim(tape.job("j1", lease_seq=2, version=4, attempt=2), claim_id="c2")


def test_a_job_that_dies_on_its_last_attempt_fails() -> None:
    tape = running(max_attempts=1)
    tape.tick(TTL + GRACE + 1)
    tape.sweep(lost=1)
    tape.settle("j1", "succeed", refused("JobFinished", "failed"))
    tape.claim(claim_id="c2")


def test_h2_a_claim_past_the_last_attempt() -> None:
    tape = running(max_attempts=1)
    tape.tick(TTL + GRACE + 1)
    tape.sweep(lost=1)
    with violates("H2", "failed"):
        tape.claim(tape.job("j1", lease_seq=2, version=4, attempt=2), claim_id="c2")


def test_h1_spent_attempts_end_in_failed() -> None:
    tape = running(max_attempts=1)
    with violates("H1"):
        tape.settle("j1", "retry", settled("pending"))


def test_releases_beyond_their_most_fail() -> None:
    tape = running()
    tape.settle("j1", "release", settled("failed"), delay=5, reason="snooze", at_most=0)


def test_h1_releases_beyond_their_most_go_on() -> None:
    tape = running()
    with violates("H1"):
        tape.settle("j1", "release", settled("pending"), delay=5, reason="snooze", at_most=0)


# Cancel wins


def test_cancel_before_the_settle_wins() -> None:
    tape = running()
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": True})
    tape.settle("j1", "succeed", refused("JobCancelled"))
    tape.renew("j1", refused("JobCancelled"))
    tape.command("Cancel", "j1", refused("JobFinished", "cancelled"))


def test_h8_a_settle_after_cancel() -> None:
    tape = running()
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": True})
    with violates("H8"):
        tape.settle("j1", "succeed", settled("succeeded"))


def test_h8_a_renewal_after_cancel() -> None:
    tape = running()
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": True})
    with violates("H8"):
        tape.renew("j1", renewed(START + TTL))


def test_h8_a_cancelled_job_is_claimed() -> None:
    tape = Tape()
    tape.enqueue("j1")
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": False})
    with violates("H8"):
        tape.claim(tape.job("j1"))


def test_h8_cancel_of_an_ended_job_says_how_it_ended() -> None:
    tape = running()
    tape.settle("j1", "succeed", settled("succeeded"))
    with violates("H8"):
        tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": False})


def test_a_cancel_request_decides_what_a_retry_leads_to() -> None:
    tape = running()
    tape.command("RequestCancel", "j1", {"type": "CancelRequested"})
    tape.renew("j1", renewed(START + TTL, cancel_requested=True))
    tape.settle("j1", "retry", settled("cancelled"))


def test_h3_a_renewal_hides_the_cancel_request() -> None:
    tape = running()
    tape.command("RequestCancel", "j1", {"type": "CancelRequested"})
    with violates("H3"):
        tape.renew("j1", renewed(START + TTL))


def test_a_requested_cancel_whose_worker_died_is_cancelled() -> None:
    tape = running()
    tape.command("RequestCancel", "j1", {"type": "CancelRequested"})
    tape.tick(TTL + GRACE + 1)
    tape.sweep(lost=1)
    tape.settle("j1", "succeed", refused("JobCancelled"))


def test_h8_a_requested_cancel_whose_worker_died_runs_again() -> None:
    tape = running()
    tape.command("RequestCancel", "j1", {"type": "CancelRequested"})
    tape.tick(TTL + GRACE + 1)
    tape.sweep(lost=1)
    with violates("H8", "cancelled"):
        tape.claim(tape.job("j1", lease_seq=2, version=5, attempt=2, cancel_requested=True), claim_id="c2")


# Commands


def test_h2_only_pending_jobs_are_moved() -> None:
    tape = running()
    tape.command("Reprioritise", "j1", refused("NotPending", "running"), priority=5)
    with violates("H2"):
        tape.command("Reprioritise", "j1", {"type": "Reprioritised", "priority": 5}, priority=5)


def test_replay_of_a_failed_job() -> None:
    tape = running()
    tape.command("Replay", "j1", refused("NotDeadLettered", "running"), new_id="j2")
    tape.settle("j1", "fail", settled("failed"))
    tape.command("Replay", "j1", {"type": "Replayed", "new_id": "j2", "created": True}, new_id="j2")
    tape.command("Replay", "j1", {"type": "Replayed", "new_id": "j2", "created": True}, new_id="j2")
    tape.command("Replay", "j1", {"type": "Replayed", "new_id": "j2", "created": False}, new_id="j3")
    tape.command("Discard", "j1", refused("AlreadyReplayed", "j2"))


def test_h2_a_second_replay_makes_another_job() -> None:
    tape = running()
    tape.settle("j1", "fail", settled("failed"))
    tape.command("Replay", "j1", {"type": "Replayed", "new_id": "j2", "created": True}, new_id="j2")
    with violates("H2"):
        tape.command("Replay", "j1", {"type": "Replayed", "new_id": "j3", "created": True}, new_id="j3")


def test_h2_discard_after_replay() -> None:
    tape = running()
    tape.settle("j1", "fail", settled("failed"))
    tape.command("Replay", "j1", {"type": "Replayed", "new_id": "j2", "created": True}, new_id="j2")
    with violates("H2", "AlreadyReplayed"):
        tape.command("Discard", "j1", {"type": "Discarded"})


# Freeze


def test_a_frozen_store_renews_and_settles_only() -> None:
    tape = running()
    tape.call("freeze", {}, {"reply": {"type": "Epoch", "epoch": 1}})
    tape.enqueue("j2", reply=refused("StoreFrozen"))
    tape.renew("j1", renewed(START + TTL))
    tape.settle("j1", "succeed", settled("succeeded"))
    tape.call("thaw", {}, {"reply": {"type": "Epoch", "epoch": 2}})
    tape.call("thaw", {}, refused("NotFrozen"), phase="refused")


def test_h2_a_frozen_store_takes_a_job() -> None:
    tape = running()
    tape.call("freeze", {}, {"reply": {"type": "Epoch", "epoch": 1}})
    with violates("H2", "StoreFrozen"):
        tape.enqueue("j2")


def test_h3_thaw_must_raise_the_epoch() -> None:
    tape = running()
    tape.call("freeze", {}, {"reply": {"type": "Epoch", "epoch": 1}})
    with violates("H3", "epoch"):
        tape.call("thaw", {}, {"reply": {"type": "Epoch", "epoch": 1}})


# Unknown outcomes


@pytest.mark.parametrize("happened", [False, True])
def test_a_settle_without_an_answer_may_have_happened(happened: bool) -> None:
    tape = running()
    item = {"token": token("j1"), "outcome": outcome("succeed")}
    tape.call("settle", {"settlements": [item]}, {"error": "StoreUnavailable"}, phase="unknown")
    if happened:
        tape.settle("j1", "fail", refused("JobFinished", "succeeded"))
    else:
        tape.settle("j1", "fail", settled("failed"))
    with violates("H1"):
        tape.settle("j1", "retry", settled("pending"))
