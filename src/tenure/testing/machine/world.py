"""A small world around the pair of stores: who is in it, and what has been seen of jobs, tokens, claims and documents.

Its names, and how large it is, come from a profile. What is kept here only steers choices towards live things; nothing
is judged by it.
"""

import hashlib
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tenure.domain.calls import (
    Claim,
    Claimed,
    Cursor,
    Document,
    Exchanged,
    JobView,
    Outcome,
    Reading,
    Replay,
    Settle,
    Settled,
    Stored,
)
from tenure.domain.config import QUEUE, QueueConfig
from tenure.domain.errors import Refused
from tenure.domain.job import Job, NewJob, Ref, Token
from tenure.domain.names import EVERYONE, MAX_BATCH, Ms
from tenure.domain.states import Mode, State
from tenure.testing.machine.dice import Dice
from tenure.testing.machine.lockstep import Lockstep
from tenure.testing.machine.profiles import Profile
from tenure.testing.machine.tally import Tally

WORKERS = ("w1", "w2")
JOB_TYPES = ("resize", "send")
PAYLOADS = (b"1", b"2", b'{"x": 3}')

EXPLAINED = 60
KEPT = 40
"""How many of each old thing are remembered, to be used again."""


class World:
    """What the rules see and act on."""

    def __init__(self, pair: Lockstep, tally: Tally, profile: Profile) -> None:
        self.pair = pair
        self.profile = profile
        self.tally = tally
        self.rule = ""
        self.frozen_for = 0
        """Steps until thaw; 0 when not frozen."""
        self.jobs: dict[Ref, JobView] = {}
        """As last read; those that are gone are in `gone`."""
        self.gone: deque[Ref] = deque(maxlen=KEPT)
        self.tokens: dict[Token, None] = {}
        """Every token given out, the last one last."""
        self.ended: dict[Token, Outcome] = {}
        self.sent: deque[NewJob] = deque(maxlen=KEPT)
        self.claims: deque[Claim] = deque(maxlen=KEPT)
        self.replays: deque[Replay] = deque(maxlen=KEPT)
        self.documents: dict[tuple[str, str, str], Document] = {}
        self.cursors: dict[str, Cursor] = {}
        self.held: list[Any] = []
        """Transactions that enqueue and haven't ended (`overlap`)."""
        self._touched: set[Ref] = set()
        self._made = 0
        self._latest = pair.clock.now

    # Asking

    async def call(self, verb: str, *args: Any, **options: Any) -> Any:
        """Asks both stores and counts the answer for the rule that runs."""
        answer = await self.pair.call(verb, *args, **options)
        self.tally.answer(self.rule, verb, answer)
        return answer

    async def ask(self, verb: str, *args: Any, **options: Any) -> Any:
        """Asks both, and remembers what was sent and what came of it."""
        self.asked(verb, args)
        answer = await self.pair.call(verb, *args, **options)
        self.answered(verb, args, answer)
        return answer

    async def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> None:
        await self.ask("enqueue", jobs, atomic=atomic)

    async def claim(self, request: Claim) -> Claimed | Refused:
        claimed: Claimed | Refused = await self.ask("claim", request)
        return claimed

    async def settle(self, items: list[Settle]) -> None:
        await self.ask("settle", items)

    async def exchange(self, items: list[Settle], request: Claim) -> None:
        await self.ask("exchange", items, request)

    async def put_document(self, document: Document, *, expect: int | None = None, ttl: Ms | None = None) -> None:
        stored = await self.call("put_document", document, expect=expect, ttl=ttl)
        if isinstance(stored, Stored):
            key = (document.tenant, document.kind, document.name)
            self.documents[key] = msgspec.structs.replace(document, version=stored.version)

    def asked(self, verb: str, args: Sequence[Any]) -> None:
        """A call is about to be sent."""
        match verb:
            case "enqueue":
                self._remember(args[0])
            case "claim":
                self.claims.append(args[0])
            case "settle" | "exchange":
                self._carried(args[0])
                self.claims.extend(args[1:])
            case "renew":
                self.touch(*(item.token.ref for item in args[0]))
            case "command":
                self.touch(*((item.tenant, item.id) for item in args[0]))

    def answered(self, verb: str, args: Sequence[Any], answer: Any) -> None:
        """A call was answered: counts the answer for the rule that runs."""
        self.tally.answer(self.rule, verb, answer)
        match verb:
            case "claim":
                self._took(args[0], answer)
            case "settle":
                self._gave_back(args[0], answer)
            case "exchange" if isinstance(answer, Exchanged):
                self._gave_back(args[0], answer.settled)
                self._took(args[1], answer.claimed)

    def _remember(self, jobs: Iterable[NewJob]) -> None:
        for job in jobs:
            self.sent.append(job)
            self._touched.add((job.tenant, job.id))

    def _carried(self, items: list[Settle]) -> None:
        for item in items:
            self._touched.add(item.token.ref)
            self._remember(getattr(item.outcome, "jobs", ()))

    def _took(self, request: Claim, claimed: Claimed | Refused) -> None:
        if isinstance(claimed, Claimed):
            self.cursors[request.worker] = claimed.cursor
            for taken in claimed.jobs:
                self.tokens[taken.token] = None

    def _gave_back(self, items: list[Settle], answers: Any) -> None:
        for item, answer in zip(items, answers, strict=True) if isinstance(answers, list) else ():
            if isinstance(answer, Settled):
                if item.token in self.ended:
                    self.tally.repeated()
                self.ended[item.token] = item.outcome

    # Looking

    def touch(self, *refs: Ref) -> None:
        """These jobs are read after the step, whether or not something happened to them."""
        self._touched.update(refs)

    async def look(self) -> None:
        """After a step: hears the new events and reads every job concerned, with its gates."""
        for event in await self.pair.follow():
            if event.job_id is not None:
                self._touched.add((event.tenant, event.job_id))
        if self._touched:
            refs = sorted(self._touched)
            self._touched.clear()
            await self._read(refs)

    async def look_at_all(self) -> None:
        """Reads every job that is known to be there."""
        await self._read(list(self.jobs))

    async def _read(self, refs: list[Ref]) -> None:
        """Of many jobs only some are asked for their gates: what holds one holds others like it."""
        for explain, some in ((True, refs[:EXPLAINED]), (False, refs[EXPLAINED:])):
            for start in range(0, len(some), MAX_BATCH):
                part = some[start : start + MAX_BATCH]
                self._learn(part, await self.pair.call("get", part, Reading(explain=explain, tracebacks=explain)))

    def _learn(self, refs: list[Ref], views: list[JobView | Refused]) -> None:
        for ref, view in zip(refs, views, strict=True):
            if isinstance(view, JobView):
                self.jobs[ref] = view
            elif self.jobs.pop(ref, None):
                self.gone.append(ref)

    # Choosing

    @property
    def now(self) -> Ms:
        """The latest time the stores can have seen: their clock doesn't go back."""
        self._latest = max(self._latest, self.pair.clock.now)
        return self._latest

    def new_id(self) -> str:
        """A new id, in no order: nothing may lean on ids that happen to grow."""
        self._made += 1
        return str(uuid.UUID(bytes=hashlib.md5(b"%d" % self._made, usedforsecurity=False).digest()))

    def new_claim_id(self) -> bytes:
        self._made += 1
        return hashlib.md5(b"claim %d" % self._made, usedforsecurity=False).digest()

    def refs(self, *states: State, tenant: str | None = None) -> list[Ref]:
        """Known jobs in one of the states."""
        return [ref for ref, view in self.jobs.items() if view.job.state in states and tenant in (None, ref[0])]

    def any_ref(self, dice: Dice, *states: State) -> Ref:
        """A job, most often in one of the states; sometimes another, a foreign or an unknown one."""
        if (wanted := self.refs(*states)) and dice.chance(80):
            return dice.recent(wanted)
        if self.jobs and dice.chance(80):
            return dice.recent(list(self.jobs))
        if self.gone and dice.chance(30):
            return dice.pick(self.gone)
        if self.jobs and dice.chance(60):
            return (dice.pick(self.profile.tenants), dice.pick(list(self.jobs))[1])
        return (dice.pick(self.profile.tenants), self.new_id())

    def mode(self, tenant: str, queue: str) -> Mode:
        """What the queue is configured as, as far as is known."""
        for level in (tenant, EVERYONE):
            document = self.documents.get((level, QUEUE, queue))
            if document is not None and document.body is not None:
                mode = msgspec.json.decode(document.body, type=QueueConfig).mode
                if mode is not None:
                    return mode
        return Mode.PLAIN

    def bounded(self, tenant: str, queue: str) -> bool:
        """Whether the queue has a depth, its tenant's own or everyone's, as far as is known."""
        documents = [self.documents.get((level, QUEUE, queue)) for level in (tenant, EVERYONE)]
        bodies = [document.body for document in documents if document is not None and document.body is not None]
        return any(msgspec.json.decode(body, type=QueueConfig).max_depth is not None for body in bodies)

    def running_together(self, dice: Dice) -> list[Token]:
        """What still runs of the jobs that one claim took: the last claims more often."""
        live = [token for token in self.tokens if (view := self.jobs.get(token.ref)) and holds(view.job, token)]
        if not live:
            return []
        secret = dice.recent(live).secret
        return [token for token in live if token.secret == secret]

    def sort_tokens(self) -> "Tokens":
        """The recent tokens by what their holder is in for."""
        sorted_ = Tokens()
        for token in list(self.tokens)[-3 * KEPT :]:
            view = self.jobs.get(token.ref)
            if view is None:
                sorted_.lost.append(token)
            elif view.job.lease_seq != token.lease_seq:
                sorted_.superseded.append(token)
            elif view.job.lease is not None and view.job.state is State.RUNNING:
                (sorted_.expired if view.job.lease.expired(self.now) else sorted_.live).append(token)
            elif view.job.state is State.CANCELLED:
                sorted_.cancelled.append(token)
            elif token in self.ended:
                sorted_.ended.append(token)
            else:
                sorted_.lost.append(token)
        return sorted_


def holds(job: Job, token: Token) -> bool:
    """Whether the job runs under this lease."""
    return job.state is State.RUNNING and job.lease_seq == token.lease_seq


class Tokens:
    """Tokens, sorted by what became of their lease."""

    def __init__(self) -> None:
        self.live: list[Token] = []
        self.expired: list[Token] = []
        self.cancelled: list[Token] = []
        self.ended: list[Token] = []
        """Settled, and the last lease of their job."""
        self.superseded: list[Token] = []
        """The job was claimed again."""
        self.lost: list[Token] = []
        """Taken by sweep, or their job is gone."""
