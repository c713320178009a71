"""H6, H7, H10, H15 of the checker, sequential: what a claim takes, in which order, and what holds it back."""

from typing import Any

from tests.test_checker_builders import GRACE, START, TTL, Tape, refused, settled, violates


def with_jobs(*ids: str, tenant: str = "a", **more: Any) -> Tape:
    tape = Tape()
    for id_ in ids:
        tape.enqueue(id_, tenant, **more)
    return tape


# Order


def test_priority_then_time_then_arrival() -> None:
    tape = with_jobs("j1", "j2")
    tape.enqueue("j3", priority=5)
    tape.claim(tape.job("j3"), tape.job("j1"), tape.job("j2"), n=3)


def test_h10_arrival_is_ignored() -> None:
    tape = with_jobs("j1", "j2")
    with violates("H10", "another comes first"):
        tape.claim(tape.job("j2"))


def test_h10_priority_is_ignored() -> None:
    tape = with_jobs("j1")
    tape.enqueue("j2", priority=5)
    with violates("H10"):
        tape.claim(tape.job("j1"))


def test_h10_a_job_before_its_time() -> None:
    tape = with_jobs("j1", delay=10)
    with violates("H10", "scheduled"):
        tape.claim(tape.job("j1", run_at=START + 10))


def test_h10_a_paused_queue() -> None:
    tape = with_jobs("j1")
    tape.configure(paused=True)
    tape.claim()
    with violates("H10", "queue_paused"):
        tape.claim(tape.job("j1"), claim_id="c2")


def test_h10_an_expired_job() -> None:
    tape = with_jobs("j1", expires=10)
    tape.tick(10)
    tape.claim()
    with violates("H10", "expired"):
        tape.claim(tape.job("j1", expires_at=START + 10), claim_id="c2")


def test_an_expired_job_is_swept_and_a_claimed_one_is_not() -> None:
    tape = with_jobs("j1", "j2", expires=10)
    tape.claim(tape.job("j1", expires_at=START + 10))
    tape.settle("j1", "release", settled("pending"))
    tape.tick(10)
    tape.sweep(expired=1)


def test_h15_sweep_expires_too_early() -> None:
    tape = with_jobs("j1", expires=10)
    tape.tick(9)
    with violates("H15", "expired"):
        tape.sweep(expired=1)


def test_a_retry_queues_behind_and_a_release_keeps_its_place() -> None:
    tape = with_jobs("j1", "j2")
    tape.claim(tape.job("j1"))
    tape.tick(5)
    tape.settle("j1", "release", settled("pending"))
    tape.claim(tape.job("j1", lease_seq=2, version=4), claim_id="c2")
    tape.settle("j1", "retry", settled("pending"), lease_seq=2, secret="c2")
    tape.claim(tape.job("j2"), claim_id="c3")


def test_h10_a_released_job_loses_its_place() -> None:
    tape = with_jobs("j1", "j2")
    tape.claim(tape.job("j1"))
    tape.tick(5)
    tape.settle("j1", "release", settled("pending"))
    with violates("H10"):
        tape.claim(tape.job("j2"), claim_id="c2")


# Fairness


def test_tenants_take_turns() -> None:
    tape = with_jobs("j1", "j2")
    tape.enqueue("j3", "b")
    tape.claim(tape.job("j1"), tape.job("j3", "b"), tape.job("j2"), n=3, cursor=["a", 1, 1])


def test_h10_a_tenant_is_passed_over() -> None:
    tape = with_jobs("j1", "j2")
    tape.enqueue("j3", "b")
    with violates("H10"):
        tape.claim(tape.job("j1"), tape.job("j2"), n=2)


def test_a_cursor_in_the_middle_of_a_visit_goes_on() -> None:
    tape = with_jobs("j1", "j2")
    tape.enqueue("j3", "b")
    tape.claim(tape.job("j3", "b"), asked_cursor=["a", 1, 0], cursor=["b", 1, 0])


def test_h10_the_cursor_must_say_where_the_walk_ended() -> None:
    tape = with_jobs("j1", "j2")
    with violates("H10", "cursor"):
        tape.claim(tape.job("j1"), cursor=["", 0, 0])


def test_queues_take_turns_by_weight() -> None:
    tape = Tape()
    tape.configure(queue="r", weight=2)
    for id_ in ("j1", "j2"):
        tape.enqueue(id_)
    for id_ in ("k1", "k2"):
        tape.enqueue(id_, queue="r")
    jobs = [tape.job(id_) for id_ in ("j1", "k1", "k2", "j2")]
    tape.claim(*jobs, queues=[["q", None], ["r", None]], n=4)


def test_h10_a_queue_gives_more_than_asked() -> None:
    tape = with_jobs("j1")
    with violates("H10", "gave its most"):
        tape.claim(tape.job("j1"), queues=[["q", 0]])


def test_groups_rotate_after_the_position() -> None:
    tape = Tape()
    tape.configure(mode="keyed")
    for id_, group in (("j1", "x"), ("j2", "x"), ("j3", "y")):
        tape.enqueue(id_, group=group)
    tape.claim(tape.job("j1"), tape.job("j3"), n=2)
    tape.claim(tape.job("j2"), claim_id="c2", asked_cursor=["a", 1, 1], cursor=["a", 1, 2])


def test_h10_groups_do_not_rotate() -> None:
    tape = Tape()
    tape.configure(mode="keyed")
    for id_, group in (("j1", "x"), ("j2", "x"), ("j3", "y")):
        tape.enqueue(id_, group=group)
    with violates("H10"):
        tape.claim(tape.job("j1"), tape.job("j2"), n=2)


def test_h10_a_head_in_back_off_blocks_its_ordered_group() -> None:
    tape = Tape()
    tape.configure(mode="keyed", ordered=True)
    tape.enqueue("j1", group="x", delay=50)
    tape.enqueue("j2", group="x")
    tape.claim(wake_after=50)
    with violates("H10", "ordered"):
        tape.claim(tape.job("j2"), claim_id="c2")


# Limits


def test_h6_a_full_queue() -> None:
    tape = with_jobs("j1", "j2")
    tape.configure(limit=1)
    tape.claim(tape.job("j1"))
    tape.claim(claim_id="c2")
    with violates("H6", "limit"):
        tape.claim(tape.job("j2"), claim_id="c3")


def test_h6_a_full_group() -> None:
    tape = Tape()
    tape.configure(mode="keyed", group_limit=1)
    tape.enqueue("j1", group="x")
    tape.enqueue("j2", group="x")
    with violates("H6", "group_limit"):
        tape.claim(tape.job("j1"), tape.job("j2"), n=2)


def test_a_cancelled_slot_drains_until_confirmed() -> None:
    tape = with_jobs("j1", "j2")
    tape.configure(limit=1)
    tape.claim(tape.job("j1"))
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": True})
    tape.claim(claim_id="c2")
    tape.settle("j1", "succeed", refused("JobCancelled"))
    tape.claim(claim_id="c3")
    tape.settle("j1", "release", refused("JobCancelled"))
    tape.claim(tape.job("j2"), claim_id="c4")


def test_a_cancelled_slot_drains_until_expired() -> None:
    tape = with_jobs("j1", "j2")
    tape.configure(limit=1)
    tape.claim(tape.job("j1"))
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": True})
    tape.tick(TTL + GRACE)
    tape.sweep(drained=0)
    tape.tick(1)
    tape.sweep(drained=1)
    tape.claim(tape.job("j2"), claim_id="c2")


def test_h6_a_draining_slot_is_given_out() -> None:
    tape = with_jobs("j1", "j2")
    tape.configure(limit=1)
    tape.claim(tape.job("j1"))
    tape.command("Cancel", "j1", {"type": "Cancelled", "was_running": True})
    with violates("H6"):
        tape.claim(tape.job("j2"), claim_id="c2")


def test_h6_a_claim_takes_more_than_n() -> None:
    tape = with_jobs("j1", "j2")
    with violates("H6", "a claim for 1 gave 2"):
        tape.claim(tape.job("j1"), tape.job("j2"), n=1, cursor=["a", 1, 0])


def test_h6_depth() -> None:
    tape = with_jobs("j1")
    tape.configure(max_depth=1)
    tape.enqueue("j2", reply=refused("QueueFull", 1))
    with violates("H6", "QueueFull"):
        tape.enqueue("j3")


def test_h6_groups_and_modes() -> None:
    tape = Tape()
    tape.enqueue("j1", group="x", reply=refused("GroupNeedsKeyed", "q"))
    with violates("H6", "GroupNeedsKeyed"):
        tape.enqueue("j2", group="x")


def test_h6_a_mode_changes_under_live_jobs() -> None:
    tape = with_jobs("j1")
    with violates("H6", "ModeConflict"):
        tape.configure(mode="keyed")


# Rates


def test_a_rate_lets_one_through_each_interval() -> None:
    tape = with_jobs("j1", "j2")
    tape.configure(rate=[1, 100])
    tape.claim(tape.job("j1"), n=2, wake_after=100)
    tape.tick(100)
    tape.claim(tape.job("j2"), claim_id="c2", asked_cursor=["a", 1, 0], cursor=["a", 1, 1])


def test_h7_a_rate_is_exceeded() -> None:
    tape = with_jobs("j1", "j2")
    tape.configure(rate=[1, 100])
    tape.claim(tape.job("j1"))
    tape.tick(99)
    with violates("H7", "rate"):
        tape.claim(tape.job("j2"), claim_id="c2")


def test_h7_a_group_rate_is_exceeded() -> None:
    tape = Tape()
    tape.configure(mode="keyed", group_rate=[1, 100], group_burst=2)
    for id_ in ("j1", "j2", "j3"):
        tape.enqueue(id_, group="x")
    with violates("H7", "group_rate"):
        tape.claim(tape.job("j1"), tape.job("j2"), tape.job("j3"), n=3)


# Liveness


def test_h15_a_takeable_job_is_not_given() -> None:
    tape = with_jobs("j1")
    with violates("H15", "takeable"):
        tape.claim()


def test_h15_sixteen_jobs_in_back_off_hide_a_ready_one() -> None:
    tape = Tape()
    for number in range(16):
        tape.enqueue(f"j{number:02}", priority=5, delay=1_000)
    tape.enqueue("ready")
    with violates("H15", "ready"):
        tape.claim(wake_after=1_000)


def test_h15_a_wrong_wake_up_time() -> None:
    tape = with_jobs("j1", delay=70)
    tape.claim(wake_after=70)
    with violates("H15", "wake_after"):
        tape.claim(claim_id="c2", wake_after=None)


def test_h15_a_slot_that_a_settle_freed_stays_taken() -> None:
    tape = with_jobs("j1", "j2")
    tape.configure(limit=1)
    tape.claim(tape.job("j1"))
    tape.settle("j1", "succeed", settled("succeeded"))
    with violates("H15"):
        tape.claim(claim_id="c2")


# Reads


def test_status_and_gates() -> None:
    tape = with_jobs("j1", delay=10)
    tape.configure(limit=1, paused=True)
    later = {"run_at": START + 10, "status": "scheduled"}
    tape.get("j1", tape.view("j1", **later, gates=["scheduled", "queue_paused"]), explain=True)


def test_h2_a_wrong_status() -> None:
    tape = with_jobs("j1", delay=10)
    with violates("H2", "shown as ready"):
        tape.get("j1", tape.view("j1", run_at=START + 10))


def test_h15_a_gate_is_not_explained() -> None:
    tape = with_jobs("j1")
    tape.configure(paused=True)
    with violates("H15", "queue_paused"):
        tape.get("j1", tape.view("j1"), explain=True)
