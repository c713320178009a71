"""What clients asked and were told, against the store's own account. Holds under any interleaving."""

from tenure.testing.checker.ledger import Body, Ref
from tenure.testing.checker.paths import Account, Told
from tenure.testing.checker.violation import Violation

Token = tuple[Ref, int]

ENDS = {
    "succeed": frozenset({"succeeded"}),
    "retry": frozenset({"retry_scheduled", "failed", "cancelled"}),
    "fail": frozenset({"failed"}),
    "release": frozenset({"released", "failed", "cancelled"}),
}
"""Outcome → kinds of the event that must have ended the lease."""

LEADS = {"succeeded": "succeeded", "failed": "failed", "cancelled": "cancelled"}


class Clients:
    """Promises made to clients."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self.specs: dict[Ref, list[Body]] = {}
        """Every body that anyone sent under an id."""
        self.acknowledged: dict[Ref, int] = {}
        """Jobs that a client was told of, and when, by the clients' clock."""
        self.secrets: dict[Token, str] = {}
        self.graces: dict[Token, int] = {}
        self.deadlines: dict[Token, int] = {}
        """The latest deadline that the holder was told of."""
        self.confirmed: set[Token] = set()
        """Leases whose draining slot may have been given back."""
        self.doubtful: set[Token] = set()
        """Leases whose renewal nobody knows the outcome of."""
        self.settled: dict[Token, tuple[str, str]] = {}
        self.finished: dict[Ref, str] = {}
        """Jobs whose holder was told that it succeeded or failed."""
        self.cancelled: set[Ref] = set()
        self.purging = False
        """Someone purges: a record that is gone isn't lost, and an id may start again."""
        self.results: dict[Ref, list[str]] = {}
        """Hashes of results that anyone sent."""

    # Asked

    def asks_enqueue(self, jobs: list[Body]) -> None:
        for spec in jobs:
            known = self.specs.setdefault((spec["tenant"], spec["id"]), [])
            if spec not in known:
                known.append(spec)

    def asks_settle(self, settlements: list[Body]) -> None:
        for item in settlements:
            outcome, token = item["outcome"], _token(item["token"])
            if outcome["tag"] in ("release", "retry"):
                self.confirmed.add(token)
            if outcome["tag"] == "succeed":
                self.asks_enqueue(outcome["jobs"])
                if outcome["result"] is not None:
                    self.results.setdefault(token[0], []).append(outcome["result"]["sha256"])

    def asks_command(self, commands: list[Body]) -> None:
        for item in commands:
            if item["type"] == "Replay":
                for spec in self.specs.get((item["tenant"], item["id"]), []):
                    payload = spec["payload"] if item["payload"] is None else item["payload"]
                    self.asks_enqueue([{**spec, "id": item["new_id"], "payload": payload}])

    # Told

    def acknowledge(self, jobs: list[Body], replies: list[Body], at: int) -> None:
        """Notes which jobs a client was told of."""
        for spec, reply in zip(jobs, replies, strict=True):
            if reply.get("created"):
                self.acknowledged.setdefault((spec["tenant"], reply["id"]), at)

    def told_enqueue(self, jobs: list[Body], replies: list[Body], at: int) -> None:
        for spec, reply in zip(jobs, replies, strict=True):
            if "refused" in reply:
                continue
            if reply["created"] and reply["id"] != spec["id"]:
                raise Violation("H9", f"enqueue of {spec['id']} created {reply['id']}")
            if not reply["created"]:
                self._check_duplicate(spec, reply, (spec["tenant"], reply["id"]))
        self.acknowledge(jobs, replies, at)

    def _check_duplicate(self, spec: Body, reply: Body, ref: Ref) -> None:
        scope = ("queue", "job_type", "key")
        known = self.specs.get(ref, [])
        if not any(all(other[name] == spec[name] for name in scope) for other in known):
            raise Violation("H14", f"enqueue of {spec['id']} is said to repeat {ref[1]}, which holds another key")
        self._check_result(ref, reply.get("result"))

    def _check_result(self, ref: Ref, result: Body | None) -> None:
        if result is not None and result["body"]["sha256"] not in self.results.get(ref, []):
            raise Violation("H13", f"{ref[0]}/{ref[1]} shows a result that nobody sent")

    def told_claim(self, asked: Body, reply: Body) -> None:
        if not self._gave_before(asked["claim_id"], reply["jobs"]):
            self._check_wishes(asked, reply)
        for job in reply["jobs"]:
            self._told_job((job["tenant"], job["id"]), job, asked["claim_id"])

    def _gave_before(self, claim_id: str, jobs: list[Body]) -> bool:
        """Whether these jobs run under the claim since it was sent before, perhaps with other wishes."""
        tokens = (((job["tenant"], job["id"]), job["lease_seq"]) for job in jobs)
        return any(self.secrets.get(token) == claim_id for token in tokens)

    def _check_wishes(self, asked: Body, reply: Body) -> None:
        if len(reply["jobs"]) > asked["n"]:
            raise Violation("H6", f"a claim for {asked['n']} gave {len(reply['jobs'])} jobs")
        queues = {queue for queue, _ in asked["queues"]}
        for job in reply["jobs"]:
            if asked["tenants"] is not None and job["tenant"] not in asked["tenants"]:
                raise Violation("H14", f"a claim for {asked['tenants']} gave {job['tenant']}/{job['id']}")
            if job["queue"] not in queues:
                raise Violation("H10", f"a claim for {sorted(queues)} gave a job of {job['queue']}")
        for queue, most in asked["queues"]:
            count = sum(1 for job in reply["jobs"] if job["queue"] == queue)
            if most is not None and count > most:
                raise Violation("H10", f"a claim for at most {most} of {queue} gave {count}")

    def _told_job(self, ref: Ref, job: Body, claim_id: str) -> None:
        token = (ref, job["lease_seq"])
        if self.secrets.setdefault(token, claim_id) != claim_id and not self.purging:
            raise Violation("H3", f"lease {job['lease_seq']} of {ref[0]}/{ref[1]} was given out twice")
        if not 1 <= job["attempt"] <= job["max_attempts"]:
            raise Violation("H3", f"{ref[0]}/{ref[1]} runs as attempt {job['attempt']} of {job['max_attempts']}")
        self.graces[token] = job["lease"]["grace"]
        self._told_deadline(token, job["lease"]["until"] + job["lease"]["grace"])
        self._check_payload(ref, job["payload"]["sha256"], "runs with")

    def _told_deadline(self, token: Token, deadline: int) -> None:
        self.deadlines[token] = max(deadline, self.deadlines.get(token, 0))
        job = self._account.jobs.get(token[0])
        if job is not None and token[1] in job.ends:
            self.check_end(job, token[1])

    def _check_payload(self, ref: Ref, sha256: str, verb: str) -> None:
        known = self.specs.get(ref)
        if known is not None and all(spec["payload"]["sha256"] != sha256 for spec in known):
            raise Violation("H5", f"{ref[0]}/{ref[1]} {verb} a payload that nobody sent")

    def told_renew(self, renewals: list[Body], replies: list[Body]) -> None:
        for item, reply in zip(renewals, replies, strict=True):
            token = _token(item["token"])
            if "refused" not in reply and token in self.graces:
                self._told_deadline(token, reply["lease_until"] + self.graces[token])

    def told_settle(self, settlements: list[Body], replies: list[Body]) -> None:
        for item, reply in zip(settlements, replies, strict=True):
            if "refused" not in reply:
                self._told_settled(_token(item["token"]), item, reply["state"])

    def _told_settled(self, token: Token, item: Body, state: str) -> None:
        ref, lease_seq = token
        told = (item["outcome"]["tag"], state)
        name = f"lease {lease_seq} of {ref[0]}/{ref[1]}"
        if self.secrets.get(token, item["token"]["secret"]) != item["token"]["secret"] and not self.purging:
            raise Violation("H1", f"{name} was settled with a secret that isn't its own")
        if self.settled.setdefault(token, told) != told and not self.purging:
            raise Violation("H1", f"{name} was settled as {self.settled[token]} and as {told}")
        if state in ("succeeded", "failed"):
            self.finished[ref] = state
            self._check_one_end(ref)
        job = self._account.jobs.get(ref)
        if job is not None and lease_seq in job.ends:
            self.check_end(job, lease_seq)

    def told_command(self, commands: list[Body], replies: list[Body], at: int) -> None:
        for item, reply in zip(commands, replies, strict=True):
            ref = (item["tenant"], item["id"])
            if reply.get("type") == "Cancelled":
                self.cancelled.add(ref)
                self._check_one_end(ref)
            elif reply.get("type") == "Replayed" and reply["created"]:
                self.acknowledged.setdefault((ref[0], reply["new_id"]), at)

    def _check_one_end(self, ref: Ref) -> None:
        if ref in self.cancelled and ref in self.finished and not self.purging:
            raise Violation("H8", f"{ref[0]}/{ref[1]} was cancelled, and its holder was told {self.finished[ref]}")

    def told_view(self, ref: Ref, view: Body) -> None:
        if (view["tenant"], view["id"]) != ref:
            raise Violation("H14", f"{ref[0]}/{ref[1]} was asked for, {view['tenant']}/{view['id']} is shown")
        self._check_payload(ref, view["payload"]["sha256"], "is shown with")
        self._check_result(ref, view["result"])

    # Against the feed

    def check_end(self, job: Told, lease_seq: int) -> None:
        """A lease ended by the feed's account: not before its deadline if it was lost, and as its holder was told.

        Of an id that was purged and used again the lease numbers begin again, and a promise may be of either job.
        """
        if job.ref in self._account.reborn:
            return
        kind, at, lost = job.ends[lease_seq]
        token = (job.ref, lease_seq)
        name = f"lease {lease_seq} of {job.ref[0]}/{job.ref[1]}"
        deadline = self.deadlines.get(token, 0)
        if lost and at <= deadline:
            raise Violation("H3", f"{name} was taken at {at}, its holder had until {deadline}")
        told = self.settled.get(token)
        if told is not None and lost:
            raise Violation("H1", f"{name} was lost at {at}, its holder was told {told[0]} → {told[1]}")
        if told is not None and kind not in ENDS[told[0]]:
            property = "H8" if kind == "cancelled" else "H1"
            raise Violation(property, f"{name}: its holder was told {told[0]} → {told[1]}, the feed says {kind}")
        if told is not None and LEADS.get(kind, "pending") != told[1]:
            raise Violation("H1", f"{name}: its holder was told {told[1]}, the feed says {kind}")

    def check_created(self, job: Told) -> None:
        """The feed tells of a new job: its payload is one that was sent."""
        for spec in self.specs.get(job.ref, ()):
            sha256, size = spec["payload"]["sha256"], spec["payload"]["size"]
            if (job.payload_hash is None or sha256.startswith(job.payload_hash)) and job.payload_size in (None, size):
                return
        known = "with that payload " if job.ref in self.specs else ""
        raise Violation("H5", f"{job.ref[0]}/{job.ref[1]} is in the feed, nobody sent it {known}".rstrip())

    def check_complete(self) -> None:
        """The whole feed is known: every promise must show in it."""
        for ref in self.acknowledged:
            if ref not in self._account.jobs:
                raise Violation("H4", f"{ref[0]}/{ref[1]} was acknowledged, the feed doesn't know it")
        for (ref, lease_seq), told in self.settled.items():
            job = self._known(ref)
            if job is None or lease_seq not in job.ends:
                self._broken("H1", ref, f"lease {lease_seq} was settled: {told}, the feed shows no end of it")
        for ref, lease_seq in self.secrets:
            job = self._known(ref)
            if job is None or lease_seq > job.lease_seq:
                self._broken("H11", ref, f"lease {lease_seq} was given out, the feed shows no claim")
        for ref in self.cancelled:
            job = self._known(ref)
            if job is None or job.state != "cancelled":
                self._broken("H8", ref, "was said to be cancelled, the feed says otherwise")

    def _known(self, ref: Ref) -> Told | None:
        return self._account.jobs.get(ref)

    def _broken(self, property: str, ref: Ref, message: str) -> None:
        """A promise doesn't show; of an id that was purged and used again, who knows which job was meant."""
        if ref not in self._account.reborn:
            raise Violation(property, f"{ref[0]}/{ref[1]} {message}")


def _token(token: Body) -> Token:
    return ((token["tenant"], token["job_id"]), token["lease_seq"])
