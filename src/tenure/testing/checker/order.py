"""The claim, exactly as §11a walks: tenants in a ring, queues in slots, groups after a position, jobs by §10."""

from dataclasses import dataclass, field

from tenure.testing.checker.documents import Rules, rules_of, tenant_paused, tenant_weight
from tenure.testing.checker.ledger import Body, Lane, Lease, Ledger, Ref, Row, demand, refusal
from tenure.testing.checker.violation import Violation


@dataclass(slots=True)
class LaneView:
    """One tenant's queue during one claim."""

    lane: Lane
    rules: Rules
    paused: bool
    due: list[Row]
    """Pending, due and not past expiry, by priority, run_at, arrival."""
    heads: dict[str, Row | None]
    """Ordered queues: the job of lowest arrival in each group, whatever it does."""
    holders: int
    group_holders: dict[str, int] = field(default_factory=dict)


def rank(row: Row) -> tuple[int, int, int]:
    return (-row.priority, row.run_at, row.seq)


def view_lane(ledger: Ledger, lane: Lane) -> LaneView:
    rules = rules_of(ledger, lane)
    now = ledger.now
    rows = ledger.live(lane).values()
    due = sorted(
        (row for row in rows if row.state == "pending" and row.run_at <= now and not row.past_expiry(now)), key=rank
    )
    view = LaneView(lane, rules, rules.paused or tenant_paused(ledger, lane[0]), due, {}, 0)
    for row in rows:
        if row.state == "running":
            _hold(view, row.group)
        if rules.ordered and row.state in ("pending", "running") and not row.past_expiry(now):
            head = view.heads.get(row.group or "")
            view.heads[row.group or ""] = row if head is None or row.seq < head.seq else head
    for slot in ledger.slots.values():
        if slot.lane == lane:
            _hold(view, slot.group)
    return view


def _hold(view: LaneView, group: str | None) -> None:
    view.holders += 1
    if group is not None:
        view.group_holders[group] = view.group_holders.get(group, 0) + 1


def full(view: LaneView) -> bool:
    return view.rules.limit is not None and view.holders >= view.rules.limit


def group_full(view: LaneView, group: str | None) -> bool:
    limit = view.rules.limit_of(group)
    return group is not None and limit is not None and view.group_holders.get(group, 0) >= limit


def rate_conforms(ledger: Ledger, view: LaneView) -> bool:
    bucket = view.rules.bucket
    return bucket is None or bucket.conforms(ledger.tats.get(view.lane, 0), ledger.now)


def group_rate_conforms(ledger: Ledger, view: LaneView, group: str | None) -> bool:
    bucket = view.rules.group_bucket
    if bucket is None or group is None:
        return True
    return bucket.conforms(ledger.tats.get((*view.lane, group), 0), ledger.now)


def best(ledger: Ledger, view: LaneView) -> Row | None:
    """The job that a claim must take next from this queue, if any is takeable."""
    if view.paused or not view.due or full(view) or not rate_conforms(ledger, view):
        return None
    if not view.rules.keyed:
        return view.due[0]
    groups = sorted({row.group or "" for row in view.due})
    position = ledger.positions.get(view.lane, "")
    for group in [name for name in groups if name > position] + [name for name in groups if name <= position]:
        row = _best_of_group(ledger, view, group)
        if row is not None:
            return row
    return None


def _best_of_group(ledger: Ledger, view: LaneView, group: str) -> Row | None:
    if group_full(view, group) or not group_rate_conforms(ledger, view, group):
        return None
    if not view.rules.ordered:
        return next(row for row in view.due if row.group == group)
    head = view.heads.get(group)
    return head if head in view.due else None


class Walk:
    """One claim under way."""

    def __init__(self, ledger: Ledger, asked: Body) -> None:
        self.ledger = ledger
        self.asked = asked
        self.at_most: dict[str, int | None] = dict(asked["queues"])
        self.queues = sorted(self.at_most)
        self.tenant, self.used, self.round = asked["cursor"]
        self.taken: dict[str, int] = dict.fromkeys(self.at_most, 0)
        tenants = asked["tenants"]
        self.views = {
            lane: view_lane(ledger, lane)
            for lane in ledger.lanes
            if lane[1] in self.at_most and (tenants is None or lane[0] in tenants)
        }
        self.best = {lane: best(ledger, view) for lane, view in self.views.items()}

    def open(self, queue: str) -> bool:
        most = self.at_most[queue]
        return most is None or self.taken[queue] < most

    def ring(self) -> list[str]:
        return sorted({lane[0] for lane, row in self.best.items() if row is not None and self.open(lane[1])})

    def next(self) -> Row | None:
        """Moves to where the next job comes from and answers it."""
        ring = self.ring()
        if not ring:
            return None
        if self.tenant not in ring or self.used >= tenant_weight(self.ledger, self.tenant):
            further = [tenant for tenant in ring if tenant > self.tenant]
            self.round += 0 if further else 1
            self.tenant, self.used = (further or ring)[0], 0
        return self._from_queues()

    def _from_queues(self) -> Row:
        slots = [queue for queue in self.queues for _ in range(rules_of(self.ledger, (self.tenant, queue)).weight)]
        start = (self.round * tenant_weight(self.ledger, self.tenant) + self.used) % len(slots)
        for queue in slots[start:] + slots[:start]:
            row = self.best.get((self.tenant, queue))
            if row is not None and self.open(queue):
                return row
        raise AssertionError("a tenant of the ring has a takeable job")

    def take(self, row: Row) -> None:
        """The job is leased and its event is due."""
        view = self.views[row.lane]
        ledger, now = self.ledger, self.ledger.now
        self.used += 1
        self.taken[row.queue] += 1
        view.due.remove(row)
        _hold(view, row.group)
        if view.rules.bucket is not None:
            ledger.tats[row.lane] = view.rules.bucket.spend(ledger.tats.get(row.lane, 0), now)
        if row.group is not None and view.rules.group_bucket is not None:
            key = (*row.lane, row.group)
            ledger.tats[key] = view.rules.group_bucket.spend(ledger.tats.get(key, 0), now)
        if view.rules.keyed:
            ledger.positions[row.lane] = row.group or ""
        self._lease(row, view)
        self.best[row.lane] = best(ledger, view)

    def _lease(self, row: Row, view: LaneView) -> None:
        ledger, now, asked = self.ledger, self.ledger.now, self.asked
        ttl = _first(row.own_lease, view.rules.lease, asked["ttl"])
        grace = _first(row.own_grace, view.rules.grace, asked["grace"])
        row.state = "running"
        row.lease_seq += 1
        row.attempt += 1
        row.secret = asked["claim_id"]
        row.settled = None
        row.lease = Lease(asked["worker"], now, now + ttl, ttl, grace)
        grouped = row.group is not None
        ledger.emit(
            row,
            "claimed",
            worker=asked["worker"],
            lease_until=now + ttl,
            waited_ms=now - max(row.run_at, row.last_end or 0),
            group_holders=view.group_holders[row.group or ""] if grouped else None,
            group_limit=view.rules.limit_of(row.group) if grouped else None,
        )

    def cursor(self) -> list[str | int]:
        return [self.tenant, self.used, self.round]

    def wakes(self) -> set[int | None]:
        """The times that `wake_after` may say now: one, but for jobs that will never become claimable."""
        waits, doubtful = self._bucket_waits(), list[int]()
        now = self.ledger.now
        for view in self.views.values():
            if view.paused:
                continue
            for row in self.ledger.live(view.lane).values():
                if row.state == "pending" and row.run_at > now:
                    (doubtful if row.past_expiry(now) else waits).append(row.run_at - now)
        return {min(waits, default=None), min(waits + doubtful, default=None)}

    def _bucket_waits(self) -> list[int]:
        waits = []
        now, tats = self.ledger.now, self.ledger.tats
        for lane, view in self.views.items():
            if view.paused or not view.due:
                continue
            if view.rules.bucket is not None and not rate_conforms(self.ledger, view):
                waits.append(view.rules.bucket.wait(tats.get(lane, 0), now))
            for group in {row.group for row in view.due if not view.rules.ordered or _is_head(view, row)}:
                bucket = view.rules.group_bucket
                if bucket is not None and group is not None and not group_rate_conforms(self.ledger, view, group):
                    waits.append(bucket.wait(tats.get((*lane, group), 0), now))
        return waits


def _is_head(view: LaneView, row: Row) -> bool:
    return view.heads.get(row.group or "") is row


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


# The check


def claim(ledger: Ledger, asked: Body, reply: Body | None) -> None:
    """A claim was answered: with the right jobs, in the right order, and nothing else."""
    if ledger.frozen:
        demand("H2", reply, refusal("StoreFrozen"), what="claim on a frozen store")
        return
    if reply is not None and "refused" in reply:
        raise Violation("H15", f"a claim is never refused, it was with {reply['refused']}")
    if reply is not None and reply["now"] != ledger.now:
        raise Violation("H3", f"a claim at {ledger.now} says that it is {reply['now']}")
    again = sorted(
        (row for row in ledger.all_live() if row.state == "running" and row.secret == asked["claim_id"]),
        key=lambda row: row.ref,
    )
    if again:
        _check_again(ledger, asked, reply, again)
        return
    _check_new(ledger, asked, reply)


def _check_again(ledger: Ledger, asked: Body, reply: Body | None, running: list[Row]) -> None:
    """A claim id in use answers with what runs under it and takes nothing."""
    if reply is None:
        return
    told = [(job["tenant"], job["id"]) for job in reply["jobs"]]
    if told != [row.ref for row in running]:
        raise Violation("H3", f"claim id in use by {[row.ref for row in running]}, asked again it answered {told}")
    if list(reply["cursor"]) != list(asked["cursor"]):
        raise Violation("H10", f"a repeated claim moved the cursor from {asked['cursor']} to {reply['cursor']}")
    for row, job in zip(running, reply["jobs"], strict=True):
        check_claimed(ledger, row, job)


def _check_new(ledger: Ledger, asked: Body, reply: Body | None) -> None:
    walk = Walk(ledger, asked)
    given = 0
    for number in range(asked["n"]):
        row = walk.next()
        job = None
        if reply is not None and number < len(reply["jobs"]):
            job = reply["jobs"][number]
        if row is None or (reply is not None and (job is None or (job["tenant"], job["id"]) != row.ref)):
            if row is not None or job is not None:
                raise _wrong_job(walk, row, job)
            break
        walk.take(row)
        given += 1
        if job is not None:
            check_claimed(ledger, row, job)
    if reply is not None:
        _check_rest(walk, asked, reply, given)


def _check_rest(walk: Walk, asked: Body, reply: Body, given: int) -> None:
    if len(reply["jobs"]) > given:
        raise Violation("H6", f"a claim for {asked['n']} gave {len(reply['jobs'])}")
    if list(reply["cursor"]) != walk.cursor():
        raise Violation("H10", f"the claim ended at cursor {walk.cursor()}, it answered {reply['cursor']}")
    wakes = walk.wakes() if given < asked["n"] else {None}
    if reply["wake_after"] not in wakes:
        raise Violation("H15", f"wake_after must be {wakes}, it is {reply['wake_after']}")


def check_claimed(ledger: Ledger, row: Row, job: Body) -> None:
    """The job handed out is the job that was enqueued, under the lease that is due."""
    name = f"claimed {row.tenant}/{row.id}"
    lease = row.lease
    assert lease is not None
    if job["payload"]["sha256"] != row.payload["sha256"]:
        raise Violation("H5", f"{name}: another payload than was enqueued")
    told = (job["token"]["tenant"], job["token"]["job_id"], job["token"]["lease_seq"], job["token"]["secret"])
    if told != (row.tenant, row.id, row.lease_seq, row.secret):
        raise Violation("H3", f"{name}: token {told[:3]}, the lease is {row.lease_seq}")
    _compare_epoch(ledger, job)
    due = {"worker": lease.worker, "claimed_at": lease.claimed_at, "until": lease.until}
    due |= {"ttl": lease.ttl, "grace": lease.grace}
    for what, value in due.items():
        if job["lease"][what] != value:
            raise Violation("H3", f"{name}: lease {what} is {job['lease'][what]}, must be {value}")
    check_record(row, job)


def _compare_epoch(ledger: Ledger, job: Body) -> None:
    if ledger.epoch is None:
        ledger.epoch = job["epoch"]
    if job["epoch"] != ledger.epoch:
        raise Violation("H3", f"epoch {job['epoch']} on a claim, the store's is {ledger.epoch}")


_RECORD = {
    "queue": "H5",
    "job_type": "H5",
    "codec": "H5",
    "key": "H5",
    "group": "H5",
    "labels": "H5",
    "replay_of": "H5",
    "state": "H2",
    "version": "H2",
    "lease_seq": "H3",
    "attempt": "H3",
    "max_attempts": "H3",
    "priority": "H10",
    "run_at": "H10",
    "enqueued_at": "H11",
    "expires_at": "H10",
    "updated_at": "H11",
    "finished_at": "H2",
    "cancel_requested": "H8",
    "releases": "H2",
}


def check_record(row: Row, record: Body) -> None:
    """A record shown to anyone stands as it must."""
    for what, property in _RECORD.items():
        if record[what] != getattr(row, what):
            name = f"{row.tenant}/{row.id}"
            raise Violation(property, f"{name}: {what} is {record[what]!r}, must be {getattr(row, what)!r}")
    if row.root_id is not None and record["root_id"] != row.root_id:
        raise Violation("H5", f"{row.tenant}/{row.id}: its root is {record['root_id']}, must be {row.root_id}")


def _wrong_job(walk: Walk, row: Row | None, job: Body | None) -> Violation:
    """Says what is wrong with a claim's answer at this place."""
    due = "nothing" if row is None else f"{row.tenant}/{row.id}"
    if job is None:
        return Violation("H15", f"{due} is takeable at {walk.ledger.now} and the claim has room, it gave nothing")
    told: Ref = (job["tenant"], job["id"])
    property, why = why_not(walk, told)
    return Violation(property, f"{due} must be taken next, the claim took {told[0]}/{told[1]}: {why}")


def why_not(walk: Walk, ref: Ref) -> tuple[str, str]:
    """Why a claim must not take this job now: the promise it breaks, in words."""
    ledger = walk.ledger
    row = ledger.jobs.get(ref)
    if row is None:
        return "H5", "no such job"
    if row.state != "pending":
        return {"running": "H3", "blocked": "H12", "cancelled": "H8"}.get(row.state, "H2"), f"it is {row.state}"
    if walk.asked["tenants"] is not None and row.tenant not in walk.asked["tenants"]:
        return "H14", "its tenant wasn't asked for"
    view = walk.views.get(row.lane)
    if view is None or not walk.open(row.queue):
        return "H10", "its queue wasn't asked for, or gave its most"
    held = gates(ledger, view, row)
    if not held:
        return "H10", "another comes first"
    return _GATED[held[0]], f"held back by {', '.join(held)}"


_GATED = {
    "scheduled": "H10",
    "expired": "H10",
    "tenant_paused": "H10",
    "queue_paused": "H10",
    "limit": "H6",
    "group_limit": "H6",
    "ordered": "H10",
    "rate": "H7",
    "group_rate": "H7",
}


def gates(ledger: Ledger, view: LaneView, row: Row) -> list[str]:
    """All that holds a pending job back, in the order of §3."""
    now = ledger.now
    held = {
        "scheduled": row.run_at > now,
        "expired": row.past_expiry(now),
        "tenant_paused": tenant_paused(ledger, row.tenant),
        "queue_paused": view.rules.paused,
        "limit": full(view),
        "group_limit": view.rules.keyed and group_full(view, row.group),
        "ordered": view.rules.ordered and not _is_head(view, row),
        "rate": not rate_conforms(ledger, view),
        "group_rate": view.rules.keyed and not group_rate_conforms(ledger, view, row.group),
    }
    return [gate for gate, holds in held.items() if holds]
