"""Small builders for hand-made histories: each word adds a call and its answer, with what a good store would say.

The tests beside this file tell one story each, and change one answer to make it a bad one.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tenure.testing.checker import Checker, Summary, Violation
from tenure.testing.history import Entry

Body = dict[str, Any]
START = 1_800_000_000_000
TTL, GRACE = 1_000, 100


@contextmanager
def violates(property_: str, words: str = "") -> Iterator[None]:
    """What happens inside breaks this promise, and the message says so in these words."""
    with pytest.raises(Violation) as caught:
        yield
    assert caught.value.property == property_, str(caught.value)
    assert words in caught.value.message


def digest(text: str) -> Body:
    return {"sha256": hashlib.sha256(text.encode()).hexdigest(), "size": len(text)}


def refused(name: str, *args: Any) -> Body:
    return {"refused": name, "args": list(args)}


def spec(id_: str, tenant: str = "a", **more: Any) -> Body:
    """A new job as an enqueue sends it."""
    parents = [
        {"id": parent, "on_failure": "cancel"}
        if isinstance(parent, str)
        else {"id": parent[0], "on_failure": parent[1]}
        for parent in more.pop("parents", ())
    ]
    return {
        "tenant": tenant,
        "id": id_,
        "queue": "q",
        "job_type": "t",
        "codec": "json",
        "payload": digest(more.pop("payload", "x")),
        "priority": 0,
        "run_at": None,
        "delay": None,
        "expires": None,
        "key": None,
        "unique": "active",
        "unique_for": None,
        "group": None,
        "labels": {},
        "max_attempts": 3,
        "lease": None,
        "grace": None,
        "timeout": 3_600_000,
        "result_ttl": 3_600_000,
        "parents": parents,
        **more,
    }


class Tape:
    """A history being told to a checker. `now` is the store's and the client's clock."""

    def __init__(self, *, sequential: bool = True, process: str = "p") -> None:
        self.checker = Checker(sequential=sequential)
        self.sequential = sequential
        self.process = process
        self.now = START
        self.calls = 0
        self.specs: dict[tuple[str, str], Body] = {}
        self.cursor: str | None = None
        self.position = 0

    # Entries

    def feed(self, phase: Any, verb: str, body: Body) -> None:
        self.checker.feed(Entry(call=self.calls, process=self.process, at=self.now, phase=phase, verb=verb, body=body))

    def call(self, verb: str, asked: Body, answer: Body, phase: str = "ok") -> None:
        """A call and its completion. In concurrent mode a millisecond passes, so that intervals don't touch."""
        self.calls += 1
        self.feed("invoke", verb, asked)
        if not self.sequential:
            self.now += 1
        self.feed(phase, verb, answer)
        if not self.sequential:
            self.now += 1

    def tick(self, by: int) -> None:
        self.now += by

    def note(self, verb: str, **body: Any) -> None:
        self.calls += 1
        self.feed("ok", verb, body)

    def finish(self) -> Summary:
        return self.checker.finish()

    # Verbs

    def enqueue(self, id_: str, tenant: str = "a", reply: Body | None = None, **more: Any) -> None:
        new = spec(id_, tenant, **more)
        self.specs.setdefault((tenant, id_), new)
        self.batch([new], [reply or created(id_)])

    def batch(self, jobs: list[Body], replies: list[Body], *, atomic: bool = False) -> None:
        for job in jobs:
            self.specs.setdefault((job["tenant"], job["id"]), job)
        self.call("enqueue", {"jobs": jobs, "atomic": atomic}, {"replies": replies})

    def claim(self, *jobs: Body, **more: Any) -> None:
        """A claim of queue q; words of its request and reply by name."""
        asked = claim_request(**{name: more.pop(name) for name in list(more) if name in _ASKED})
        reply = {
            "type": "Claimed",
            "jobs": [
                {**job, "token": {**job["token"], "secret": job["token"]["secret"] or asked["claim_id"]}}
                for job in jobs
            ],
            "cursor": [jobs[-1]["tenant"], 1, len(jobs) - 1] if jobs else asked["cursor"],
            "now": self.now,
            "wake_after": None,
            **more,
        }
        self.call("claim", {"claim": asked}, {"reply": reply})

    def job(self, id_: str, tenant: str = "a", lease_seq: int = 1, **more: Any) -> Body:
        """A claimed job as it is handed out for the first time, unless told otherwise."""
        new = self.specs[(tenant, id_)]
        ttl, grace = more.pop("ttl", TTL), more.pop("grace", GRACE)
        lease = {"worker": "w", "claimed_at": self.now, "until": self.now + ttl, "ttl": ttl, "grace": grace}
        return {
            **{name: new[name] for name in ("queue", "job_type", "codec", "key", "group", "labels", "max_attempts")},
            "tenant": tenant,
            "id": id_,
            "payload": digest(more.pop("payload")) if "payload" in more else new["payload"],
            "replay_of": None,
            "state": "running",
            "version": 2,
            "lease_seq": lease_seq,
            "attempt": 1,
            "priority": new["priority"],
            "run_at": START,
            "enqueued_at": START,
            "expires_at": None,
            "updated_at": self.now,
            "finished_at": None,
            "cancel_requested": False,
            "releases": {},
            "epoch": 1,
            "token": {"tenant": tenant, "job_id": id_, "lease_seq": lease_seq, "secret": more.pop("secret", None)},
            "lease": lease,
            **more,
        }

    def settle(self, id_: str, tag: str, reply: Body, *, lease_seq: int = 1, secret: str = "c1", **more: Any) -> None:
        tenant = more.pop("tenant", "a")
        item = {"token": token(id_, tenant, lease_seq, secret), "outcome": outcome(tag, **more)}
        self.call("settle", {"settlements": [item]}, {"replies": [reply]})

    def renew(self, id_: str, reply: Body, *, lease_seq: int = 1, secret: str = "c1") -> None:
        item = {"token": token(id_, "a", lease_seq, secret), "progress": None}
        self.call("renew", {"renewals": [item]}, {"replies": [reply]})

    def command(self, type_: str, id_: str, reply: Body, tenant: str = "a", **more: Any) -> None:
        base: Body = {"run_at": None, "delay": None} if type_ == "Reschedule" else {}
        if type_ == "Replay":
            base = {"payload": None, "codec": None, "again": False}
        item = {"type": type_, "tenant": tenant, "id": id_, **base, **more}
        self.call("command", {"commands": [item]}, {"replies": [reply]})

    def sweep(
        self,
        *,
        lost: int = 0,
        expired: int = 0,
        drained: int = 0,
        turn: bool = True,
        failed: list[str] | None = None,
        **asked: Any,
    ) -> None:
        """`failed` None: a history of before sweeps named what they fail."""
        request = {"interval": 0, "limit": 500, "hold": None, **asked}
        counts = {"type": "SweptCounts", "cascaded": 0, "lost": lost, "expired": expired, "drained": drained}
        reply: Body = {"type": "Swept", "turn": turn, "now": self.now, "counts": counts}
        if failed is not None:
            reply["failed"] = [{"type": "SweptJob", "tenant": "a", "id": id} for id in failed]
        self.call("sweep", request, {"reply": reply})

    def configure(self, tenant: str = "*", queue: str = "q", **content: Any) -> None:
        document = {"tenant": tenant, "kind": "queue", "name": queue, "body": json.dumps(content), "expires_at": None}
        self.call(
            "put_document",
            {"document": document, "expect": None, "ttl": None},
            {"reply": {"type": "Stored", "version": 1}},
        )

    def get(self, id_: str, reply: Body, tenant: str = "a", *, explain: bool = False) -> None:
        self.call("get", {"refs": [[tenant, id_]], "explain": explain}, {"replies": [reply]})

    def view(self, id_: str, **more: Any) -> Body:
        """A pending job as a reader sees it, unless told otherwise."""
        view = self.job(id_, lease_seq=0)
        view |= {"type": "JobView", "state": "pending", "status": "ready", "version": 1, "attempt": 0, "lease": None}
        view |= {"updated_at": START, "history": [], "last_error": None, "result": None, "gates": []}
        return {**view, "dead_letter": None, "replayed_as": None, **more}

    def events(
        self,
        *events: Body,
        tenant: str | None = None,
        after: Any = ...,
        cursor: str | None = None,
        cursors: Sequence[str] = (),
    ) -> None:
        """A page of the feed, followed on from the last one."""
        start = self.cursor if after is ... else after
        self.position += len(events)
        following = cursor or f"c{self.position}"
        if tenant is None and after is ...:
            self.cursor = following
        page = {"type": "EventPage", "events": list(events), "cursor": following, "cursors": list(cursors)}
        self.call("events", {"tenant": tenant, "after": start, "limit": 1000}, {"reply": page})

    # Events

    def enqueued(self, id_: str, tenant: str = "a", **more: Any) -> Body:
        new = self.specs[(tenant, id_)]
        return self.event(
            "enqueued",
            id_,
            1,
            tenant,
            **{
                "priority": new["priority"],
                "run_at": START,
                "at": START,
                "max_attempts": new["max_attempts"],
                "payload_size": new["payload"]["size"],
                "payload_hash": new["payload"]["sha256"],
                **({"group": new["group"]} if new["group"] else {}),
                **({"key_hash": new["key"]} if new["key"] else {}),
                **({"parents": [parent["id"] for parent in new["parents"]]} if new["parents"] else {}),
                **more,
            },
        )

    def event(self, kind: str, id_: str, version: int, tenant: str = "a", **more: Any) -> Body:
        new = self.specs[(tenant, id_)]
        base = {"tenant": tenant, "kind": kind, "at": self.now, "job_id": id_, "version": version}
        return {**base, "queue": new["queue"], "job_type": "t", "attempt": 0, "lease_seq": 0, **more}

    def claimed(self, id_: str, version: int = 2, *, lease_seq: int = 1, attempt: int = 1, **more: Any) -> Body:
        at = more.get("at", self.now)
        given = {"worker": "w", "lease_until": at + TTL, "waited_ms": at - START, **more}
        return self.event("claimed", id_, version, lease_seq=lease_seq, attempt=attempt, **given)

    def ended(self, kind: str, id_: str, version: int = 3, *, lease_seq: int = 1, **more: Any) -> Body:
        words = {"succeeded": "ok", "lease_lost": "lease_lost"}
        given = {"run_ms": 0, "attempt": 1, "reason": words.get(kind, "error"), **more}
        return self.event(kind, id_, version, lease_seq=lease_seq, **given)


_ASKED = {"claim_id", "worker", "queues", "n", "ttl", "grace", "tenants", "asked_cursor"}


def claim_request(**more: Any) -> Body:
    cursor = more.pop("asked_cursor", ["", 0, 0])
    base = {"claim_id": "c1", "worker": "w", "queues": [["q", None]], "n": 1, "ttl": TTL, "grace": GRACE}
    return {**base, "cursor": cursor, "tenants": None, **more}


def created(id_: str) -> Body:
    return {"type": "Enqueued", "id": id_, "created": True, "state": None, "result": None}


def duplicate(id_: str, state: str = "pending", result: Body | None = None) -> Body:
    return {"type": "Enqueued", "id": id_, "created": False, "state": state, "result": result}


def settled(state: str) -> Body:
    return {"type": "Settled", "state": state}


def token(id_: str, tenant: str = "a", lease_seq: int = 1, secret: str = "c1") -> Body:
    return {"tenant": tenant, "job_id": id_, "lease_seq": lease_seq, "secret": secret}


def outcome(tag: str, **more: Any) -> Body:
    base: dict[str, Body] = {
        "succeed": {"result": None, "codec": "json", "jobs": []},
        "retry": {"error": {"family": "E", "message": ""}, "delay": 0, "reason": "error"},
        "fail": {"error": {"family": "E", "message": ""}, "reason": "permanent"},
        "release": {"delay": 0, "reason": "shutdown", "at_most": None},
    }
    return {"tag": tag, **base[tag], **more}


def test_a_whole_good_story_gives_a_summary() -> None:
    tape = Tape()
    tape.enqueue("j1")
    tape.enqueue("j2")
    tape.claim(tape.job("j1"), tape.job("j2"), n=2)
    tape.settle("j1", "succeed", settled("succeeded"))
    tape.tick(TTL + GRACE + 1)
    tape.sweep(lost=1)
    lost = tape.ended("lease_lost", "j2", run_ms=TTL + GRACE + 1, run_at=START)
    tape.events(
        tape.enqueued("j1"),
        tape.enqueued("j2"),
        tape.claimed("j1", at=START, waited_ms=0),
        tape.claimed("j2", at=START, waited_ms=0),
        tape.ended("succeeded", "j1", at=START),
        lost,
    )
    tape.events()

    summary = tape.finish()

    assert summary.feed_complete
    assert (summary.acknowledged, summary.enqueued, summary.claimed) == (2, 2, 2)
    assert (summary.succeeded, summary.recovered, summary.live, summary.lost) == (1, 1, 1, 0)
