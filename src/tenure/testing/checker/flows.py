"""Ends of jobs and what follows from them: keys freed, dead letters, children told, breadth first."""

from collections import deque
from typing import Any

from tenure.testing.checker.ledger import (
    DAY,
    KEPT_ATTEMPTS,
    Binding,
    Body,
    Ledger,
    Letter,
    Ref,
    Row,
    Slot,
    refusal,
)

BUDGET = 1_000
MOST_CHILDREN = 1_000

__all__ = ["DAY", "add_edges", "end_lease", "finish", "free_slot", "parent_refusals", "resolve"]


def end_lease(ledger: Ledger, row: Row, outcome: str, reason: str) -> int:
    """The lease ends now; answers how long it lasted."""
    lease = row.lease
    assert lease is not None
    attempt: Body = {
        "lease_seq": row.lease_seq,
        "worker": lease.worker,
        "claimed_at": lease.claimed_at,
        "ended_at": ledger.now,
        "outcome": outcome,
    }
    if reason:
        attempt["reason"] = reason
    row.history = (*row.history, attempt)[-KEPT_ATTEMPTS:]
    row.last_end = ledger.now
    row.lease = None
    return ledger.now - lease.claimed_at


def finish(ledger: Ledger, row: Row, state: str) -> None:
    """The job is terminal: its key, its edges upwards, its dead letter. Children are told by `resolve`."""
    row.state = state
    row.finished_at = ledger.now
    row.waits_for = frozenset()
    ledger.retire(row)
    _let_go_of_key(ledger, row)
    _leave_parents(ledger, row)
    if state == "failed":
        ledger.letters[row.ref] = Letter()


def _let_go_of_key(ledger: Ledger, row: Row) -> None:
    key = row.binding_key
    if key is None or row.unique == "retained":
        return
    binding = ledger.bindings.get(key)
    if binding is None or binding.job_id != row.id:
        return
    if row.unique == "window" and row.state == "succeeded":
        ledger.bindings[key] = Binding(row.id, row.body, ledger.now + (row.unique_for or 0))
    else:
        del ledger.bindings[key]


def _leave_parents(ledger: Ledger, row: Row) -> None:
    """An edge lives until its child is terminal."""
    for parent, _ in row.parents:
        ref = (row.tenant, parent)
        left = tuple(child for child in ledger.children.get(ref, ()) if child != row.ref)
        if left:
            ledger.children[ref] = left
        else:
            ledger.children.pop(ref, None)


def resolve(ledger: Ledger, ended: Row) -> None:
    """Tells the children of a job that ended, and theirs, breadth first and by arrival."""
    waiting = deque([ended])
    spent = 0
    while waiting:
        parent = waiting.popleft()
        for ref in ledger.children.get(parent.ref, ()):
            spent += 1
            if spent > BUDGET:
                ledger.loose = True
                return
            child = ledger.jobs[ref]
            if child.state == "blocked" and parent.id in child.waits_for and _tell(ledger, child, parent):
                waiting.append(child)


def _tell(ledger: Ledger, child: Row, parent: Row) -> bool:
    """One edge is resolved; True if that ended the child."""
    policy = dict(child.parents)[parent.id]
    if parent.state == "succeeded" or policy == "ignore":
        child.waits_for -= {parent.id}
        if not child.waits_for:
            child.state = "pending"
            child.run_at = max(child.run_at, ledger.now)
            ledger.emit(child, "unblocked", either={"run_at": (child.run_at, None)}, run_ms=None)
        return False
    state = "failed" if policy == "fail" else "cancelled"
    finish(ledger, child, state)
    ledger.emit(child, state, run_ms=None)
    return True


def free_slot(ledger: Ledger, ref: Ref, lease_seq: int) -> bool:
    """The draining slot of this lease, if there is one, is free again."""
    slot = ledger.slots.get(ref)
    if slot is None or slot.lease_seq != lease_seq:
        return False
    del ledger.slots[ref]
    ledger.wrote()
    return True


def drain(ledger: Ledger, row: Row) -> None:
    """A running job is being cancelled: its place is taken until confirmed or expired."""
    assert row.lease is not None
    ledger.slots[row.ref] = Slot(row.ref, row.lease_seq, row.lane, row.group, row.lease.deadline)


# Creation


def parent_refusals(ledger: Ledger, spec: Body, batch: list[Body], number: int) -> list[Body]:
    """Every refusal that the parents of a new job, item `number` of its batch, give cause for."""
    later, whole = _parents(batch[number:], spec["tenant"]), _parents(batch, spec["tenant"])
    causes = []
    for parent in spec["parents"]:
        ref = (spec["tenant"], parent["id"])
        missing = ref not in ledger.jobs
        if parent["id"] == spec["id"] or (missing and _reaches(later, parent["id"], spec["id"])):
            causes.append(refusal("ParentCycle", parent["id"]))
        elif missing:
            causes.append(refusal("ParentNotFound", parent["id"]))
            if _reaches(whole, parent["id"], spec["id"]):  # through an item that was refused before
                causes.append(refusal("ParentCycle", parent["id"]))
        elif len(ledger.children.get(ref, ())) >= MOST_CHILDREN:
            causes.append(refusal("FlowTooLarge", parent["id"]))
    return causes


def _parents(items: list[Body], tenant: str) -> dict[str, list[str]]:
    """Whom the items wait for, by id; an id may stand in a batch more than once."""
    named: dict[str, list[str]] = {}
    for item in items:
        if item["tenant"] == tenant:
            named.setdefault(item["id"], []).extend(parent["id"] for parent in item["parents"])
    return named


def _reaches(later: dict[str, list[str]], start: str, goal: str) -> bool:
    seen: set[str] = set()
    stack = [start]
    while stack:
        here = stack.pop()
        if here == goal:
            return True
        if here not in seen:
            seen.add(here)
            stack.extend(later.get(here, ()))
    return False


def add_edges(ledger: Ledger, row: Row) -> list[str]:
    """Binds a new job to its parents; answers the states it may end in at once, because a parent already failed."""
    ends = []
    waits = set()
    for parent, policy in row.parents:
        above = ledger.jobs[(row.tenant, parent)]
        _keep_result(ledger, above)
        ledger.children[above.ref] = (*ledger.children.get(above.ref, ()), row.ref)
        if not above.terminal:
            waits.add(parent)
        elif above.state != "succeeded" and policy != "ignore":
            ends.append("failed" if policy == "fail" else "cancelled")
    row.waits_for = frozenset(waits)
    if waits:
        row.state = "blocked"
    return ends


def _keep_result(ledger: Ledger, parent: Row) -> None:
    """A new child keeps a live result; one that is past its time is gone for good."""
    result = ledger.results.get(parent.ref)
    if result is None or ledger.now < result.expires_at:
        return
    carried = parent.finished_at == ledger.now  # by the success itself, maybe: what comes first isn't fixed
    if carried or ledger.children.get(parent.ref):
        unsure: Any = type(result)(result.body, result.codec, result.expires_at, False)
        ledger.results[parent.ref] = unsure
    else:
        del ledger.results[parent.ref]
