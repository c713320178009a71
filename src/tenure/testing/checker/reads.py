"""Reads: records, derived status, gates, dead letters and results must be what the ledger knows."""

from tenure.testing.checker.ledger import Body, Ledger, Row
from tenure.testing.checker.order import check_record, gates, view_lane
from tenure.testing.checker.results import check_shown
from tenure.testing.checker.violation import Violation


def get(ledger: Ledger, asked: Body, replies: list[Body]) -> None:
    """Jobs were read by (tenant, id)."""
    for ref, reply in zip(asked["refs"], replies, strict=True):
        row = ledger.jobs.get((ref[0], ref[1]))
        name = f"{ref[0]}/{ref[1]}"
        if "refused" in reply:
            if row is not None:
                raise Violation("H4", f"{name} is in the store, get answers {reply['refused']}")
            if reply["refused"] != "JobNotFound":
                raise Violation("H14", f"{name} is unknown, get answers {reply['refused']}")
            continue
        if row is None:
            raise Violation("H14", f"{name} isn't in the store, get shows a job")
        check_view(ledger, row, reply)
        _check_tracebacks(row, reply, asked.get("tracebacks", False))
        if asked["explain"]:
            _check_gates(ledger, row, reply["gates"])


def check_view(ledger: Ledger, row: Row, view: Body) -> None:
    """One job as shown to a reader."""
    name = f"{row.tenant}/{row.id}"
    if (view["tenant"], view["id"]) != row.ref:
        raise Violation("H14", f"{name} was asked for, {view['tenant']}/{view['id']} is shown")
    if view["payload"]["sha256"] != row.payload["sha256"]:
        raise Violation("H5", f"{name} is shown with another payload than was enqueued")
    check_record(row, view)
    _check_lease(row, view["lease"])
    _check_history(row, view)
    if view["status"] != status(row, ledger.now):
        raise Violation("H2", f"{name} is shown as {view['status']}, must be {status(row, ledger.now)}")
    check_shown(ledger, row, view["result"])
    _check_letter(ledger, row, view)


def status(row: Row, now: int) -> str:
    """What a job is shown as."""
    if row.state != "pending":
        return row.state
    if row.past_expiry(now):
        return "expired"
    if row.run_at <= now:
        return "ready"
    return "retrying" if row.attempt else "scheduled"


def _check_lease(row: Row, lease: Body | None) -> None:
    name = f"{row.tenant}/{row.id}"
    if (lease is None) != (row.lease is None):
        raise Violation("H3", f"{name} is {row.state}, its lease is shown as {lease}")
    if lease is not None and row.lease is not None:
        due = (row.lease.worker, row.lease.claimed_at, row.lease.until, row.lease.ttl, row.lease.grace)
        told = (lease["worker"], lease["claimed_at"], lease["until"], lease["ttl"], lease["grace"])
        if told != due:
            raise Violation("H3", f"{name}: its lease is {due}, shown as {told}")


def _check_history(row: Row, view: Body) -> None:
    name = f"{row.tenant}/{row.id}"
    if len(view["history"]) != len(row.history):
        raise Violation("H2", f"{name} had {len(row.history)} leases, its history shows {len(view['history'])}")
    for told, due in zip(view["history"], row.history, strict=True):
        for what, value in due.items():
            if told[what] != value:
                raise Violation("H2", f"{name}: history says {what} {told[what]}, must be {value}")
    if row.last_error is not None:
        error = view["last_error"]
        if error is None or error["family"] != row.last_error["family"]:
            raise Violation("H2", f"{name}: last_error must keep {row.last_error['family']}")


def _check_letter(ledger: Ledger, row: Row, view: Body) -> None:
    letter = ledger.letters.get(row.ref)
    due = (None, None) if letter is None else (letter.disposition, letter.new_id)
    if (view["dead_letter"], view["replayed_as"]) != due:
        told = (view["dead_letter"], view["replayed_as"])
        raise Violation("H2", f"{row.tenant}/{row.id}: dead letter {told}, must be {due}")


def _check_tracebacks(row: Row, view: Body, asked: bool) -> None:
    """The last that were told, by lease, to those who ask for them. Histories of before there were any are read too."""
    told = [(lease_seq, traceback) for lease_seq, traceback in view.get("tracebacks", ())]
    due = list(row.tracebacks) if asked else []
    if told != due:
        leases = [[lease_seq for lease_seq, _ in some] for some in (due, told)]
        raise Violation("H2", f"{row.tenant}/{row.id}: tracebacks of leases {leases[0]}, shown those of {leases[1]}")


def _check_gates(ledger: Ledger, row: Row, told: list[str]) -> None:
    name = f"{row.tenant}/{row.id}"
    if row.state == "blocked":
        if told[:1] != ["blocked"]:
            raise Violation("H12", f"{name} is blocked, explain says {told}")
        return
    due = gates(ledger, view_lane(ledger, row.lane), row) if row.state == "pending" else []
    if row.past_expiry(ledger.now):  # whether it also stands behind a head isn't fixed
        told, due = [gate for gate in told if gate != "ordered"], [gate for gate in due if gate != "ordered"]
    if told != due:
        raise Violation("H15", f"{name} is held back by {due}, explain says {told}")


def query(ledger: Ledger, asked: Body, body: Body) -> None:
    """Jobs were listed: all of them match, none is missing from an only page, newest first."""
    where = asked["where"]
    previous: int | None = None
    for view in body["replies"]:
        row = ledger.jobs.get((view["tenant"], view["id"]))
        if row is None:
            raise Violation("H5", f"query lists {view['tenant']}/{view['id']}, which isn't in the store")
        if where["tenant"] is not None and row.tenant != where["tenant"]:
            raise Violation("H14", f"a query of tenant {where['tenant']} lists a job of {row.tenant}")
        if not _wanted(ledger, row, where):
            raise Violation("H14", f"query lists {row.tenant}/{row.id}, which doesn't match")
        if previous is not None and row.enqueued_at > previous:
            raise Violation("H10", f"query lists {row.tenant}/{row.id} after an older job")
        previous = row.enqueued_at
        check_view(ledger, row, view)
        _check_tracebacks(row, view, asked=False)
    if asked["after"] is None and body["cursor"] is None:
        due = {row.ref for row in ledger.jobs.values() if _wanted(ledger, row, where)}
        missing = due - {(view["tenant"], view["id"]) for view in body["replies"]}
        if missing:
            raise Violation("H4", f"query doesn't list {sorted(missing)[:3]}")


def _wanted(ledger: Ledger, row: Row, where: Body) -> bool:
    letter = ledger.letters.get(row.ref)
    return (
        where["tenant"] in (None, row.tenant)
        and where["queue"] in (None, row.queue)
        and where["job_type"] in (None, row.job_type)
        and (where["states"] is None or row.state in where["states"])
        and all(row.labels.get(label) == value for label, value in where["labels"].items())
        and (where["enqueued_from"] is None or row.enqueued_at >= where["enqueued_from"])
        and (where["enqueued_before"] is None or row.enqueued_at < where["enqueued_before"])
        and (where["dead_letter"] is None or (letter is not None and letter.disposition == where["dead_letter"]))
    )
