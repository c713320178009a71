"""Several clients at once: only what holds under any interleaving is checked.

The feed is the store's own account and must be consistent in itself; what clients were told must agree with it. A page
of events is looked at when the clients' clock has moved past it, so that everything asked before it is known.
"""

import json

from tenure.testing.checker.clients import Clients
from tenure.testing.checker.epochs import KeyEpochs
from tenure.testing.checker.ledger import Body, Ref
from tenure.testing.checker.limits import Limits
from tenure.testing.checker.paths import Account, Told
from tenure.testing.checker.violation import Violation


class Concurrent:
    """What clients asked, what they were told, and what the feed says."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.clients = Clients(account)
        self.limits = Limits(account)
        self.keys = KeyEpochs(account)

    def asked(self, verb: str, body: Body) -> None:
        """A call was sent."""
        if verb == "enqueue":
            self._asks_enqueue(body["jobs"])
        elif verb in ("settle", "exchange"):
            self.clients.asks_settle(body["settlements"])
            for item in body["settlements"]:
                for spec in item["outcome"].get("jobs", ()):
                    self.limits.queue_used(spec["queue"])
        elif verb == "command":
            self.clients.asks_command(body["commands"])
        elif verb == "purge":
            self.clients.purging = True
        elif verb == "put_document" and body["document"]["kind"] == "queue":
            self.limits.configuring(*_configuration(body))

    def _asks_enqueue(self, jobs: list[Body]) -> None:
        self.clients.asks_enqueue(jobs)
        for spec in jobs:
            self.limits.queue_used(spec["queue"])

    def told(self, verb: str, asked: Body, body: Body, sent_at: int, at: int) -> None:
        """A call was answered."""
        clients = self.clients
        match verb:
            case "enqueue":
                clients.told_enqueue(asked["jobs"], body["replies"], at)
            case "claim":
                clients.told_claim(asked["claim"], body["reply"])
            case "renew":
                clients.told_renew(asked["renewals"], body["replies"])
            case "settle":
                clients.told_settle(asked["settlements"], body["replies"])
            case "exchange":
                clients.told_settle(asked["settlements"], body["settled"])
                if "refused" not in body["claimed"]:
                    clients.told_claim(asked["claim"], body["claimed"])
            case "command":
                clients.told_command(asked["commands"], body["replies"], at)
            case "put_document" if asked["document"]["kind"] == "queue":
                self.limits.configured(*_configuration(asked))
            case "get":
                self._told_views(asked, body, sent_at)

    def _told_views(self, asked: Body, body: Body, sent_at: int) -> None:
        for (tenant, id_), view in zip(asked["refs"], body["replies"], strict=True):
            ref: Ref = (tenant, id_)
            if "refused" in view:
                known_at = self.clients.acknowledged.get(ref)
                if known_at is not None and known_at < sent_at and not self.clients.purging:
                    raise Violation("H4", f"{tenant}/{id_} was acknowledged, the store doesn't find it")
            else:
                self.clients.told_view(ref, view)
                if ref not in self.clients.specs:
                    raise Violation("H14", f"{tenant}/{id_} is shown, nobody sent it")

    def refused(self, verb: str, asked: Body) -> None:
        """A whole call was refused: it changed nothing."""
        if verb == "put_document" and asked["document"]["kind"] == "queue":
            self.limits.not_configured(*_configuration(asked))

    def unanswered(self, verb: str, asked: Body) -> None:
        """Nobody knows what became of a call."""
        if verb == "renew":
            self.clients.doubtful.update(
                ((item["token"]["tenant"], item["token"]["job_id"]), item["token"]["lease_seq"])
                for item in asked["renewals"]
            )

    def observe(self, job: Told, event: Body) -> None:
        """The feed shows a job's new event, which keeps the table."""
        kind = event["kind"]
        if kind == "enqueued":
            self._created(job)
        elif kind == "claimed":
            self.limits.claimed(job, event, self.clients.graces, self.clients.confirmed)
            self._check_expiry(job, event)
        elif kind == "cancelled":
            self.limits.cancelled(job, event)
        if event.get("run_ms") is not None and job.lease_seq in job.ends:
            self.clients.check_end(job, job.lease_seq)

    def _created(self, job: Told) -> None:
        self.clients.check_created(job)
        specs = self.clients.specs.get(job.ref, [])
        policies = {(spec["unique"], spec["unique_for"]) for spec in specs}
        self.keys.enqueued(job, specs[0] if len(policies) == 1 else None)

    def _check_expiry(self, job: Told, event: Body) -> None:
        """A job never claimed before isn't claimed past its expiry."""
        for spec in self.clients.specs.get(job.ref, ()):
            if job.lease_seq == 1 and spec.get("expires") is not None and job.replay_of is None:
                self._expired_at(job, event, spec["expires"])

    def _expired_at(self, job: Told, event: Body, expires: int) -> None:
        if len(self.clients.specs[job.ref]) == 1 and event["at"] >= job.enqueued_at + expires:
            raise Violation("H10", f"{job.ref[0]}/{job.ref[1]} was claimed past its expiry")


def _configuration(asked: Body) -> tuple[str, str, Body]:
    """Whom a queue's document concerns, and what it says; a deletion says nothing."""
    document = asked["document"]
    try:
        content: Body = {} if document["body"] is None else json.loads(document["body"])
    except ValueError:
        content = {}  # not a configuration: the store refuses it
    return document["tenant"], document["name"], content
