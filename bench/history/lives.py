"""How jobs live: each is told from its enqueue to its end, event by event, as the transition table would write them.

A job's next event comes strictly after its last one, so sorting all events by time keeps every job's order; the two
exceptions (an effect in its cause's own chunk, an attempt of no time at all) are kept apart by the order of telling and
by the lane. Times fall on ticks, of which each tenant has its own: that is what makes chunks of more than one event.
"""

from collections import defaultdict

import msgspec

from bench.history.chance import Chance
from bench.history.world import FATAL, KEYED, TENANTS, WORKERS, Error, Kind, Storms
from tenure.domain.names import HOUR, MINUTE, SECOND, SYSTEM, Ms

TICK: Ms = 100
LEASE: Ms = 60 * SECOND
GRACE: Ms = 5 * SECOND
CELLS_PER_HOUR = HOUR // TICK
MOST_UNKNOWN = 120
DEPLOYS = 8
"""Of so many jobs that no worker knows, the deploy of one never comes; the others wait for fewer releases than that."""
RETRY_BASE: Ms = 5 * SECOND
RETRY_CAP: Ms = 5 * MINUTE
STORM_FAILS = 0.92
AGAIN_FAILS = 0.35
"""What failed once is likely to fail again,"""
AGAIN_LOST = 0.4
"""and a job that was there when its worker died may well have killed it."""

Telling = tuple[Ms, int, int, str]
"""(at, lane, order, line): what one event is sorted by, and its line in the feed."""


class Ended(msgspec.Struct, frozen=True, gc=False):
    """When and how a job ended, and in which lane its end was told."""

    at: Ms
    lane: int
    succeeded: bool


class Job:
    """A job while its life is told."""

    __slots__ = (
        "attempt",
        "carried",
        "ended",
        "freed",
        "group",
        "head",
        "id",
        "kind",
        "labels",
        "lane",
        "last",
        "lease_seq",
        "lost",
        "max_attempts",
        "place",
        "priority",
        "released",
        "run_at",
        "tenant",
        "unknown",
        "version",
    )

    def __init__(self, tenant: int, kind: Kind, id: str) -> None:
        self.tenant = tenant
        self.kind = kind
        self.id = id
        self.lane = lane_of(tenant)
        self.head = HEADS[tenant]
        self.place = f',"queue":"{kind.queue}","job_type":"{kind.name}","attempt":'
        self.version = self.attempt = self.lease_seq = 0
        self.run_at = self.last = self.freed = 0
        """Due from then; last told of then; its last lease ended then."""
        self.priority = kind.priority
        self.max_attempts = kind.attempts
        self.group: str | None = None
        self.carried = self.labels = ""
        """What a replay copies of the enqueued event's line."""
        self.unknown = self.released = 0
        """Releases until some worker knows its type, and those it had."""
        self.lost = False
        self.ended: Ended | None = None


HEADS = tuple(f'{{"tenant":"{tenant}","kind":"' for tenant in (*TENANTS, SYSTEM))
NUMBER = {tenant: number for number, tenant in enumerate((*TENANTS, SYSTEM))}


def lane_of(tenant: int) -> int:
    """Two lanes a tenant: what follows in the same millisecond by an operation of its own is told in the second."""
    return tenant * 2


def text(value: str) -> str:
    """A string as the store's JSON has it."""
    return msgspec.json.encode(value).decode()


class Lives:
    """Tells lives into one bucket an hour, nothing past `end`."""

    def __init__(self, chance: Chance, start: Ms, end: Ms, storms: Storms) -> None:
        self.chance = chance
        self.start = start
        self.end = end
        self.storms = storms
        self.told = 0
        self.jobs = 0
        self.buckets: defaultdict[int, list[Telling]] = defaultdict(list)
        self._jitter: list[float] = chance.rng.random(4096).tolist()

    # Telling

    def put(self, at: Ms, lane: int, line: str) -> None:
        """Tells one event, unless the history ends before it."""
        if at <= self.end:
            self.told = told = self.told + 1
            self.buckets[at // HOUR].append((at, lane, told, line))

    def tick(self, tenant: int, after: Ms, span: int = 1) -> Ms:
        """The tenant's next time of an operation, strictly after the given one; a wider span has rarer ones.

        One tick of each hour falls on the hour itself.
        """
        cell = (after // (TICK * span) + 1) * span
        to_the_hour = -cell % CELLS_PER_HOUR
        if to_the_hour < span <= 1024:
            return (cell + to_the_hour) * TICK
        return cell * TICK + int(self._jitter[(cell * 31 + tenant * 977) & 4095] * TICK * span)

    def _tell(self, job: Job, kind: str, at: Ms, rest: str = "", lane: int = -1) -> None:
        job.version = version = job.version + 1
        job.last = at
        self.put(
            at,
            job.lane if lane < 0 else lane,
            f'{job.head}{kind}","at":{at},"job_id":"{job.id}","version":{version}{job.place}{job.attempt},'
            f'"lease_seq":{job.lease_seq}{rest}}}\n',
        )

    # Enqueue

    def new(self, tenant: int, kind: Kind, at: Ms, count: int, labels: str = "") -> Job:
        """A job of its type with what its enqueue brings along; labels as they stand in the line."""
        chance = self.chance
        job = Job(tenant, kind, chance.uuid7(at, count))
        self.jobs += 1
        key = f',"key_hash":"{chance.bits():016x}{chance.bits():016x}"' if chance.uniform() < 0.08 else ""
        group = ""
        if kind.queue in KEYED:
            job.group = f"{kind.queue}/customer {chance.below(40)}"
            group = f',"group":"{job.group}"'
        u = chance.uniform()
        if u < 0.03:
            job.priority = max(-100, min(100, kind.priority + chance.below(40) - 20))
        elif u > 0.998:
            releases = 1 + chance.below(DEPLOYS)
            job.unknown = releases if releases < DEPLOYS else MOST_UNKNOWN + 1
        job.carried = f'{key}{group},"max_attempts":{job.max_attempts}'
        job.labels = labels
        return job

    def enqueue(self, job: Job, at: Ms, run_at: Ms = 0, ties: str = "", lane: int = -1) -> None:
        """Tells of the enqueue; `ties` are its parents or the job it replays, as they stand in the line."""
        job.run_at = max(run_at, at)
        size = 20 + min(200_000, int(self.chance.lognormal(180, 1.2)))
        self._tell(
            job,
            "enqueued",
            at,
            f',"priority":{job.priority}{job.carried}{ties},"payload_size":{size}{job.labels},"run_at":{job.run_at}',
            lane,
        )

    # Waiting

    def live(self, job: Job, wait: Ms) -> None:
        """From pending to the end; `wait` is how long the first claim takes to come."""
        u = self.chance.uniform()
        if u < 0.02:
            self._disturb(job, u)
        if job.ended is None:
            self.attempts(job, wait)

    def _disturb(self, job: Job, u: float) -> None:
        """What else befalls a waiting job, before anybody claimed it."""
        at = self.tick(job.tenant, job.last + int(self.chance.lognormal(20_000, 1.5)))
        if u < 0.006:
            self._end_unleased(job, "cancelled", "cancelled", at)
        elif u < 0.010:
            self._end_unleased(job, "cancelled", "expired", self.tick(job.tenant, job.last + 15 * MINUTE, 64))
        elif u < 0.015:
            self._reschedule(job, at)
        else:
            job.priority = 90 if job.priority != 90 else 10
            self._tell(job, "reprioritised", at, f',"priority":{job.priority}')

    def _disturb_again(self, job: Job) -> None:
        """The same between two attempts."""
        at = self.tick(job.tenant, job.last + int(self.chance.lognormal(2_000, 1)))
        if self.chance.uniform() < 0.5:
            self._end_unleased(job, "cancelled", "cancelled", at)
        else:
            self._reschedule(job, at)

    def _reschedule(self, job: Job, at: Ms) -> None:
        job.run_at = at + int(self.chance.lognormal(10 * MINUTE, 1.5)) * (self.chance.uniform() < 0.8)
        self._tell(job, "rescheduled", at, f',"run_at":{job.run_at}')

    def unblock(self, job: Job, at: Ms, lane: int) -> None:
        """Its last parent ended, in that very operation."""
        job.run_at = max(job.run_at, at)
        self._tell(job, "unblocked", at, f',"run_at":{job.run_at}', lane)

    def end_with_parent(self, job: Job, kind: str, at: Ms, lane: int) -> None:
        """A parent didn't succeed, and the edge says that this ends the child too."""
        self._end_unleased(job, kind, "parent_failed", at, lane)

    def _end_unleased(self, job: Job, kind: str, reason: str, at: Ms, lane: int = -1) -> None:
        self._tell(job, kind, at, f',"reason":"{reason}"', lane)
        self._close(job, kind, at, job.lane if lane < 0 else lane)

    # Running

    def attempts(self, job: Job, wait: Ms) -> None:
        """Claims the job again and again until it ends, or the history does."""
        chance = self.chance
        while True:
            at = self.tick(job.tenant, max(job.run_at, job.last, self.start) + wait)
            if at > self.end:
                return
            workers = WORKERS[job.kind.queue]
            worker = workers[(at // TICK + job.tenant) % len(workers)]
            self._claim(job, at, worker)
            self.attempt(job, at, worker)
            if job.ended is None and chance.uniform() < 0.02:
                self._disturb_again(job)
            if job.ended is not None or job.last > self.end:
                return
            wait = int(chance.lognormal(300, 1.5))

    def _claim(self, job: Job, at: Ms, worker: str) -> None:
        waited = at - max(job.run_at, job.freed)
        job.attempt += 1
        job.lease_seq += 1
        group = holders = ""
        if job.group is not None:
            limit = KEYED[job.kind.queue]
            group = f',"group":"{job.group}"'
            holders = f',"group_holders":{1 + job.lease_seq % limit},"group_limit":{limit}'
        rest = f',"worker":"{worker}"{group},"lease_until":{at + LEASE},"waited_ms":{waited}{holders}'
        self._tell(job, "claimed", at, rest)

    def attempt(self, job: Job, claimed: Ms, worker: str) -> None:
        """One lease, from the claim that was just told to its end."""
        chance, kind = self.chance, job.kind
        run = self._run_time(kind)
        at = self.tick(job.tenant, max(claimed + run, self.start), _span(run))
        if kind.progress:
            self._progress(job, claimed, at, worker)
        u = chance.uniform()
        if job.released < job.unknown:
            self._unknown_type(job, claimed, worker)
        elif u < (AGAIN_LOST if job.lost else 0.004):
            self._lose(job, claimed, worker)
        elif u < 0.009:
            self._release(job, claimed, at, worker, u < 0.0065)
        elif u < 0.012:
            self._end(job, "cancelled", "cancelled", claimed, at, worker)
        elif u < 0.016:
            self._request_cancel(job, claimed, at, worker)
        else:
            self._settle(job, claimed, at, worker)

    def _run_time(self, kind: Kind) -> Ms:
        """Lognormal with a Pareto tail; of some types a day and more."""
        u = self.chance.uniform()
        if u < kind.days:
            return int((30 + 15 * self.chance.uniform()) * HOUR)
        run = self.chance.lognormal(kind.median, kind.sigma)
        if u > 0.997:
            run *= (1 - self.chance.uniform()) ** -0.8
        return int(min(run, 45 * HOUR))

    def _progress(self, job: Job, claimed: Ms, end: Ms, worker: str) -> None:
        steps, span = 1 + self.chance.below(4), max(1, _span(end - claimed) // 4)
        for step in range(1, steps + 1):
            at = self.tick(job.tenant, max(job.last, claimed + (end - claimed) * step // (steps + 1)), span)
            if self.start <= at < end:
                message = f',"message":"step {step} of {steps}"' if step % 2 else ""
                self._tell(job, "progress", at, f',"worker":"{worker}"{message},"progress":{step / (steps + 1)!r}')

    def _settle(self, job: Job, claimed: Ms, at: Ms, worker: str) -> None:
        """As the handler ended: well, or by an error, or by an error that no retry can mend."""
        chance, kind = self.chance, job.kind
        storm = self.storms.get((kind.name, claimed // HOUR))
        fails = STORM_FAILS if storm else kind.fails if job.attempt == 1 else AGAIN_FAILS
        if chance.uniform() >= fails:
            self._succeed(job, claimed, at, worker)
            return
        error = storm or kind.errors[chance.below(len(kind.errors))]
        if storm is None and chance.uniform() < 0.08:
            error = FATAL[chance.below(len(FATAL))]
            self._end(job, "failed", error.reason, claimed, at, worker, self._said(error))
        elif job.attempt >= job.max_attempts:
            self._end(job, "failed", "exhausted", claimed, at, worker, self._said(error))
        else:
            self._retry(job, claimed, at, worker, error)

    def _succeed(self, job: Job, claimed: Ms, at: Ms, worker: str) -> None:
        size = f',"result_size":{2 + self.chance.below(400)}' if job.kind.results else ""
        lane = -1
        if size.endswith("77") and job.last == claimed >= self.start:
            at, lane = claimed, job.lane + 1  # done within the millisecond, by an operation of its own
        self._end(job, "succeeded", "ok", claimed, at, worker, size, lane)

    def _said(self, error: Error) -> str:
        message = error.message(self.chance)
        return f',"error_family":"{error.family}"' + (f',"message":{text(message)}' if message else "")

    def _retry(self, job: Job, claimed: Ms, at: Ms, worker: str, error: Error) -> None:
        """With full jitter, as the default policy has it."""
        high = min(RETRY_CAP, RETRY_BASE << min(job.attempt - 1, 16))
        low = RETRY_BASE // 2
        job.run_at = at + low + int(max(0, high - low) * self.chance.uniform())
        self._back(job, "retry_scheduled", error.reason, claimed, at, worker, self._said(error))

    def _release(self, job: Job, claimed: Ms, at: Ms, worker: str, snooze: bool) -> None:
        job.attempt -= 1
        if snooze:
            job.run_at = at + 1 + int(self.chance.lognormal(5 * MINUTE, 1))
            self._back(job, "released", "snooze", claimed, at, worker)
        else:
            self._back(job, "released", ("shutdown", "stopped", "restart")[self.chance.below(3)], claimed, at, worker)

    def _unknown_type(self, job: Job, claimed: Ms, worker: str) -> None:
        """During a rolling deploy: released until a worker knows the type, failed after an hour of that."""
        at = self.tick(job.tenant, max(claimed, job.last, self.start))
        job.attempt -= 1
        if job.released >= MOST_UNKNOWN:
            self._end(job, "failed", "unknown_type", claimed, at, worker)
            return
        job.released += 1
        job.run_at = at + 30 * SECOND
        self._back(job, "released", "unknown_type", claimed, at, worker)

    def _lose(self, job: Job, claimed: Ms, worker: str) -> None:
        """The worker died, some time after its last event: the sweep takes the lease once it is over."""
        job.lost = True
        died = max(claimed, job.last, self.start) + int(self.chance.lognormal(10_000, 1))
        at = self.tick(job.tenant, died + LEASE + GRACE, 32)
        if job.attempt >= job.max_attempts:
            self._end(job, "failed", "lease_lost", claimed, at, worker)
        else:
            self._back(job, "lease_lost", "lease_lost", claimed, at, worker)

    def _request_cancel(self, job: Job, claimed: Ms, at: Ms, worker: str) -> None:
        """Asked to end; how the attempt ends decides."""
        asked = self.tick(job.tenant, max(job.last, self.start))
        self._tell(job, "cancel_requested", asked, f',"worker":"{worker}"')
        at = self.tick(job.tenant, max(asked, at))
        u = self.chance.uniform()
        if u < 0.3:
            self._succeed(job, claimed, at, worker)
        elif u < 0.6:
            error = job.kind.errors[self.chance.below(len(job.kind.errors))]
            self._end(job, "cancelled", "cancelled", claimed, at, worker, self._said(error))
        elif u < 0.8:
            job.attempt -= 1
            self._end(job, "cancelled", "cancelled", claimed, at, worker)
        else:
            self._end(job, "cancelled", "lease_lost", claimed, at + LEASE + GRACE, worker)

    def _back(self, job: Job, kind: str, reason: str, claimed: Ms, at: Ms, worker: str, said: str = "") -> None:
        """The lease ends and the job waits again."""
        job.freed = at
        rest = f',"worker":"{worker}","run_at":{job.run_at},"run_ms":{at - claimed},"reason":"{reason}"{said}'
        self._tell(job, kind, at, rest)

    def _end(
        self, job: Job, kind: str, reason: str, claimed: Ms, at: Ms, worker: str, said: str = "", lane: int = -1
    ) -> None:
        """The lease ends and the job with it."""
        self._tell(job, kind, at, f',"worker":"{worker}","run_ms":{at - claimed},"reason":"{reason}"{said}', lane)
        self._close(job, kind, at, job.lane if lane < 0 else lane)

    # After the end

    def _close(self, job: Job, kind: str, at: Ms, lane: int) -> None:
        job.ended = Ended(at, lane, kind == "succeeded")
        if kind != "failed" or at > self.end:
            return
        u = self.chance.uniform()
        if u < 0.35:
            after = self.tick(job.tenant, at + int(self.chance.lognormal(2 * HOUR, 1.2)), 16)
            if u < 0.1:
                self._tell(job, "discarded", after)
            elif after <= self.end:
                self._replay(job, after)

    def _replay(self, job: Job, at: Ms) -> None:
        again = self.new(job.tenant, job.kind, at, 0, job.labels)
        again.group, again.priority, again.carried = job.group, job.priority, job.carried
        self._tell(job, "replayed", at, f',"new_id":"{again.id}"')
        self.enqueue(again, at, ties=f',"replay_of":"{job.id}"')
        self.live(again, int(self.chance.lognormal(300, 1.5)))


def _span(run: Ms) -> int:
    """How rare a tick ends a run: long ones needn't be told to the tenth of a second."""
    return 1 if run < 400 else 1 << min(12, (run // 200).bit_length() - 1)
