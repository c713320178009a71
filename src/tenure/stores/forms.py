"""Forms: records and events of many jobs at once, as the model makes those of one.

Jobs of one kind differ in a few fields. Of each kind the model moves one job; its record and its event, encoded as
always and cut around these fields, are the form into which the others' values go. So a bulk write says what the model
would, whatever fields there are. Which fields those are stands here, and `tests/stores/test_forms.py` compares.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import itemgetter

from msgspec.structs import astuple

from tenure.domain.calls import Claim, Succeed
from tenure.domain.config import QueueRules
from tenure.domain.event import Event, Told, cut, form
from tenure.domain.job import Job, NewJob, fingerprinting, key_hash
from tenure.domain.model.claim import lease_for
from tenure.domain.model.enqueue import pending
from tenure.domain.names import Ms
from tenure.domain.states import Command
from tenure.domain.transitions import Step, Take, apply
from tenure.stores import records

SEQ, NOW = 0x7AFF_5EA7_0000_0001, 0x7AFF_5EA7_0000_0002
"""In the place of numbers that only the store will know: the arrival number, and its time. Times after `NOW` are as far
from the store's. MessagePack writes such numbers in eight bytes, and UTF-8 has no byte 0xFF."""
NOW_MARK, DUE_MARK = "\1", "\2"
"""Where the store puts its time, and when a job is due, into a text of events: JSON has no such characters."""
KEPT_FORMS = 1_000


def _event(step: Step) -> Event:
    if step.event is None:
        raise AssertionError("the model tells nothing of this step")
    return step.event


# New jobs

_OWN = {"id", "payload", "key"}


def _others(*names: str) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
    return itemgetter(*(at for at, name in enumerate(NewJob.__struct_fields__) if name not in names))


_SHARED, _UNLABELLED = _others(*_OWN), _others(*_OWN, "labels")


def alike(jobs: Sequence[NewJob]) -> bool:
    """Whether new jobs are of one kind: they differ in id, payload and key alone, and all have a key, or none."""
    shared, keyless = _SHARED(astuple(jobs[0])), jobs[0].key is None
    return len(jobs) == 1 or all((job.key is None) is keyless and _SHARED(astuple(job)) == shared for job in jobs)


def kind_of(new: NewJob) -> tuple[object, ...]:
    """The same for jobs with the same kind, different for all others; it can be hashed."""
    return (*_UNLABELLED(astuple(new)), new.key is None, *new.labels.items())


class EnqueueForm:
    """How new jobs of one kind are written. Without a time the store puts its own into room for it."""

    __slots__ = ("_after_key", "_hashed", "_line", "_rest", "_spec", "now_at", "seq_at")

    def __init__(self, new: NewJob, now: Ms | None = None) -> None:
        at = NOW if now is None else now
        step = apply(Command.ENQUEUE, pending(new, SEQ, at), None, at)
        spec, event = step.job.spec, _event(step)
        keyed = {} if new.key is None else {"key": 0}
        *self._spec, self._rest = records.cut(spec, id=36, seq=8, fingerprint=32, payload_size=4, **keyed)
        self._hashed = fingerprinting(new.job_type, new.codec, new.queue).copy
        hashed = ("key_hash",) if keyed else ()
        head, before_id, *middle, before_due, tail = cut(event, "at", "job_id", *hashed, "payload_size", "run_at")
        told, due = (NOW_MARK, DUE_MARK) if now is None else (str(event.at), str(event.run_at))
        self._line = [f"{head}{told}{before_id}", *middle, f"{before_due}{due}{tail}"]
        if now is None:
            self._find_rooms(new, spec.expires_at)

    def _find_rooms(self, new: NewJob, expires_at: Ms | None) -> None:
        (written,), _ = self.specs([new.id.encode()], [new.payload], keys=[new.key])
        ((self.seq_at,), (self.now_at,)) = (records.rooms(written, number, 1) for number in (SEQ, NOW))
        """Where the store puts arrival number and time into a spec: before any field whose width differs."""
        (place,) = [0] if expires_at is None else records.rooms(written, expires_at, 1)
        self._after_key = place and place - len(records.encode(new.key))

    def expires_at(self, key: str | None) -> int:
        """Where the expiry stands in the spec of a job with this key; 0 if such jobs don't expire."""
        return self._after_key and self._after_key + len(records.encode(key))

    def specs(
        self,
        ids: Iterable[bytes],
        payloads: Iterable[bytes],
        seqs: Iterable[int] = repeat(SEQ),
        keys: Iterable[str | None] = (),
    ) -> tuple[list[bytes], list[bytes]]:
        before_id, before_seq, before_hash, before_size, *before_key = self._spec
        rests: Iterable[bytes] = repeat(self._rest)
        if before_key:
            rests = [before_key[0] + records.encode(key) + self._rest for key in keys]
        specs, fingerprints, hashed = [], [], self._hashed
        for id, payload, seq, rest in zip(ids, payloads, seqs, rests, strict=False):
            fingerprint = hashed()
            fingerprint.update(payload)
            digest, size = fingerprint.digest(), len(payload).to_bytes(4)
            specs.append(
                b"".join((before_id, id, before_seq, seq.to_bytes(8), before_hash, digest, before_size, size, rest))
            )
            fingerprints.append(digest)
        return specs, fingerprints

    def events(self, ids: Sequence[str], payloads: Sequence[bytes], keys: Sequence[str | None]) -> str:
        """The events of some jobs, folded if they may be."""
        if len(self._line) > 3:
            begin, before_hash, before_size, end = self._line
            return "".join(
                [
                    f"{begin}{id}{before_hash}{key_hash(key)}{before_size}{len(payload)}{end}\n"
                    for id, payload, key in zip(ids, payloads, keys, strict=True)
                    if key is not None
                ]
            )
        begin, middle, end = self._line
        if len(ids) == 1:
            return f"{begin}{ids[0]}{middle}{len(payloads[0])}{end}\n"
        values = [f"{id}\t{len(payload)}\n" for id, payload in zip(ids, payloads, strict=True)]
        return form(begin, middle, end) + "".join(values)


class EnqueueForms:
    """The forms of the kinds that were enqueued lately, with room for the store's times."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], EnqueueForm] = {}

    def of(self, new: NewJob) -> EnqueueForm:
        kind = kind_of(new)
        known = self._kept.get(kind)
        if known is None:
            if len(self._kept) >= KEPT_FORMS:
                self._kept.clear()
            known = self._kept[kind] = EnqueueForm(new)
        return known


# Claims


class ClaimForm:
    """How one claim leases jobs that are as they were enqueued, of one tenant, queue, type, group and lease."""

    __slots__ = ("_folded", "_line", "like")

    def __init__(self, job: Job, take: Take, now: Ms) -> None:
        step = apply(Command.CLAIM, job, take, now)
        self.like = step.job
        """The others have their own spec, priority and run_at."""
        holders = () if take.group_holders is None else ("group_holders",)
        self._line = cut(_event(step), "job_id", "waited_ms", *holders)
        self._folded = None if holders else form(*self._line)

    def event(self, id: str, waited_ms: Ms, group_holders: int | None = None) -> Told:
        if self._folded is not None:
            return self._folded, f"{id}\t{waited_ms}\n"
        begin, before_waited, before_holders, end = self._line
        return f"{begin}{id}{before_waited}{waited_ms}{before_holders}{group_holders}{end}\n"


class StoreTimedClaimForm:
    """How plain jobs of one tenant's queue are leased by a store that puts in times, and each job's id and type."""

    __slots__ = ("lease", "live", "rooms", "story", "version")

    def __init__(self, request: Claim, lane: tuple[str, str], rules: QueueRules, token: bytes) -> None:
        job = _plain_job(*lane)
        self.lease = lease_for(request, job.spec, rules, NOW, NOW)
        step = apply(Command.CLAIM, job, Take(token, self.lease), NOW)
        self.version = step.job.version
        self.live = records.live_blob(step.job)
        self.rooms = (*records.rooms(self.live, NOW, 2), *records.rooms(self.live, self.lease.until, 1))
        """Where the time stands, twice, and the lease's end."""
        self.story = cut(_event(step), "at", "job_id", "job_type", "lease_until", "waited_ms")
        """The event's line around these values."""


@lru_cache(maxsize=KEPT_FORMS)
def _plain_job(tenant: str, queue: str) -> Job:
    new = NewJob(tenant=tenant, id="00000000-0000-7000-8000-000000000000", queue=queue, job_type="any", payload=b"")
    return pending(new, SEQ, 0)


# Successes


class SuccessForm:
    """How the jobs end that one claim took by one form, and to which nothing has happened since."""

    __slots__ = ("_bare", "_job", "_now", "_with_result", "like")

    def __init__(self, job: Job, now: Ms) -> None:
        self._job, self._now = job, now
        step = apply(Command.SUCCEED, job, Succeed(), now)
        self.like = step.job
        """The others have their own spec, priority and run_at."""
        self._bare = form(*cut(_event(step), "job_id"))
        self._with_result: str | None = None

    def event(self, id: str, result: bytes | None) -> Told:
        if result is None:
            return self._bare, f"{id}\n"
        if self._with_result is None:
            step = apply(Command.SUCCEED, self._job, Succeed(result), self._now)
            self._with_result = form(*cut(_event(step), "job_id", "result_size"))
        return self._with_result, f"{id}\t{len(result)}\n"
