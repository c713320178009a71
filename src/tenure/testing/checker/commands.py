"""Commands: both cancels, reschedule, reprioritise, replay and discard, and the answers due to each."""

from dataclasses import replace

from tenure.testing.checker import flows, keys
from tenure.testing.checker.documents import rules_of
from tenure.testing.checker.ledger import Body, Ledger, Letter, Row, demand, refusal
from tenure.testing.checker.violation import Violation


def command(ledger: Ledger, asked: Body, replies: list[Body] | None) -> None:
    """Commands were given, in item order, each seeing those before."""
    for number, item in enumerate(asked["commands"]):
        reply = None if replies is None else replies[number]
        if ledger.frozen:
            demand("H2", reply, refusal("StoreFrozen"), what="command on a frozen store")
            continue
        what = f"{item['type']} of {item['tenant']}/{item['id']}"
        row = ledger.jobs.get((item["tenant"], item["id"]))
        if row is None:
            demand("H14", reply, refusal("JobNotFound"), what=what)
            continue
        if reply is not None and reply.get("refused") == "JobNotFound":
            raise Violation("H4", f"{what}: the job is there, the store doesn't find it")
        _COMMANDS[item["type"]](ledger, row, item, reply, what)


def _cancel(ledger: Ledger, row: Row, item: Body, reply: Body | None, what: str) -> None:
    if row.terminal:
        demand("H8", reply, refusal("JobFinished", row.state), what=what)
        return
    if item["type"] == "RequestCancel" and row.state == "running":
        demand("H8", reply, {"type": "CancelRequested"}, what=what)
        if not row.cancel_requested:
            row.cancel_requested = True
            ledger.emit(row, "cancel_requested", run_ms=None)
        return
    was_running = row.state == "running"
    demand("H8", reply, {"type": "Cancelled", "was_running": was_running}, what=what)
    lasted = None
    if was_running:
        flows.drain(ledger, row)
        lasted = flows.end_lease(ledger, row, "cancelled", "")
    flows.finish(ledger, row, "cancelled")
    ledger.emit(row, "cancelled", run_ms=lasted)
    flows.resolve(ledger, row)


def _reschedule(ledger: Ledger, row: Row, item: Body, reply: Body | None, what: str) -> None:
    if row.state != "pending":
        _demand_not_pending(row, reply, what)
        return
    given = ledger.now + item["delay"] if item["run_at"] is None else item["run_at"]
    options = [{"type": "Rescheduled", "run_at": run_at} for run_at in (max(given, ledger.now), given)]
    run_at = demand("H10", reply, *options, what=what)["run_at"]
    if run_at != row.run_at:
        row.run_at = run_at
        ledger.emit(row, "rescheduled", run_at=run_at, run_ms=None)


def _reprioritise(ledger: Ledger, row: Row, item: Body, reply: Body | None, what: str) -> None:
    if row.state != "pending":
        _demand_not_pending(row, reply, what)
        return
    demand("H10", reply, {"type": "Reprioritised", "priority": item["priority"]}, what=what)
    if item["priority"] != row.priority:
        row.priority = item["priority"]
        ledger.emit(row, "reprioritised", priority=row.priority, run_ms=None)


def _demand_not_pending(row: Row, reply: Body | None, what: str) -> None:
    """A job that ended may be called finished, too: the contract has no order for these two."""
    finished = [refusal("JobFinished", row.state)] if row.terminal else []
    demand("H2", reply, refusal("NotPending", row.state), *finished, what=what)


def _discard(ledger: Ledger, row: Row, item: Body, reply: Body | None, what: str) -> None:
    if row.state != "failed":
        demand("H2", reply, refusal("NotDeadLettered", row.state), what=what)
        return
    letter = ledger.letters[row.ref]
    if letter.disposition == "replayed":
        demand("H2", reply, refusal("AlreadyReplayed", letter.new_id), what=what)
        return
    demand("H2", reply, {"type": "Discarded"}, what=what)
    if letter.disposition == "open":
        ledger.letters[row.ref] = replace(letter, disposition="discarded")
        ledger.emit(row, "discarded", run_ms=None)


# Replay


def _replay(ledger: Ledger, row: Row, item: Body, reply: Body | None, what: str) -> None:
    if row.state != "failed":
        demand("H2", reply, refusal("NotDeadLettered", row.state), what=what)
        return
    options = _known_answers(ledger, row, item) or _guards(ledger, row, item)
    if options:
        demand(_property(options), reply, *options, what=what)
        return
    demand("H9", reply, {"type": "Replayed", "new_id": item["new_id"], "created": True}, what=what)
    _make_replay(ledger, row, item)


def _property(options: list[Body]) -> str:
    return {"KeyHeld": "H9", "QueueFull": "H6", "IdConflict": "H5"}.get(options[0].get("refused", ""), "H2")


def _known_answers(ledger: Ledger, row: Row, item: Body) -> list[Body]:
    """What a replay asked before answers; nothing if it is new."""
    letter = ledger.letters[row.ref]
    new_id = item["new_id"]
    again = {"type": "Replayed", "new_id": new_id, "created": True}
    before = {"type": "Replayed", "new_id": letter.new_id, "created": False}
    if new_id == letter.new_id:
        return [again]
    if new_id in letter.replays or _replays_of_old(ledger, row, new_id):
        return [again] if item["again"] else [again, before]
    if letter.disposition == "replayed" and not item["again"]:
        taken = (row.tenant, new_id) in ledger.jobs
        return [before, refusal("IdConflict")] if taken else [before]
    return []


def _replays_of_old(ledger: Ledger, row: Row, new_id: str) -> bool:
    """Whether a job was made by a replay of this id, if only of a job that was purged before the id came again."""
    other = ledger.jobs.get((row.tenant, new_id))
    return other is not None and other.replay_of == row.id


def _guards(ledger: Ledger, row: Row, item: Body) -> list[Body]:
    """Enqueue's guards as far as they concern a replay; where two are due either may be told."""
    other = ledger.jobs.get((row.tenant, item["new_id"]))
    if other is not None:
        options = [refusal("IdConflict")]
        if other.body == _spec(row, item)["body"]:
            options.append({"type": "Replayed", "new_id": item["new_id"], "created": True})
        return options
    rules = rules_of(ledger, row.lane)
    causes = []
    binding = None if row.binding_key is None else keys.holder(ledger, row.binding_key)
    if binding is not None and binding.job_id != row.id:
        causes.append(refusal("KeyHeld", binding.job_id))
    elif binding is not None and row.unique != "retained":
        causes.append(refusal("KeyHeld", row.id))
    if rules.keyed != (row.group is not None):
        causes.append(refusal("GroupRequired" if rules.keyed else "GroupNeedsKeyed", row.queue))
    if causes:
        return causes
    if rules.max_depth is not None and keys.depth(ledger, _spec(row, item)) >= rules.max_depth:
        return [refusal("QueueFull", rules.max_depth)]
    return []


def _spec(row: Row, item: Body) -> Body:
    """The new job as an enqueue would send it."""
    payload = row.payload if item["payload"] is None else item["payload"]
    codec = row.codec if item["codec"] is None else item["codec"]
    return {
        "tenant": row.tenant,
        "id": item["new_id"],
        "queue": row.queue,
        "job_type": row.job_type,
        "codec": codec,
        "payload": payload,
        "body": (row.job_type, codec, payload["sha256"], row.queue),
        "priority": row.priority,
        "key": row.key,
        "unique": row.unique,
        "unique_for": row.unique_for,
        "group": row.group,
        "labels": row.labels,
        "max_attempts": row.max_attempts,
        "lease": row.own_lease,
        "grace": row.own_grace,
        "timeout": row.timeout,
        "result_ttl": row.result_ttl,
        "parents": [],
    }


def _make_replay(ledger: Ledger, row: Row, item: Body) -> None:
    letter = ledger.letters[row.ref]
    new_id = item["new_id"]
    ledger.letters[row.ref] = Letter("replayed", new_id, (*letter.replays, new_id))
    ledger.emit(row, "replayed", free=True, new_id=new_id, run_ms=None)
    keys.create(ledger, _spec(row, item), replay_of=row.id, root_id=row.root_id or row.id)


_COMMANDS = {
    "Cancel": _cancel,
    "RequestCancel": _cancel,
    "Reschedule": _reschedule,
    "Reprioritise": _reprioritise,
    "Discard": _discard,
    "Replay": _replay,
}
