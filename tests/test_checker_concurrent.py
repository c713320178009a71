"""The checker over several clients at once: what they were told against the store's own account."""

from typing import Any

import pytest

from tests.test_checker_builders import GRACE, START, TTL, Body, Tape, digest, duplicate, refused, settled, violates


def story(**more: Any) -> Tape:
    """One job, claimed by c1."""
    tape = Tape(sequential=False)
    tape.enqueue("j1", **more)
    tape.claim(tape.job("j1"))
    return tape


def close(tape: Tape, *events: Body) -> None:
    """The feed is read to its end."""
    tape.events(*events)
    tape.events()


def finish(tape: Tape, *events: Body) -> None:
    """The feed is read to its end, and the history ends."""
    close(tape, *events)
    tape.finish()


def late(tape: Tape, kind: str, **more: Any) -> Body:
    at = tape.now + TTL + GRACE + 10
    return tape.ended(kind, "j1", at=at, run_ms=at - START, **more)


def opening(tape: Tape) -> list[Body]:
    return [tape.enqueued("j1"), tape.claimed("j1", at=START)]


def test_a_good_story() -> None:
    tape = story()
    tape.settle("j1", "succeed", settled("succeeded"))
    close(tape, *opening(tape), tape.ended("succeeded", "j1", at=START))
    tape.note("end", drained=True)

    summary = tape.finish()

    assert summary.feed_complete
    assert (summary.succeeded, summary.lost, summary.live) == (1, 0, 0)


def test_h1_two_outcomes_of_one_token() -> None:
    tape = story()
    tape.settle("j1", "succeed", settled("succeeded"))
    with violates("H1"):
        tape.settle("j1", "retry", settled("pending"))


def test_h1_a_settle_that_the_feed_does_not_know() -> None:
    tape = story()
    tape.settle("j1", "succeed", settled("succeeded"))
    with violates("H1"):
        finish(tape, *opening(tape))


def test_h1_a_settle_of_a_lost_lease() -> None:
    tape = story()
    tape.settle("j1", "retry", settled("pending"))
    with violates("H1", "lost"):
        finish(tape, *opening(tape), late(tape, "lease_lost"))


def test_a_lease_of_a_job_that_was_purged_says_nothing_of_the_next_under_its_id() -> None:
    tape = story()
    tape.settle("j1", "succeed", settled("succeeded"))
    first = [*opening(tape), tape.ended("succeeded", "j1", at=START)]
    tape.call("purge", {"succeeded": 0, "cancelled": 0, "failed": 0}, {"reply": None})
    tape.enqueue("j1")
    tape.claim(tape.job("j1"), claim_id="c2")
    purged = {"tenant": "_system", "kind": "purged", "at": START, "job_id": None, "version": None, "count": 1}
    finish(tape, *first, purged, *opening(tape), late(tape, "lease_lost"))


def test_h3_one_lease_for_two_claims() -> None:
    tape = story()
    with violates("H3", "given out twice"):
        tape.claim(tape.job("j1"), claim_id="c2")


def test_h3_a_lease_lost_before_its_renewed_deadline() -> None:
    tape = story()
    lost = late(tape, "lease_lost")
    tape.renew("j1", {"type": "Renewed", "lease_until": lost["at"], "cancel_requested": False})
    with violates("H3", "holder had until"):
        finish(tape, *opening(tape), lost)


def test_h4_an_acknowledged_job_is_not_in_the_feed() -> None:
    tape = Tape(sequential=False)
    tape.enqueue("j1")
    with violates("H4"):
        finish(tape)


def test_an_unknown_enqueue_may_be_in_the_feed_or_not() -> None:
    for happened in (True, False):
        tape = Tape(sequential=False)
        tape.enqueue("j1")
        tape.specs[("a", "j2")] = {**tape.specs[("a", "j1")], "id": "j2"}
        asked = {"jobs": [tape.specs[("a", "j2")]], "atomic": False}
        tape.call("enqueue", asked, {"error": "OutcomeUnknown"}, phase="unknown")
        close(tape, tape.enqueued("j1"), *([tape.enqueued("j2")] if happened else []))
        tape.finish()


def test_h5_a_job_that_nobody_sent() -> None:
    tape = Tape(sequential=False)
    tape.enqueue("j1")
    tape.specs[("a", "j2")] = tape.specs[("a", "j1")]
    with violates("H5", "nobody sent it"):
        finish(tape, tape.enqueued("j1"), tape.enqueued("j2"))


def test_h5_a_claim_gives_another_payload() -> None:
    tape = Tape(sequential=False)
    tape.enqueue("j1")
    with violates("H5"):
        tape.claim(tape.job("j1", payload="other"))


def test_h6_more_run_than_the_limit() -> None:
    tape = Tape(sequential=False)
    tape.configure(limit=1)
    tape.enqueue("j1")
    tape.enqueue("j2")
    events = [tape.enqueued("j1"), tape.enqueued("j2"), tape.claimed("j1", at=START)]
    with violates("H6"):
        finish(tape, *events, tape.claimed("j2", at=START))


def test_h6_a_draining_slot_counts() -> None:
    for confirmed in (True, False):
        tape = Tape(sequential=False)
        tape.configure(mode="keyed", group_limit=1)
        tape.enqueue("j1", group="x")
        tape.enqueue("j2", group="x")
        tape.claim(tape.job("j1"))
        tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": True})
        if confirmed:
            tape.settle("j1", "release", refused("JobCancelled"))
        first = tape.claimed("j1", at=START, group_holders=1, group_limit=1)
        second = tape.claimed("j2", at=START, group_holders=1, group_limit=1)
        events = [tape.enqueued("j1"), tape.enqueued("j2"), first, tape.ended("cancelled", "j1", at=START), second]
        if confirmed:
            finish(tape, *events)
        else:
            with violates("H6"):
                finish(tape, *events)


def test_a_limit_set_while_jobs_run_is_not_held_against_earlier_claims() -> None:
    tape = Tape(sequential=False)
    tape.enqueue("j1")
    tape.enqueue("j2")
    events = [tape.enqueued("j1"), tape.enqueued("j2"), tape.claimed("j1", at=START), tape.claimed("j2", at=START)]
    tape.configure(limit=1)
    tape.events(*events)
    tape.finish()


def test_h7_claims_faster_than_the_rate() -> None:
    tape = Tape(sequential=False)
    tape.configure(rate=[1, 100])
    tape.enqueue("j1")
    tape.enqueue("j2")
    events = [tape.enqueued("j1"), tape.enqueued("j2"), tape.claimed("j1", at=START)]
    with violates("H7"):
        finish(tape, *events, tape.claimed("j2", at=START + 99))


@pytest.mark.parametrize("early", [0, 21])
def test_a_job_ahead_of_the_clock_of_its_claim_says_little_of_the_rate(early: int) -> None:
    """A claim at START + 120 takes both. The first was released at START + 250, by a clock ahead of the claim's."""
    tape = Tape(sequential=False)
    tape.configure(rate=[1, 100], burst=2)
    tape.enqueue("j1")
    tape.enqueue("j2")
    events = [
        tape.enqueued("j1"),
        tape.enqueued("j2"),
        tape.claimed("j1", at=START),
        tape.ended("retry_scheduled", "j1", at=START + 250, run_ms=250, run_at=START),
        tape.claimed("j1", 4, at=START + 250, lease_seq=2, attempt=2),
        tape.claimed("j2", at=START + 120 - early),
    ]
    if early:
        with violates("H7"):
            tape.events(*events)
            tape.finish()
    else:
        tape.events(*events)
        tape.finish()


def test_claims_that_overlap_are_made_in_the_feeds_order() -> None:
    """The second read the clock first, and came to the bucket when the first had gone."""
    tape = Tape(sequential=False)
    tape.configure(rate=[1, 100], burst=2)
    tape.enqueue("j1")
    tape.enqueue("j2")
    events = [tape.enqueued("j1"), tape.enqueued("j2"), tape.claimed("j1", at=START + 216)]
    tape.events(*events, tape.claimed("j2", at=START + 100))
    tape.finish()


def test_h8_a_success_of_a_cancelled_job() -> None:
    tape = story()
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": True})
    with violates("H8"):
        tape.settle("j1", "succeed", settled("succeeded"))


def test_h8_a_cancel_that_the_feed_does_not_know() -> None:
    tape = story()
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": True})
    with violates("H8"):
        finish(tape, *opening(tape))


def test_h9_a_key_held_twice() -> None:
    tape = Tape(sequential=False)
    tape.enqueue("j1", key="k")
    tape.enqueue("j2", key="k")
    with violates("H9"):
        finish(tape, tape.enqueued("j1"), tape.enqueued("j2"))


def test_h10_a_claim_past_expiry() -> None:
    tape = Tape(sequential=False)
    tape.enqueue("j1", expires=10)
    with violates("H10"):
        finish(tape, tape.enqueued("j1"), tape.claimed("j1", at=START + 10))


def test_h11_a_claim_that_the_feed_does_not_know() -> None:
    tape = story()
    with violates("H11"):
        finish(tape, tape.enqueued("j1"))


def test_h12_a_child_stays_blocked() -> None:
    tape = Tape(sequential=False)
    tape.enqueue("j1")
    tape.enqueue("j2", parents=["j1"])
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": False})
    with violates("H12"):
        finish(tape, tape.enqueued("j1"), tape.enqueued("j2"), tape.event("cancelled", "j1", 2))


def test_h13_a_result_that_nobody_sent() -> None:
    tape = story(key="k")
    tape.settle("j1", "succeed", settled("succeeded"), result=digest("r"))
    tape.get("j1", tape.view("j1", result={"body": digest("r"), "codec": "json", "expires_at": 0}))
    with violates("H13"):
        tape.get("j1", tape.view("j1", result={"body": digest("s"), "codec": "json", "expires_at": 0}))


def test_h14_a_duplicate_of_another_tenants_job() -> None:
    tape = Tape(sequential=False)
    tape.enqueue("j1", key="k")
    tape.enqueue("j2", key="k", reply=duplicate("j1"))
    with violates("H14"):
        tape.enqueue("j3", "b", key="k", reply=duplicate("j1"))


def test_h15_a_job_runs_past_its_deadline_after_a_sweep() -> None:
    tape = story()
    tape.note("heal")
    tape.tick(TTL + GRACE + 1)
    tape.sweep()
    with violates("H15", "past its deadline"):
        finish(tape, *opening(tape))


def test_a_job_may_run_past_its_deadline_before_healing() -> None:
    tape = story()
    tape.tick(TTL + GRACE + 1)
    tape.sweep()
    close(tape, *opening(tape))
    assert tape.finish().live == 1


def test_h15_a_job_is_left_when_workers_found_nothing() -> None:
    tape = Tape(sequential=False)
    tape.enqueue("j1")
    close(tape, tape.enqueued("j1"))
    tape.note("end", drained=True)
    with violates("H15"):
        tape.finish()
