"""Limits and rates under any interleaving: what the feed says ran at once, against what was configured.

Only what surely held is counted. Configuration that may have changed while jobs ran gives the loosest reading.
"""

from itertools import product

from tenure.testing.checker.documents import EVERYONE, Bucket, Rules, effective
from tenure.testing.checker.ledger import Body, Lane, Ref
from tenure.testing.checker.paths import Account, Told
from tenure.testing.checker.violation import Violation


class Limits:
    """Configuration as clients wrote it, and what ran under it."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._contents: dict[tuple[str, str], list[Body]] = {}
        self._writes: dict[tuple[str, str], int] = {}
        """Writes that were sent and not answered while they were the only one, by document."""
        self._used: set[str] = set()
        self._tats: dict[tuple[str, ...], int] = {}
        self._made: dict[tuple[str, ...], int] = {}
        """When the latest claim of each was made, at least."""
        self._draining: dict[Ref, tuple[Lane, str | None, int, int]] = {}
        self._cache: dict[Lane, list[Rules]] = {}

    def queue_used(self, queue: str) -> None:
        """Someone sends a job to this queue: what is configured from now on may come late."""
        self._used.add(queue)

    def configuring(self, tenant: str, queue: str, content: Body) -> None:
        """Someone writes a queue's document: what it says may hold from now on."""
        key = (tenant, queue)
        self._writes[key] = self._writes.get(key, 0) + 1
        known = self._contents.setdefault(key, [{}])
        if content not in known:
            known.append(content)
        self._cache.clear()

    def configured(self, tenant: str, queue: str, content: Body) -> None:
        """It was written. Nothing else holds if no other write and no job came in between."""
        key = (tenant, queue)
        if self._writes.get(key) == 1 and queue not in self._used:
            self._contents[key] = [content]
            del self._writes[key]
        self._cache.clear()

    def not_configured(self, tenant: str, queue: str, content: Body) -> None:
        """The write was refused: it said nothing, if no other write said the same."""
        key = (tenant, queue)
        if self._writes.get(key) == 1:
            del self._writes[key]
            known = self._contents[key]
            if len(known) > 1 and known[-1] == content:
                known.pop()
        self._cache.clear()

    def rules(self, lane: Lane) -> list[Rules]:
        """Every set of rules that may hold."""
        if lane not in self._cache:
            own = self._contents.get(lane, [{}])
            everyone = self._contents.get((EVERYONE, lane[1]), [{}])
            self._cache[lane] = [effective(near, far) for near, far in product(own, everyone)]
        return self._cache[lane]

    def claimed(self, job: Told, event: Body, graces: dict[tuple[Ref, int], int], freed: set[tuple[Ref, int]]) -> None:
        """The feed tells of a claim: it must have had room, and its turn by the rates."""
        lane = (job.ref[0], job.queue)
        rules = self.rules(lane)
        running = self._account.running[lane]
        draining = self._draining_now(lane, event["at"], graces, freed)
        limit = _loosest([rule.limit for rule in rules])
        if limit is not None and len(running) + len(draining) > limit:
            raise Violation("H6", f"{len(running)} run and {len(draining)} drain in {lane}, its limit is {limit}")
        if job.group is not None:
            self._check_group(job, event, rules, draining)
        self._check_rates(lane, job, rules, event["at"])

    def _check_group(self, job: Told, event: Body, rules: list[Rules], draining: list[str | None]) -> None:
        lane = (job.ref[0], job.queue)
        running = sum(1 for other in self._account.running[lane].values() if other.group == job.group)
        holders = running + draining.count(job.group)
        limit = _loosest([rule.limit_of(job.group) for rule in rules])
        if limit is not None and holders > limit:
            raise Violation("H6", f"{holders} hold group {job.group} of {lane}, its limit is {limit}")
        told, told_limit = event.get("group_holders"), event.get("group_limit")
        if told is None or told < holders:
            raise Violation("H6", f"group {job.group} of {lane} has {holders} holders, the event says {told}")
        if told_limit is not None and told > told_limit:
            raise Violation("H6", f"group {job.group} of {lane}: {told} holders over the limit {told_limit}")

    def _check_rates(self, lane: Lane, job: Told, rules: list[Rules], at: int) -> None:
        """A job's times never go back: one that was ahead of the claim's clock tells only that it wasn't later.

        Calls overlap: a claim that the feed tells of later wasn't made earlier, whatever it took for the time.
        """
        if len(rules) != 1:
            return
        group, earliest = job.group, at if job.at > job.was_at or job.version == 2 else 0
        buckets: list[tuple[tuple[str, ...], Bucket | None]] = [(lane, rules[0].bucket)]
        if group is not None:
            buckets.append(((*lane, group), rules[0].group_bucket))
        for key, bucket in buckets:
            if bucket is None:
                continue
            tat = self._tats.get(key, 0)
            before = self._made.get(key, 0)
            made, self._made[key] = max(at, before), max(earliest, before)
            if not bucket.conforms(tat, made):
                raise Violation("H7", f"{'/'.join(key)}: a claim at {at} comes {bucket.wait(tat, made)} ms too early")
            self._tats[key] = bucket.spend(tat, earliest)

    def cancelled(self, job: Told, event: Body) -> None:
        """A running job was cancelled: its slot drains."""
        if event.get("run_ms") is not None and event.get("reason") != "lease_lost":
            lane = (job.ref[0], job.queue)
            self._draining[job.ref] = (lane, job.group, job.lease_seq, job.lease_until)

    def _draining_now(
        self, lane: Lane, at: int, graces: dict[tuple[Ref, int], int], freed: set[tuple[Ref, int]]
    ) -> list[str | None]:
        """Groups of slots that surely drain: not confirmed by anyone, their lease not expired."""
        groups = []
        for ref, (where, group, lease_seq, until) in list(self._draining.items()):
            token = (ref, lease_seq)
            if token in freed or at > until + graces.get(token, 0):
                del self._draining[ref]
            elif where == lane:
                groups.append(group)
        return groups


def _loosest(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if len(known) == len(limits) else None
