"""Enqueue: its guards in order (§9), idempotency keys and their epochs, and the job that comes of it."""

from typing import Any

from tenure.testing.checker import flows
from tenure.testing.checker.documents import rules_of
from tenure.testing.checker.ledger import Binding, Body, Ledger, Row, demand, refusal
from tenure.testing.checker.results import shown_result
from tenure.testing.checker.violation import Violation


def enqueue(ledger: Ledger, asked: Body, replies: list[Body] | None) -> None:
    """A batch was sent, its items in order; checks every item's answer."""
    jobs = asked["jobs"]
    if ledger.frozen:
        for number in range(len(jobs)):
            demand("H2", _at(replies, number), refusal("StoreFrozen"), what="enqueue on a frozen store")
        return
    if asked["atomic"]:
        _enqueue_whole(ledger, jobs, replies)
        return
    for number, spec in enumerate(jobs):
        enqueue_one(ledger, spec, _at(replies, number), batch=jobs, number=number)


def _at(replies: list[Body] | None, number: int) -> Body | None:
    return None if replies is None else replies[number]


def _enqueue_whole(ledger: Ledger, jobs: list[Body], replies: list[Body] | None) -> None:
    """All are created, or none and everyone hears why."""
    trial = ledger.copy()
    answers = []
    known = []
    for number, spec in enumerate(jobs):
        known.append((spec["tenant"], spec["id"]) in trial.jobs)
        answers.append(enqueue_one(trial, spec, None, batch=jobs, number=number))
    if all(created(options) for options in answers):
        for number, spec in enumerate(jobs):
            _judge(spec, _at(replies, number), answers[number])
        ledger.become(trial)
        return
    for number, spec in enumerate(jobs):
        options = answers[number]
        if created(options):
            options = [refusal("BatchRefused"), *(options if known[number] else ())]
        _judge(spec, _at(replies, number), options)


def created(options: list[Body]) -> bool:
    return bool(options[0].get("created"))


def enqueue_one(
    ledger: Ledger,
    spec: Body,
    reply: Body | None,
    *,
    batch: list[Body],
    number: int,
    carried: bool = False,
    judged: bool = True,
) -> list[Body]:
    """One new job: the answers that keep the contract, the reply being one of them; creates it where it must be."""
    options = guards(ledger, spec, batch=batch, number=number, carried=carried)
    if not options:
        options = [{"type": "Enqueued", "id": spec["id"], "created": True, "state": None, "result": None}]
        if judged:
            _judge(spec, reply, options)
        create(ledger, spec)
    elif judged:
        _judge(spec, reply, options)
    return options


def guards(ledger: Ledger, spec: Body, *, batch: list[Body], number: int, carried: bool = False) -> list[Body]:
    """Why this job isn't to be created: the answers due, none if nothing is in its way."""
    known = ledger.jobs.get((spec["tenant"], spec["id"]))
    if known is not None:
        if known.body == _body(spec):
            return [{"type": "Enqueued", "id": spec["id"], "created": True, "state": None, "result": None}]
        return [refusal("IdConflict")]
    held = _key_answer(ledger, spec, carried)
    if held is not None:
        return [held]
    rules = rules_of(ledger, (spec["tenant"], spec["queue"]))
    if rules.keyed != (spec["group"] is not None):
        return [refusal("GroupRequired" if rules.keyed else "GroupNeedsKeyed", spec["queue"])]
    causes = flows.parent_refusals(ledger, spec, batch, number) if spec["parents"] else []
    if causes:
        return causes
    if not carried and rules.max_depth is not None and depth(ledger, spec) >= rules.max_depth:
        return [refusal("QueueFull", rules.max_depth)]
    return []


def depth(ledger: Ledger, spec: Body) -> int:
    lane = (spec["tenant"], spec["queue"])
    return sum(1 for row in ledger.live(lane).values() if row.state in ("pending", "blocked"))


def _body(spec: Body) -> tuple[str, str, str, str]:
    return (spec["job_type"], spec["codec"], spec["payload"]["sha256"], spec["queue"])


def holder(ledger: Ledger, key: tuple[str, str, str, str]) -> Binding | None:
    """The live binding of a key."""
    binding = ledger.bindings.get(key)
    return binding if binding is not None and binding.live(ledger.now) else None


def _key_answer(ledger: Ledger, spec: Body, carried: bool) -> Body | None:
    if spec["key"] is None:
        return None
    binding = holder(ledger, (spec["tenant"], spec["queue"], spec["job_type"], spec["key"]))
    if binding is None:
        return None
    if binding.body != _body(spec) and not carried:
        return refusal("IdempotencyMismatch", binding.job_id)
    row = ledger.jobs[(spec["tenant"], binding.job_id)]
    answer: Body = {"type": "Enqueued", "id": row.id, "created": False, "state": row.state}
    result = shown_result(ledger, row)
    if result is not ...:
        answer["result"] = result
    return answer


_ABOUT = {
    "IdConflict": "H5",
    "IdempotencyMismatch": "H9",
    "GroupRequired": "H6",
    "GroupNeedsKeyed": "H6",
    "ParentNotFound": "H12",
    "ParentCycle": "H12",
    "FlowTooLarge": "H12",
    "QueueFull": "H6",
    "BatchRefused": "H12",
    "StoreFrozen": "H2",
}


def _judge(spec: Body, reply: Body | None, options: list[Body]) -> None:
    what = f"enqueue of {spec['tenant']}/{spec['id']}"
    try:
        demand("H5", reply, *options, what=what)
    except Violation as wrong:
        raise Violation(_property(reply or {}, options), wrong.message) from None


def _property(reply: Body, options: list[Body]) -> str:
    """Which promise a wrong answer to an enqueue breaks."""
    wanted = options[0]
    if reply.get("type") == wanted.get("type") == "Enqueued":
        same = all(reply.get(name) == wanted.get(name) for name in ("id", "created", "state"))
        return "H13" if same else "H9"
    for side in (wanted, reply):
        if side.get("refused") in _ABOUT:
            return _ABOUT[side["refused"]]
    return "H9"


# Creation


def create(ledger: Ledger, spec: Body, **more: Any) -> Row:
    """Writes a new job: version 1, its key, its edges, and its end if a parent already failed."""
    ledger.seq += 1
    row = _row(ledger, spec, **more)
    ledger.add(row)
    if row.binding_key is not None:
        ledger.bindings[row.binding_key] = Binding(row.id, row.body)
    ends = flows.add_edges(ledger, row)
    ledger.emit(row, "enqueued", free=bool(more), **_announcement(spec, row))
    if ends:
        state = ends[0]
        flows.finish(ledger, row, state)
        ledger.emit(row, state, run_ms=None)
    return row


def _row(ledger: Ledger, spec: Body, **more: Any) -> Row:
    now = ledger.now
    given = spec.get("run_at")
    if spec.get("delay") is not None:
        given = now + spec["delay"]
    return Row(
        tenant=spec["tenant"],
        id=spec["id"],
        seq=ledger.seq,
        queue=spec["queue"],
        job_type=spec["job_type"],
        codec=spec["codec"],
        payload=spec["payload"],
        priority=spec["priority"],
        run_at=now if given is None else max(given, now),
        enqueued_at=now,
        expires_at=None if spec.get("expires") is None else now + spec["expires"],
        key=spec["key"],
        unique=spec["unique"],
        unique_for=spec["unique_for"],
        group=spec["group"],
        labels=spec["labels"],
        max_attempts=spec["max_attempts"],
        own_lease=spec["lease"],
        own_grace=spec["grace"],
        timeout=spec["timeout"],
        result_ttl=spec["result_ttl"],
        parents=tuple((parent["id"], parent["on_failure"]) for parent in spec["parents"]),
        **more,
    )


def _announcement(spec: Body, row: Row) -> Body:
    """What an `enqueued` event must say."""
    return {
        "priority": row.priority,
        "run_at": row.run_at,
        "group": row.group,
        "max_attempts": row.max_attempts,
        "payload_size": row.payload["size"],
        "payload_hash": row.payload["sha256"],
        "replay_of": row.replay_of,
        "parents": [parent for parent, _ in row.parents] or None,
        "labels": row.labels or None,
        "keyed": row.key is not None,
    }
