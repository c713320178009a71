"""Renew and settle: the refusals in their order (§5), and what each outcome makes of a job (§4)."""

from tenure.testing.checker import flows, keys, results
from tenure.testing.checker.ledger import Body, Lease, Ledger, Row, demand, refusal
from tenure.testing.checker.violation import Violation

MOST_RELEASES = {"snooze": 100, "unknown_type": 120, "unknown_argument": 120}
LONGEST_DELAY = 86_400_000
MOST_TRACEBACKS = 20


def judge(ledger: Ledger, token: Body, tag: str | None = None) -> Body | None:
    """The first refusal due to a token, or the answer it got before; None: the holder may act."""
    row = ledger.jobs.get((token["tenant"], token["job_id"]))
    if row is None:
        return refusal("JobNotFound")
    if token["lease_seq"] != row.lease_seq or token["secret"] != row.secret:
        return refusal("LeaseLost")
    if tag is not None and row.settled is not None and row.settled[0] == tag:
        return {"type": "Settled", "state": row.settled[1]}
    if row.state == "cancelled":
        return refusal("JobCancelled")
    if row.terminal:
        return refusal("JobFinished", row.state)
    if row.state != "running":
        return refusal("LeaseLost")
    assert row.lease is not None
    if ledger.now > row.lease.deadline:
        return refusal("LeaseExpired")
    return None


def renew(ledger: Ledger, asked: Body, replies: list[Body] | None) -> None:
    """Leases were renewed, in item order."""
    for number, item in enumerate(asked["renewals"]):
        reply = None if replies is None else replies[number]
        token = item["token"]
        verdict = judge(ledger, token)
        if verdict is None:
            verdict = _extend(ledger, ledger.jobs[(token["tenant"], token["job_id"])], item["progress"])
        _check(ledger, token, reply, verdict, "renew")


def _extend(ledger: Ledger, row: Row, progress: Body | None) -> Body:
    old = row.lease
    assert old is not None
    until = max(old.until, ledger.now + old.ttl)
    row.lease = Lease(old.worker, old.claimed_at, until, old.ttl, old.grace)
    if until > old.until:
        ledger.wrote()
    else:
        ledger.may_have_written()
    if progress is not None:
        row.progress = progress
        message = progress["message"] or None
        ledger.emit(row, "progress", progress=progress["fraction"], either={"message": (message, "")})
    return {"type": "Renewed", "lease_until": until, "cancel_requested": row.cancel_requested}


def settle(ledger: Ledger, settlements: list[Body], replies: list[Body] | None) -> None:
    """Leases were ended, in item order, each seeing those before."""
    for number, item in enumerate(settlements):
        reply = None if replies is None else replies[number]
        verdict = settle_one(ledger, item["token"], item["outcome"], reply)
        _check(ledger, item["token"], reply, verdict, item["outcome"]["tag"])


def settle_one(ledger: Ledger, token: Body, outcome: Body, reply: Body | None) -> Body:
    """What must be answered; applied where the holder may act."""
    tag = outcome["tag"]
    verdict = judge(ledger, token, tag)
    ref = (token["tenant"], token["job_id"])
    if verdict is not None:
        if verdict.get("refused") == "JobCancelled" and tag == "release":
            flows.free_slot(ledger, ref, token["lease_seq"])
        return verdict
    row = ledger.jobs[ref]
    if tag == "succeed":
        return _succeed(ledger, row, outcome, reply)
    {"retry": _retry, "fail": _fail, "release": _release}[tag](ledger, row, outcome)
    _keep_traceback(row, outcome.get("traceback"))
    row.settled = (tag, row.state)
    return {"type": "Settled", "state": row.state}


def _keep_traceback(row: Row, traceback: Body | None) -> None:
    if traceback is not None:
        row.tracebacks = (*row.tracebacks, (row.lease_seq, traceback))[-MOST_TRACEBACKS:]


def _succeed(ledger: Ledger, row: Row, outcome: Body, reply: Body | None) -> Body:
    """Ends well, with the jobs it carries; a carried job that is refused refuses the whole."""
    if not outcome["jobs"]:
        _end_well(ledger, row, outcome)
        return {"type": "Settled", "state": "succeeded"}
    if ledger.frozen and reply is not None and reply.get("refused") == "StoreFrozen":
        return refusal("StoreFrozen")
    trial = ledger.copy()
    _end_well(trial, trial.jobs[row.ref], outcome)
    jobs = outcome["jobs"]
    for number, spec in enumerate(jobs):
        options = keys.enqueue_one(trial, spec, None, batch=jobs, number=number, carried=True, judged=False)
        if "refused" in options[0]:
            return next((option for option in options if option == reply), options[0])
    ledger.become(trial)
    return {"type": "Settled", "state": "succeeded"}


def _end_well(ledger: Ledger, row: Row, outcome: Body) -> None:
    lasted = flows.end_lease(ledger, row, "succeeded", "ok")
    flows.finish(ledger, row, "succeeded")
    row.settled = ("succeed", "succeeded")
    results.keep(ledger, row, outcome)
    size = None if outcome["result"] is None else outcome["result"]["size"]
    ledger.emit(row, "succeeded", run_ms=lasted, reason="ok", result_size=size)
    flows.resolve(ledger, row)


def _close(ledger: Ledger, row: Row, state: str, reason: str, error: Body | None = None) -> None:
    """A lease ends a job, badly. `reason` empty: the contract gives it no word."""
    lasted = flows.end_lease(ledger, row, state, reason)
    flows.finish(ledger, row, state)
    either: Body = {"attempt": (row.attempt, row.attempt + 1)}
    if error is not None:
        either["error_family"] = (error["family"], None)
        either["message"] = (error["message"] or None, "", None)
    must: Body = {"reason": reason} if reason else {}
    ledger.emit(row, state, run_ms=lasted, either=either, **must)
    flows.resolve(ledger, row)


def _retry(ledger: Ledger, row: Row, outcome: Body) -> None:
    row.last_error = outcome["error"]
    if row.cancel_requested:
        _close(ledger, row, "cancelled", "", outcome["error"])
    elif row.attempt >= row.max_attempts:
        _close(ledger, row, "failed", "exhausted", outcome["error"])
    else:
        lasted = flows.end_lease(ledger, row, "retry_scheduled", outcome["reason"])
        row.state = "pending"
        row.run_at = ledger.now + min(outcome["delay"], LONGEST_DELAY)
        ledger.emit(
            row,
            "retry_scheduled",
            run_ms=lasted,
            reason=outcome["reason"],
            run_at=row.run_at,
            error_family=outcome["error"]["family"],
            either={"message": (outcome["error"]["message"] or None, "")},
        )


def _fail(ledger: Ledger, row: Row, outcome: Body) -> None:
    row.last_error = outcome["error"]
    _close(ledger, row, "failed", outcome["reason"], outcome["error"])


def _release(ledger: Ledger, row: Row, outcome: Body) -> None:
    """The attempt is always given back; too many releases with a delay end the job."""
    row.attempt -= 1
    reason, delay = outcome["reason"], outcome["delay"]
    most = MOST_RELEASES.get(reason, 100) if outcome["at_most"] is None else outcome["at_most"]
    count = row.releases.get(reason, 0)
    if row.cancel_requested:
        _close(ledger, row, "cancelled", "")
    elif delay and count >= most:
        _close(ledger, row, "failed", reason)
    else:
        lasted = flows.end_lease(ledger, row, "released", reason)
        row.state = "pending"
        if delay:
            row.releases = {**row.releases, reason: count + 1}
            row.run_at = ledger.now + delay
        either = {"attempt": (row.attempt, row.attempt + 1)}
        ledger.emit(row, "released", run_ms=lasted, reason=reason, run_at=row.run_at, either=either)


def lose(ledger: Ledger, row: Row) -> None:
    """Sweep takes an expired lease."""
    if row.cancel_requested:
        _close(ledger, row, "cancelled", "lease_lost")
    elif row.attempt >= row.max_attempts:
        _close(ledger, row, "failed", "lease_lost")
    else:
        lasted = flows.end_lease(ledger, row, "lease_lost", "lease_lost")
        row.state = "pending"
        ledger.emit(row, "lease_lost", run_ms=lasted, reason="lease_lost", run_at=row.run_at)


def _check(ledger: Ledger, token: Body, reply: Body | None, verdict: Body, what: str) -> None:
    name = f"{what} of {token['tenant']}/{token['job_id']} lease {token['lease_seq']} at {ledger.now}"
    try:
        demand("H1", reply, verdict, what=name)
    except Violation as wrong:
        raise Violation(_property(reply or {}, verdict, what), wrong.message) from None


def _property(reply: Body, verdict: Body, what: str) -> str:
    """Which promise a wrong answer about a lease breaks."""
    said, due = reply.get("refused"), verdict.get("refused")
    if "JobNotFound" in (said, due):
        return "H14"
    if "JobCancelled" in (said, due):
        return "H8"
    for name in (due, said):
        if name in ("IdConflict", "ParentNotFound", "ParentCycle", "GroupRequired", "GroupNeedsKeyed"):
            return {"Pa": "H12", "Id": "H5"}.get(name[:2], "H6")
    return "H3" if what == "renew" or "LeaseExpired" in (said, due) else "H1"
