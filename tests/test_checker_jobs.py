"""H4, H5, H9, H12, H13, H14 of the checker, sequential: ids, keys, flows, results, tenants and purge."""

from typing import Any

from tests.test_checker_builders import START, Body, Tape, created, digest, duplicate, refused, settled, spec, violates

DAY = 86_400_000


def done(**more: Any) -> Tape:
    """One job that succeeded with the result "r"."""
    tape = Tape()
    tape.enqueue("j1", **more)
    tape.claim(tape.job("j1"))
    tape.settle("j1", "succeed", settled("succeeded"), result=digest("r"))
    return tape


def result(expires_at: int) -> Body:
    return {"body": digest("r"), "codec": "json", "expires_at": expires_at}


# Ids and payloads


def test_the_same_job_again_is_created_as_the_first_time() -> None:
    tape = done()
    tape.enqueue("j1")
    tape.enqueue("j1", payload="other", reply=refused("IdConflict"))


def test_h5_another_body_under_the_same_id() -> None:
    tape = Tape()
    tape.enqueue("j1")
    with violates("H5", "IdConflict"):
        tape.enqueue("j1", payload="other")


def test_h5_a_job_runs_with_another_payload() -> None:
    tape = Tape()
    tape.enqueue("j1")
    with violates("H5", "payload"):
        tape.claim(tape.job("j1", payload="other"))


def test_h5_a_job_that_nobody_sent() -> None:
    tape = Tape()
    tape.specs[("a", "j1")] = spec("j1")
    with violates("H5", "no such job"):
        tape.claim(tape.job("j1"))


def test_h4_an_acknowledged_job_is_not_found() -> None:
    tape = Tape()
    tape.enqueue("j1")
    with violates("H4"):
        tape.get("j1", refused("JobNotFound"))


def test_h4_query_leaves_a_job_out() -> None:
    tape = Tape()
    tape.enqueue("j1")
    where = dict.fromkeys(("tenant", "queue", "job_type", "states", "enqueued_from", "enqueued_before", "dead_letter"))
    asked: Body = {"where": {**where, "labels": {}}, "after": None, "limit": 10}
    tape.call("query", asked, {"replies": [tape.view("j1")], "cursor": None})
    with violates("H4"):
        tape.call("query", asked, {"replies": [], "cursor": None})


# Keys


def test_an_active_key_is_held_until_the_job_ends() -> None:
    tape = Tape()
    tape.enqueue("j1", key="k")
    tape.enqueue("j2", key="k", reply=duplicate("j1"))
    tape.enqueue("j2", key="k", payload="other", reply=refused("IdempotencyMismatch", "j1"))
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": False})
    tape.enqueue("j2", key="k")


def test_h9_a_held_key_lets_a_second_job_in() -> None:
    tape = Tape()
    tape.enqueue("j1", key="k")
    with violates("H9"):
        tape.enqueue("j2", key="k")


def test_h9_a_freed_key_is_still_held() -> None:
    tape = done(key="k")
    with violates("H9"):
        tape.enqueue("j2", key="k", reply=duplicate("j1", "succeeded"))


def test_h9_another_body_under_a_held_key() -> None:
    tape = Tape()
    tape.enqueue("j1", key="k")
    with violates("H9", "IdempotencyMismatch"):
        tape.enqueue("j2", key="k", payload="other", reply=duplicate("j1"))


def test_a_window_outlives_success_and_keeps_the_result() -> None:
    tape = done(key="k", unique="window", unique_for=500, result_ttl=10)
    tape.tick(499)
    tape.enqueue("j2", key="k", reply=duplicate("j1", "succeeded", result(START + 500)))
    tape.tick(1)
    tape.enqueue("j2", key="k", unique="window", unique_for=500)


def test_h9_a_window_ends_too_early() -> None:
    tape = done(key="k", unique="window", unique_for=500)
    tape.tick(499)
    with violates("H9"):
        tape.enqueue("j2", key="k")


def test_h9_a_window_must_end_at_once_on_failure() -> None:
    tape = Tape()
    tape.enqueue("j1", key="k", unique="window", unique_for=500)
    tape.claim(tape.job("j1"))
    tape.settle("j1", "fail", settled("failed"))
    with violates("H9"):
        tape.enqueue("j2", key="k", reply=duplicate("j1", "failed"))


def test_a_retained_key_is_held_until_purge() -> None:
    tape = done(key="k", unique="retained")
    tape.tick(2 * DAY)
    tape.enqueue("j2", key="k", reply=duplicate("j1", "succeeded"))
    purge(tape, "succeeded", 1)
    tape.enqueue("j2", key="k")


def test_h9_a_retained_key_is_freed() -> None:
    tape = done(key="k", unique="retained")
    with violates("H9"):
        tape.enqueue("j2", key="k")


def test_keys_of_two_tenants_are_two_keys() -> None:
    tape = Tape()
    tape.enqueue("j1", key="k")
    tape.enqueue("j2", "b", key="k")


def test_h9_a_key_leaks_another_tenants_job() -> None:
    tape = Tape()
    tape.enqueue("j1", key="k")
    with violates("H9"):
        tape.enqueue("j2", "b", key="k", reply=duplicate("j1"))


def test_h9_a_replay_takes_a_held_key() -> None:
    tape = Tape()
    tape.enqueue("j1", key="k")
    tape.claim(tape.job("j1"))
    tape.settle("j1", "fail", settled("failed"))
    tape.enqueue("j2", key="k")
    tape.command("Replay", "j1", refused("KeyHeld", "j2"), new_id="j3")
    with violates("H9", "KeyHeld"):
        tape.command("Replay", "j1", {"type": "Replayed", "new_id": "j3", "created": True}, new_id="j3")


def test_a_replay_of_a_job_whose_id_came_again() -> None:
    tape, replayed = Tape(), {"type": "Replayed", "new_id": "j2", "created": True}
    tape.enqueue("j1")
    tape.claim(tape.job("j1"))
    tape.settle("j1", "fail", settled("failed"))
    tape.command("Replay", "j1", replayed, new_id="j2")
    tape.tick(DAY)
    purge(tape, "failed", 1)
    tape.enqueue("j1", payload="other", priority=1)
    tape.claim(tape.job("j1", payload="other", priority=1, run_at=tape.now, enqueued_at=tape.now), n=1)
    tape.settle("j1", "fail", settled("failed"))
    tape.command("Replay", "j1", replayed, new_id="j2")
    tape.enqueue("j3")
    with violates("H5", "IdConflict"):
        tape.command("Replay", "j1", {**replayed, "new_id": "j3"}, new_id="j3")


# Flows


def flow(policy: str = "cancel") -> Tape:
    """A parent that runs, and its child."""
    tape = Tape()
    tape.batch([spec("j1"), spec("j2", parents=[("j1", policy)])], [created("j1"), created("j2")], atomic=True)
    tape.claim(tape.job("j1"), n=2)
    return tape


def test_a_child_waits_and_then_runs() -> None:
    tape = flow()
    tape.settle("j1", "succeed", settled("succeeded"))
    tape.claim(tape.job("j2", version=3), claim_id="c2")


def test_h12_a_blocked_job_is_claimed() -> None:
    tape = flow()
    with violates("H12", "blocked"):
        tape.claim(tape.job("j2"), claim_id="c2")


def test_h15_a_child_is_not_unblocked() -> None:
    tape = flow()
    tape.settle("j1", "succeed", settled("succeeded"))
    with violates("H15"):
        tape.claim(claim_id="c2")


def two_parents() -> Tape:
    """A parent that ended, one that runs, and the child of both."""
    tape = done()
    tape.enqueue("j2")
    tape.claim(tape.job("j2"), claim_id="c2")
    tape.enqueue("j3", parents=["j1", "j2"])
    tape.claim(claim_id="c3")
    tape.settle("j2", "succeed", settled("succeeded"), secret="c2")
    return tape


def test_a_parent_that_had_ended_counts_as_resolved() -> None:
    tape = two_parents()
    tape.claim(tape.job("j3", version=3), claim_id="c4")


def test_h15_a_parent_that_had_ended_is_waited_for() -> None:
    tape = two_parents()
    with violates("H15"):
        tape.claim(claim_id="c4")


def test_a_failed_parent_applies_its_policy() -> None:
    for policy, state in (("cancel", "cancelled"), ("fail", "failed")):
        tape = flow(policy)
        tape.settle("j1", "fail", settled("failed"))
        tape.command("Cancel", "j2", refused("JobFinished", state))


def test_h8_a_failed_parent_leaves_its_child() -> None:
    tape = flow()
    tape.settle("j1", "fail", settled("failed"))
    with violates("H8"):
        tape.claim(tape.job("j2", version=3), claim_id="c2")


def test_h12_an_unknown_parent() -> None:
    tape = Tape()
    tape.enqueue("j2", parents=["j1"], reply=refused("ParentNotFound", "j1"))
    with violates("H12", "ParentNotFound"):
        tape.enqueue("j2", parents=["j1"])


def test_h12_a_cycle_in_a_batch() -> None:
    tape = Tape()
    jobs = [spec("j1", parents=["j2"]), spec("j2", parents=["j1"])]
    tape.batch(jobs, [refused("ParentCycle", "j2"), refused("ParentCycle", "j1")], atomic=True)
    with violates("H12", "ParentCycle"):
        tape.batch(jobs, [created("j1"), created("j2")], atomic=True)


def test_an_atomic_batch_is_refused_whole() -> None:
    tape = Tape()
    tape.enqueue("j0", payload="other")
    jobs = [spec("j0"), spec("j1")]
    tape.batch(jobs, [refused("IdConflict"), refused("BatchRefused")], atomic=True)
    tape.get("j1", refused("JobNotFound"))


def test_h12_an_atomic_batch_is_created_in_part() -> None:
    tape = Tape()
    tape.enqueue("j0", payload="other")
    with violates("H12", "BatchRefused"):
        tape.batch([spec("j0"), spec("j1")], [refused("IdConflict"), created("j1")], atomic=True)


# Results


def ended_view(tape: Tape, **more: Any) -> Body:
    attempt = {"lease_seq": 1, "worker": "w", "claimed_at": START, "ended_at": START, "outcome": "succeeded"}
    fields = {"state": "succeeded", "status": "succeeded", "version": 3, "attempt": 1, "lease_seq": 1}
    return tape.view("j1", **{**fields, "finished_at": START, "history": [{**attempt, "reason": "ok"}], **more})


def test_a_result_lives_for_its_time() -> None:
    tape = done(result_ttl=100)
    tape.tick(99)
    tape.get("j1", ended_view(tape, result=result(START + 100)))
    tape.tick(1)
    tape.get("j1", ended_view(tape))


def test_h13_a_result_is_shown_past_its_time() -> None:
    tape = done(result_ttl=100)
    tape.tick(100)
    with violates("H13"):
        tape.get("j1", ended_view(tape, result=result(START + 100)))


def test_h13_a_result_is_gone_too_early() -> None:
    tape = done(result_ttl=100)
    with violates("H13"):
        tape.get("j1", ended_view(tape))


def test_h13_a_parents_result_lives_until_its_children_end() -> None:
    tape = done(result_ttl=100)
    tape.enqueue("j2", parents=["j1"])
    tape.tick(100)
    tape.get("j1", ended_view(tape, result=result(START + 100)))
    with violates("H13"):
        tape.get("j1", ended_view(tape))


# Tenancy


def test_h14_a_foreign_id_is_not_found() -> None:
    tape = Tape()
    tape.enqueue("j1")
    tape.get("j1", refused("JobNotFound"), tenant="b")
    with violates("H14"):
        tape.get("j1", tape.view("j1"), tenant="b")


def test_h14_a_foreign_cancel() -> None:
    tape = Tape()
    tape.enqueue("j1")
    with violates("H14"):
        tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": False}, tenant="b")


def test_h14_a_claim_for_other_tenants() -> None:
    tape = Tape()
    tape.enqueue("j1")
    with violates("H14"):
        tape.claim(tape.job("j1"), tenants=["b"])


# Purge


def purge(tape: Tape, state: str | None, count: int = 0, day: str = "2027-01-15") -> None:
    reply = None if state is None else {"type": "Purged", "day": day, "state": state, "count": count}
    tape.call("purge", {"succeeded": 0, "cancelled": 0, "failed": 0}, {"reply": reply})


def test_purge_takes_whole_days_past_retention() -> None:
    tape = done()
    purge(tape, None)
    tape.tick(DAY)
    purge(tape, "succeeded", 1)
    tape.get("j1", refused("JobNotFound"))
    tape.enqueue("j1", payload="other")


def test_h4_purge_takes_a_job_too_early() -> None:
    tape = done()
    with violates("H4"):
        purge(tape, "succeeded", 1)


def test_h4_purge_takes_an_open_dead_letter() -> None:
    tape = Tape()
    tape.enqueue("j1")
    tape.claim(tape.job("j1"))
    tape.settle("j1", "fail", settled("failed"))
    tape.tick(DAY)
    purge(tape, None)
    with violates("H4"):
        purge(tape, "failed", 1)


def test_h4_purge_takes_a_parent_of_a_live_child() -> None:
    tape = done()
    tape.enqueue("j2", parents=["j1"])
    tape.tick(DAY)
    with violates("H4"):
        purge(tape, "succeeded", 1)
