"""What arrives in an hour: bursts of like jobs, flows, the store's own events, and a backlog if asked for."""

import msgspec
import numpy as np

from bench.history.lives import NUMBER, Job, Lives, lane_of, text
from bench.history.world import BACKLOG, KEYED, KINDS, TENANTS, Kind, Weights, load, shares
from tenure.domain.model.sweep import day_text
from tenure.domain.names import DAY, HOUR, MINUTE, SYSTEM, Ms

MOST_IN_CHUNK = 200
EVENTS_PER_JOB = 3.3
"""About; only the sizes of bursts follow from it."""

_DRAWN = 256


class Flow(msgspec.Struct, frozen=True):
    """For each job of a flow the numbers of its parents, and what their failure does to it."""

    parents: tuple[tuple[int, ...], ...]
    on_failure: str


FLOWS = (
    Flow(((), (0,), (1,)), "cancelled"),
    Flow(((), (), (0, 1)), "failed"),
    Flow(((), (0,), (0,), (0,)), "failed"),
    Flow(((), (0,), (0,)), "unblocked"),
)


class Arrivals:
    """Starts lives, hour by hour."""

    def __init__(self, lives: Lives, events: int) -> None:
        self._lives = lives
        self._chance = lives.chance
        hours = max(1.0, (lives.end - lives.start) / HOUR)
        hourly = shares() * events / hours / EVENTS_PER_JOB
        self._burst: list[float] = np.clip(hourly / 3, 1, 400).tolist()
        """Jobs that a tenant enqueues together, on average: who asks for more asks in larger batches."""

    def fill(self, start: Ms, end: Ms, target: int) -> None:
        """Starts jobs between the two times until so many events were told in all."""
        lives, rng = self._lives, self._chance.rng
        tenants, kinds = load(start), self._mix(start // HOUR)
        tenants /= tenants.sum()
        drawn: list[tuple[int, int, float]] = []
        while lives.told < target:
            drawn = drawn or _draw(rng, tenants, kinds)
            tenant, kind, part = drawn.pop()
            at = self._moment(start, end, part)
            most = max(1, (target - lives.told) // 4)
            self._arrive(tenant, KINDS[kind], at, min(self._size(tenant), most))

    def _mix(self, hour: int) -> Weights:
        """Each type's part of the load; a type in a storm is asked for more, as people try again."""
        weights = np.array([kind.weight * (4 if (kind.name, hour) in self._lives.storms else 1) for kind in KINDS])
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    def _moment(self, start: Ms, end: Ms, part: float) -> Ms:
        """Any time, or the full minute as schedules have it."""
        at = start + int(part * (end - start))
        full = at // MINUTE * MINUTE
        return full if full >= start and self._chance.uniform() < 0.15 else at

    def _size(self, tenant: int) -> int:
        mean = self._burst[tenant]
        if mean <= 1 or self._chance.uniform() < 0.25:
            return 1
        return 1 + int(self._chance.rng.geometric(1 / mean))

    def _arrive(self, tenant: int, kind: Kind, at: Ms, size: int) -> None:
        u = self._chance.uniform()
        if u < 0.06 and kind.queue not in KEYED:
            self._flow(tenant, kind, at, FLOWS[self._chance.below(len(FLOWS))])
        else:
            self._burst_of(tenant, kind, at, size)

    def _burst_of(self, tenant: int, kind: Kind, at: Ms, size: int) -> None:
        """Enqueued up to 200 at once, claimed in batches as the workers get to them."""
        lives, chance = self._lives, self._chance
        labels = self._labels(tenant, at, size)
        later = int(chance.lognormal(HOUR, 1.5)) if chance.uniform() < 0.06 else 0
        wait = int(chance.lognormal(120, 1.6))
        batch = 16 << chance.below(4)
        pause = int(chance.lognormal(250, 0.8))
        for number in range(size):
            if number and number % MOST_IN_CHUNK == 0:
                at = min(lives.tick(tenant, at), lives.end)
            job = lives.new(tenant, kind, at, number, labels)
            lives.enqueue(job, at, at + later)
            lives.live(job, wait + number // batch * pause)

    def _labels(self, tenant: int, at: Ms, size: int) -> str:
        """As they stand in the line."""
        u = self._chance.uniform()
        if size > 50:
            return f',"labels":{{"batch":"{TENANTS[tenant]}-{at // MINUTE}","source":"bulk"}}'
        if u < 0.15:
            return f',"labels":{{"region":"{("eu", "us", "ap")[tenant % 3]}"}}'
        return ',"labels":{"team":"Zürich 北","release":"2.4.1"}' if u < 0.2 else ""

    # Flows

    def _flow(self, tenant: int, kind: Kind, at: Ms, flow: Flow) -> None:
        """Enqueued as one batch; a job's life is told once its parents' are, for it starts with their end."""
        lives, chance = self._lives, self._chance
        jobs = [lives.new(tenant, kind, at, number) for number in range(len(flow.parents))]
        for job, parents in zip(jobs, flow.parents, strict=True):
            lives.enqueue(job, at, ties=_tied([jobs[number] for number in parents]))
        for job, parents in zip(jobs, flow.parents, strict=True):
            wait = int(chance.lognormal(200, 1.5))
            if not parents:
                lives.live(job, wait)
            elif self._resolve(job, [jobs[number] for number in parents], flow.on_failure):
                lives.attempts(job, wait)
        self._afterthought(jobs[0])

    def _resolve(self, child: Job, parents: list[Job], on_failure: str) -> bool:
        """What its parents' ends make of a blocked job; whether it waits for a worker now."""
        ends = sorted((job.ended for job in parents if job.ended is not None), key=lambda end: end.at)
        bad = next((end for end in ends if not end.succeeded), None)
        if bad is not None and on_failure != "unblocked":
            self._lives.end_with_parent(child, on_failure, bad.at, bad.lane)
            return False
        if len(ends) < len(parents):
            return False
        self._lives.unblock(child, ends[-1].at, ends[-1].lane)
        return True

    def _afterthought(self, parent: Job) -> None:
        """Sometimes a child is added after its parent's end: it never blocks, or ends as it is enqueued."""
        lives, ended = self._lives, parent.ended
        if ended is None or self._chance.uniform() < 0.6:
            return
        at = lives.tick(parent.tenant, max(parent.last, ended.at) + MINUTE)
        if at > lives.end:
            return
        child = lives.new(parent.tenant, parent.kind, at, 0)
        lives.enqueue(child, at, ties=_tied([parent]))
        if ended.succeeded:
            lives.attempts(child, 500)
        else:
            lives.end_with_parent(child, "cancelled", at, child.lane)

    # Beside the jobs that run

    def backlog(self, start: Ms, end: Ms, jobs: int) -> None:
        """Jobs that nobody takes up within the history."""
        lives, chance = self._lives, self._chance
        tenants = chance.rng.choice(len(TENANTS), jobs // MOST_IN_CHUNK + 1, p=shares()).tolist()
        for first, tenant in zip(range(0, jobs, MOST_IN_CHUNK), tenants, strict=False):
            at = min(lives.tick(tenant, start + int(chance.uniform() * (end - start))), end)
            later = 30 * DAY if chance.uniform() < 0.1 else 0
            for number in range(first, min(first + MOST_IN_CHUNK, jobs)):
                lives.enqueue(lives.new(tenant, BACKLOG, at, number), at, at + later)

    def administer(self, start: Ms, end: Ms) -> None:
        """What happens to the store rather than to a job, within an hour."""
        chance, hour = self._chance, start // HOUR % 24
        if hour == 1:
            for number, state in enumerate(("succeeded", "cancelled", "failed")):
                count = 1 + chance.below(100_000)
                day = day_text(start // DAY - (8 if state != "failed" else 31))
                self._note(
                    SYSTEM, "purged", start + 1 + number, f',"day":"{day}","state":"{state}","count":{count}', end
                )
        if chance.uniform() < 0.15:
            tenant, queue = TENANTS[chance.below(len(TENANTS))], KINDS[chance.below(len(KINDS))].queue
            place, at = f',"queue":"{queue}","document":"queue"', start + chance.below(40 * MINUTE)
            self._note(SYSTEM, "configured", at, ',"queue":"mail","document":"queue"', end)
            self._note(tenant, "paused", at + 1_000, place, end)
            self._note(tenant, "resumed", at + 1_000 + chance.below(15 * MINUTE), place, end)
        if chance.uniform() < 0.02:
            at = start + chance.below(HOUR)
            self._note(tenant=SYSTEM, kind="clock_jump", at=at, rest=f',"hold_until":{at + MINUTE}', end=end)

    def _note(self, tenant: str, kind: str, at: Ms, rest: str, end: Ms) -> None:
        if at < end:
            self._lives.put(
                at, lane_of(NUMBER[tenant]), f'{{"tenant":{text(tenant)},"kind":"{kind}","at":{at}{rest}}}\n'
            )


def _draw(rng: np.random.Generator, tenants: Weights, kinds: Weights) -> list[tuple[int, int, float]]:
    """Who enqueues what, and at which part of the hour."""
    who = rng.choice(len(TENANTS), _DRAWN, p=tenants).tolist()
    what = rng.choice(len(KINDS), _DRAWN, p=kinds).tolist()
    return list(zip(who, what, rng.random(_DRAWN).tolist(), strict=True))


def _tied(parents: list[Job]) -> str:
    """As they stand in the line."""
    if not parents:
        return ""
    ids = ",".join(f'"{job.id}"' for job in parents)
    return f',"parents":[{ids}]'
