"""Configuration as the contract reads it, and writes of it: versions, mode conflicts, pause and resume."""

import json
from dataclasses import dataclass, field
from typing import Any

from tenure.testing.checker.ledger import Body, Lane, Ledger, demand, refusal

EVERYONE = "*"
SYSTEM = "_system"


@dataclass(slots=True, frozen=True)
class Bucket:
    """A rate as GCRA wants it: microseconds between two jobs, and how many may come at once."""

    interval: int
    burst: int

    def opens_at(self, tat: int) -> int:
        return tat - (self.burst - 1) * self.interval

    def conforms(self, tat: int, now: int) -> bool:
        return now * 1_000 >= self.opens_at(tat)

    def spend(self, tat: int, now: int) -> int:
        return max(tat, now * 1_000) + self.interval

    def wait(self, tat: int, now: int) -> int:
        """Milliseconds until one more conforms, rounded up."""
        return max(0, -((now * 1_000 - self.opens_at(tat)) // 1_000))


@dataclass(slots=True, frozen=True)
class Rules:
    """What holds for one tenant's queue."""

    keyed: bool = False
    ordered: bool = False
    group_limit: int | None = None
    group_limits: dict[str, int] = field(default_factory=dict)
    group_bucket: Bucket | None = None
    limit: int | None = None
    bucket: Bucket | None = None
    weight: int = 1
    max_depth: int | None = None
    lease: int | None = None
    grace: int | None = None
    paused: bool = False

    def limit_of(self, group: str | None) -> int | None:
        if self.ordered:
            return 1
        return self.group_limits.get(group or "", self.group_limit)


def rules_of(ledger: Ledger, lane: Lane) -> Rules:
    """The effective rules of a tenant's queue."""
    known = ledger.rules.get(lane)
    if known is None:
        tenant, queue = lane
        own = content(ledger, (tenant, "queue", queue))
        everyone = content(ledger, (EVERYONE, "queue", queue))
        known = ledger.rules[lane] = effective(own, everyone)
    rules: Rules = known
    return rules


def effective(own: Body, everyone: Body) -> Rules:
    """Field by field the nearest set value; paused at either level is paused."""
    near = {name: value for name, value in own.items() if value is not None}
    far = {name: value for name, value in everyone.items() if value is not None}
    merged: Body = {**far, **near}
    keyed = merged.get("mode", "plain") == "keyed"
    return Rules(
        keyed=keyed,
        ordered=keyed and bool(merged.get("ordered", False)),
        group_limit=merged.get("group_limit"),
        group_limits=merged.get("group_limits", {}),
        group_bucket=_bucket(merged.get("group_rate"), merged.get("group_burst", 1)),
        limit=merged.get("limit"),
        bucket=_bucket(merged.get("rate"), merged.get("burst", 1)),
        weight=merged.get("weight", 1),
        max_depth=merged.get("max_depth"),
        lease=merged.get("lease"),
        grace=merged.get("grace"),
        paused=bool(near.get("paused") or far.get("paused")),
    )


def _bucket(rate: Any, burst: int) -> Bucket | None:
    if rate is None:
        return None
    count, period = (rate["count"], rate["period"]) if isinstance(rate, dict) else rate
    return Bucket(-(-period * 1_000 // count), burst)


def tenant_weight(ledger: Ledger, tenant: str) -> int:
    return content(ledger, (tenant, "tenant", tenant)).get("weight") or 1


def tenant_paused(ledger: Ledger, tenant: str) -> bool:
    return bool(content(ledger, (tenant, "tenant", tenant)).get("paused"))


def content(ledger: Ledger, key: tuple[str, str, str]) -> Body:
    """A document's body, parsed; empty if there is none."""
    document = ledger.documents.get(key)
    body: Body = {} if document is None else document["content"]
    return body


# Writing


def put(ledger: Ledger, asked: Body, reply: Body | None) -> None:
    """A document was written, or refused."""
    document, expect = asked["document"], asked["expect"]
    if ledger.frozen:
        demand("H2", reply, refusal("StoreFrozen"), what="a frozen store")
        return
    key = (document["tenant"], document["kind"], document["name"])
    before = _standing(ledger, key)
    version = _version(before)
    allowed: list[Body] = []
    if expect is not None and expect != version:
        allowed.append(refusal("VersionConflict", version))
    after = _parsed(document)
    conflict = document["kind"] == "queue" and _mode_conflict(ledger, key, before, after)
    if conflict:
        allowed.append({"refused": "ModeConflict"})
    same = (None if before is None else before["content"]) == after
    repeated = same and (after is None or version == (expect or 0) + 1)
    unsure = conflict == "maybe" or repeated
    if allowed and (not unsure or (reply is not None and "refused" in reply)):
        demand("H6" if conflict else "H2", reply, *allowed, what=f"document {key}")
        return
    _accept(ledger, asked, reply, before, after)


def _standing(ledger: Ledger, key: tuple[str, str, str]) -> Body | None:
    """A document, unless its time is past: then it counts as gone."""
    document = ledger.documents.get(key)
    if document is not None and document["expires_at"] is not None and ledger.now >= document["expires_at"]:
        return None
    return document


def _version(document: Body | None) -> int:
    """The version a document stands at; 0 where there is none."""
    return 0 if document is None else int(document["version"])


def _parsed(document: Body) -> Body | None:
    """What the document will say; None deletes it."""
    body = document["body"]
    if body is None:
        return None
    if not isinstance(body, str):
        return {"hash": body["sha256"]}
    parsed = json.loads(body or "{}")
    return {name: value for name, value in parsed.items() if value is not None}


def _mode_conflict(ledger: Ledger, key: tuple[str, str, str], before: Body | None, after: Body | None) -> str:
    """`yes` if the mode of a queue with live jobs would change, `maybe` where only words would."""
    tenant, _, queue = key
    old, new = ({} if before is None else before["content"]), after or {}
    lanes = [lane for lane in ledger.lanes if lane[1] == queue and tenant in (EVERYONE, lane[0])]
    for lane in lanes:
        own = new if tenant != EVERYONE else content(ledger, (lane[0], "queue", queue))
        everyone = new if tenant == EVERYONE else content(ledger, (EVERYONE, "queue", queue))
        if effective(own, everyone).keyed != rules_of(ledger, lane).keyed:
            return "yes"
    worded = old.get("mode") != new.get("mode")
    draining = any(slot.lane[1] == queue and tenant in (EVERYONE, slot.lane[0]) for slot in ledger.slots.values())
    return "maybe" if worded and (lanes or draining) else ""


def _accept(ledger: Ledger, asked: Body, reply: Body | None, before: Body | None, after: Body | None) -> None:
    document = asked["document"]
    key = (document["tenant"], document["kind"], document["name"])
    old = None if before is None else before["content"]
    _check_stored(ledger, key, reply, before, after)
    if after is None:
        ledger.documents.pop(key, None)
    else:
        ttl = asked["ttl"]
        version = reply["version"] if reply is not None else _version(before) + 1
        ledger.documents[key] = {
            "content": after,
            "version": version,
            "expires_at": None if ttl is None else ledger.now + ttl,
        }
    ledger.rules.clear()
    if old == after:
        ledger.may_have_written()
    else:
        ledger.wrote()
    if document["kind"] in ("queue", "tenant"):
        _announce(ledger, key, old or {}, after or {})


def _check_stored(
    ledger: Ledger, key: tuple[str, str, str], reply: Body | None, before: Body | None, after: Body | None
) -> None:
    version = _version(before)
    if after is None:
        demand("H2", reply, {"type": "Stored", "version": 0}, what=f"deleting {key}")
    elif before is None:
        demand("H2", reply, {"type": "Stored"}, what=f"writing {key}")
    else:
        options = [{"type": "Stored", "version": version + 1}]
        if before["content"] == after:
            options.append({"type": "Stored", "version": version})
        demand("H2", reply, *options, what=f"writing {key}")


def _announce(ledger: Ledger, key: tuple[str, str, str], old: Body, new: Body) -> None:
    """Configured, paused or resumed, iff something changed; where two things changed at once, any of the words."""
    tenant = SYSTEM if key[0] == EVERYONE else key[0]
    was, now = bool(old.get("paused")), bool(new.get("paused"))
    rest_changed = {**old, "paused": 0} != {**new, "paused": 0}
    words_changed = old != new
    turn = ("paused" if now else "resumed") if was != now else None
    if turn and not rest_changed:
        ledger.announce(tenant, turn, {"job_id": None, "version": None})
    elif turn:
        for kind in ("configured", turn):
            ledger.announce(tenant, kind, {"job_id": None, "version": None}, free=True, optional=True)
    elif words_changed:
        optional = not rest_changed
        ledger.announce(tenant, "configured", {"job_id": None, "version": None}, optional=optional)
