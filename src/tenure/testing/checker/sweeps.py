"""Sweep and purge: whose turn it is, what must be taken and what must not, and what is spared."""

from datetime import UTC, datetime

from tenure.testing.checker import flows, leases
from tenure.testing.checker.ledger import DAY, Body, Ledger, Row, demand, refusal
from tenure.testing.checker.violation import Violation

SYSTEM = "_system"


def sweep(ledger: Ledger, asked: Body, reply: Body | None) -> None:
    """A sweep was answered; what it must have done is done here."""
    if ledger.frozen:
        demand("H2", reply, refusal("StoreFrozen"), what="sweep on a frozen store")
        return
    turn = ledger.last_turn is None or ledger.now >= ledger.last_turn + asked["interval"]
    demand("H15", reply, {"type": "Swept", "turn": turn, "now": ledger.now}, what="sweep's turn and time")
    if asked["hold"] is not None:
        _hold(ledger, asked["hold"])
    counts = None if reply is None else reply["counts"]
    if not turn:
        _check_counts(counts, 0, 0, 0)
        return
    ledger.last_turn = ledger.now
    ledger.wrote()
    held = ledger.hold_until is not None and ledger.now < ledger.hold_until
    lost = [] if held else _lose(ledger, asked["limit"])
    expired = _expire(ledger, asked["limit"], counts)
    drained = 0 if held else _drain(ledger, asked["limit"])
    _check_counts(counts, len(lost), expired, drained)
    _check_failed(reply, [row for row in lost if row.state == "failed"])


def _hold(ledger: Ledger, hold: int) -> None:
    """The hold is kept, and told of when none was in force."""
    until = ledger.now + hold
    if ledger.hold_until is None or ledger.now >= ledger.hold_until:
        ledger.announce(
            SYSTEM, "clock_jump", {"job_id": None, "version": None, "hold_until": until}, optional=hold == 0
        )
    ledger.hold_until = max(until, ledger.hold_until or 0)
    ledger.wrote()


def _lose(ledger: Ledger, limit: int) -> list[Row]:
    due = [row for row in ledger.all_live() if row.lease is not None and ledger.now > row.lease.deadline]
    due.sort(key=lambda row: (_deadline(row), row.tenant, row.id))
    for row in due[:limit]:
        leases.lose(ledger, row)
    return due[:limit]


def _deadline(row: Row) -> int:
    assert row.lease is not None
    return row.lease.deadline


def _expire(ledger: Ledger, limit: int, counts: Body | None) -> int:
    """Expires what is due; a job unblocked by an expiry may be taken now or by the next sweep."""
    done = 0
    due = _expirable(ledger)
    while due:
        for row in due[: limit - done]:
            if not row.past_expiry(ledger.now):
                continue
            flows.finish(ledger, row, "cancelled")
            ledger.emit(row, "cancelled", reason="expired", run_ms=None)
            flows.resolve(ledger, row)
            done += 1
        due = _expirable(ledger)
        if done >= limit or counts is None or counts["expired"] == done:
            break
    return done


def _expirable(ledger: Ledger) -> list[Row]:
    due = [row for row in ledger.all_live() if row.past_expiry(ledger.now)]
    due.sort(key=lambda row: (row.expires_at or 0, row.tenant, row.id))
    return due


def _drain(ledger: Ledger, limit: int) -> int:
    due = [slot for slot in ledger.slots.values() if ledger.now > slot.deadline]
    due.sort(key=lambda slot: (slot.deadline, slot.ref))
    for slot in due[:limit]:
        del ledger.slots[slot.ref]
    return len(due[:limit])


def _check_counts(counts: Body | None, lost: int, expired: int, drained: int) -> None:
    if counts is None:
        return
    due = {"lost": lost, "expired": expired, "drained": drained, "cascaded": 0}
    for what, count in due.items():
        if counts[what] != count:
            taken_early = counts[what] > count
            property = {"lost": "H3" if taken_early else "H15", "drained": "H6"}.get(what, "H15")
            raise Violation(property, f"sweep must deal with {count} {what}, it says {counts[what]}")


def _check_failed(reply: Body | None, rows: list[Row]) -> None:
    """The jobs that lost their last lease are named. Histories of before they were are read too."""
    named = None if reply is None else reply.get("failed")
    if named is not None and [(one["tenant"], one["id"]) for one in named] != [row.ref for row in rows]:
        raise Violation("H15", f"sweep failed {[row.ref for row in rows]}, it names {named}")


# Purge


def purge(ledger: Ledger, asked: Body, reply: Body | None) -> None:
    """The oldest (day, state) past retention is gone, but for jobs that something still needs."""
    if ledger.frozen:
        demand("H2", reply, refusal("StoreFrozen"), what="purge on a frozen store")
        return
    batches = _batches(ledger, asked)
    if not batches:
        if reply is not None:
            raise Violation("H4", f"nothing may be purged, the store purged {reply}")
        return
    day, state = min(batches)
    rows = batches[(day, state)]
    text = datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d")
    told = {"type": "Purged"} if reply is None else reply
    demand("H4", told, {"type": "Purged", "state": state, "count": len(rows), "day": text}, what="purge")
    for row in rows:
        forget(ledger, row)
    ledger.wrote()
    ledger.announce(
        SYSTEM, "purged", {"job_id": None, "version": None, "day": text, "state": state, "count": len(rows)}
    )


def _batches(ledger: Ledger, retention: Body) -> dict[tuple[int, str], list[Row]]:
    batches: dict[tuple[int, str], list[Row]] = {}
    for row in ledger.jobs.values():
        if not row.terminal or row.finished_at is None:
            continue
        day = row.finished_at // DAY
        if ledger.now >= (day + 1) * DAY + retention[row.state] and not _spared(ledger, row):
            batches.setdefault((day, row.state), []).append(row)
    return batches


def _spared(ledger: Ledger, row: Row) -> bool:
    """A live window, an open dead letter, a child that hasn't ended or a slot that still drains keeps a record."""
    if row.ref in ledger.slots:
        return True
    letter = ledger.letters.get(row.ref)
    if (letter is not None and letter.disposition == "open") or ledger.children.get(row.ref):
        return True
    key = row.binding_key
    binding = None if key is None else ledger.bindings.get(key)
    return row.unique == "window" and binding is not None and binding.job_id == row.id and binding.live(ledger.now)


def forget(ledger: Ledger, row: Row) -> None:
    """The record is gone: its id, its retained key, its result and its dead letter with it."""
    del ledger.jobs[row.ref]
    ledger.results.pop(row.ref, None)
    ledger.letters.pop(row.ref, None)
    key = row.binding_key
    binding = None if key is None else ledger.bindings.get(key)
    if key is not None and binding is not None and binding.job_id == row.id:
        del ledger.bindings[key]
