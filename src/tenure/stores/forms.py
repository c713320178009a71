"""Forms: records and events of many jobs at once, as the model makes those of one.

Jobs of one kind differ in a few fields. Of each kind the model moves one job; its record and its event, encoded as
always and cut around these fields, are the form into which the others' values go. So a bulk write says what the model
would, whatever fields there are. Which fields those are stands here, and `tests/stores/test_forms.py` compares.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from tenure.domain.calls import Claim, Succeed
from tenure.domain.config import QueueRules
from tenure.domain.event import Event, Told, cut, form
from tenure.domain.job import Job, Lease, NewJob, fingerprinting, key_hash
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
_TOKEN = b"\xff" * 16
"""In the place of a claim's token, which is as long."""

_json = msgspec.json.Encoder().encode


def _event(step: Step) -> Event:
    if step.event is None:
        raise AssertionError("the model tells nothing of this step")
    return step.event


# New jobs


class Own(NamedTuple):
    """A field, beside id and payload, in which jobs may differ that share a form."""

    of: Callable[[NewJob], Any]
    event_field: str
    said: Callable[[Any], str]
    """The value as the event says it. A text's quotes belong to the form."""


_OWN = {
    "key": Own(attrgetter("key"), "key_hash", key_hash),
    "group": Own(attrgetter("group"), "group", lambda group: _json(group).decode()[1:-1]),
    "labels": Own(attrgetter("labels"), "labels", lambda labels: _json(labels).decode()),
}
"""In the order of `Spec`. Events say the first two before the payload's size, the labels after it."""


def _others(*names: str) -> Callable[[tuple[object, ...]], tuple[object, ...]]:
    return itemgetter(*(at for at, name in enumerate(NewJob.__struct_fields__) if name not in names))


_SHARED = _others("id", "payload", "key")
_SHAPE = _others("id", "payload", *_OWN, "run_at", "delay")


def alike(jobs: Sequence[NewJob]) -> bool:
    """Whether new jobs differ in id, payload and key alone, and all have a key, or none."""
    shared, keyless = _SHARED(astuple(jobs[0])), jobs[0].key is None
    return len(jobs) == 1 or all((job.key is None) is keyless and _SHARED(astuple(job)) == shared for job in jobs)


def kind_of(new: NewJob) -> tuple[object, ...]:
    """What new jobs have in common that share a form with room for the store's times."""
    return (*_SHAPE(astuple(new)), new.key is None, new.group is None, not new.labels)


class EnqueueForm:
    """How new jobs are written that differ in id and payload, and in some other fields where they have them.

    Without a time the store puts its own, and when each job is due, into room for it.
    """

    __slots__ = (
        *("_after_own", "_before_own", "_before_size", "_folded", "_hashed", "_line", "_own", "_rest", "_spec"),
        *("_template", "now_at", "seq_at"),
    )

    def __init__(self, new: NewJob, now: Ms | None = None, differ: Iterable[str] = ("key",)) -> None:
        at = NOW if now is None else now
        step = apply(Command.ENQUEUE, pending(new, SEQ, at), None, at)
        spec, event = step.job.spec, _event(step)
        names = [name for name in differ if getattr(new, name)]
        self._own = [_OWN[name] for name in names]
        parts = records.cut(spec, id=36, seq=8, fingerprint=32, payload_size=4, **dict.fromkeys(names, 0))
        self._spec, before_own, self._rest = parts[:4], parts[4:-1], parts[-1]
        self._before_own = list(zip(before_own, [one.of for one in self._own], strict=True))
        self._hashed = fingerprinting(new.job_type, new.codec, new.queue).copy
        said = [one.event_field for one in self._own]
        self._before_size = len(said) - ("labels" in said)
        """How many of these fields come before the payload's size."""
        fields = (*said[: self._before_size], "payload_size", *said[self._before_size :])
        head, before_id, *middle, before_due, tail = cut(event, "at", "job_id", *fields, "run_at")
        told, due = (NOW_MARK, DUE_MARK) if now is None else (str(event.at), str(event.run_at))
        self._line = [f"{head}{told}{before_id}", *middle, f"{before_due}{due}{tail}"]
        self._folded = None if said else form(*self._line)
        self._template = "%s".join(part.replace("%", "%%") for part in self._line) + "\n"
        if now is None:
            self._find_rooms(new, spec.expires_at)

    def _find_rooms(self, new: NewJob, expires_at: Ms | None) -> None:
        (written,), _ = self.specs([new.id.encode()], [new.payload], jobs=[new])
        ((self.seq_at,), (self.now_at,)) = (records.rooms(written, number, 1) for number in (SEQ, NOW))
        """Where the store puts arrival number and time into a spec: before any field whose width differs."""
        (place,) = [0] if expires_at is None else records.rooms(written, expires_at, 1)
        self._after_own = place and place - self._width(new)

    def _width(self, new: NewJob) -> int:
        return sum([len(records.encode(one.of(new))) for one in self._own])

    def expires_at(self, new: NewJob) -> int:
        """Where the expiry stands in a job's spec; 0 if such jobs don't expire."""
        return self._after_own and self._after_own + self._width(new)

    def specs(
        self,
        ids: Iterable[bytes],
        payloads: Iterable[bytes],
        seqs: Iterable[int] = repeat(SEQ),
        jobs: Iterable[NewJob] = (),
    ) -> tuple[list[bytes], list[bytes]]:
        """(specs, fingerprints). `jobs`: the same once more, where they may differ in more than id and payload."""
        before_id, before_seq, before_hash, before_size = self._spec
        rests = map(self._rest_of, jobs) if self._own else repeat(self._rest)
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

    def _rest_of(self, new: NewJob) -> bytes:
        encode = records.encode
        return b"".join([before + encode(of(new)) for before, of in self._before_own]) + self._rest

    def events(self, ids: Sequence[str], payloads: Sequence[bytes], jobs: Iterable[NewJob] = ()) -> str:
        """The events, folded if jobs of this form differ in id and payload alone. `jobs`: as for `specs`."""
        if self._folded is None:
            return "".join([self._template % self._values(job) for job in jobs])
        if len(ids) == 1:
            return self._template % (ids[0], len(payloads[0]))
        return self._folded + "".join([f"{id}\t{len(payload)}\n" for id, payload in zip(ids, payloads, strict=True)])

    def _values(self, new: NewJob) -> tuple[object, ...]:
        said = [tell(of(new)) for of, _, tell in self._own]
        return (new.id, *said[: self._before_size], len(new.payload), *said[self._before_size :])


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
            known = self._kept[kind] = EnqueueForm(new, differ=_OWN)
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

    __slots__ = ("_live", "lease", "rooms", "story", "version")

    def __init__(self, job: Job, lease: Lease) -> None:
        self.lease = lease
        step = apply(Command.CLAIM, job, Take(_TOKEN, lease), NOW)
        self.version = step.job.version
        live = records.live_blob(step.job)
        self._live = live.split(_TOKEN)
        self.rooms = (*records.rooms(live, NOW, 2), *records.rooms(live, lease.until, 1))
        """Where the time stands, twice, and the lease's end."""
        self.story = cut(_event(step), "at", "job_id", "job_type", "lease_until", "waited_ms")
        """The event's line around these values."""

    def live(self, token: bytes) -> bytes:
        return token.join(self._live)


def store_timed(request: Claim, lane: tuple[str, str], rules: QueueRules) -> StoreTimedClaimForm:
    """The form for claims of this worker from a tenant's queue."""
    job = _plain_job(*lane)
    return _store_timed(lane, lease_for(request, job.spec, rules, NOW, NOW))


@lru_cache(maxsize=KEPT_FORMS)
def _store_timed(lane: tuple[str, str], lease: Lease) -> StoreTimedClaimForm:
    return StoreTimedClaimForm(_plain_job(*lane), lease)


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
