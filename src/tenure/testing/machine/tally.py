"""What a run did: how often each rule ran, and what the store under test answered."""

from collections import Counter
from collections.abc import Iterable
from threading import Lock
from typing import Any

from tenure.domain.calls import Exchanged
from tenure.domain.errors import TenureError
from tenure.stores.ways import Way

REPEATED = "Settled again"
"""The answer to a settle that was sent before: a success, counted with the refusals of §5 because it is one of them."""

LEASE_ANSWERS = ("JobNotFound", "LeaseLost", REPEATED, "JobCancelled", "JobFinished", "LeaseExpired")
"""The refusals of §5, in their order."""

LEASE_VERBS = ("renew", "settle", "exchange")


class Tally:
    """Counts of one or more runs; add others to it."""

    def __init__(self) -> None:
        self.steps = 0
        self.examples = 0
        self.ran: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        """By refusal, over all verbs."""
        self.leases: Counter[str] = Counter()
        """By refusal of §5, in answers to a token."""
        self.ways: Counter[Way] = Counter()
        """By way that a call went, in the store under test."""
        self._lock = Lock()

    def way(self, way: Way) -> None:
        """Counts a way; stores say it in whatever thread they are."""
        with self._lock:
            self.ways[way] += 1

    @property
    def rules(self) -> set[str]:
        """Those that ran, and the machine's own beginning and end."""
        return self.ran.keys() | self.accepted.keys() | self.refused.keys()

    def step(self, rule: str) -> None:
        self.steps += 1
        self.ran[rule] += 1

    def answer(self, rule: str, verb: str, reply: object) -> None:
        """Counts one reply, item by item."""
        for item in _items(reply):
            if isinstance(item, TenureError):
                self.refused[rule] += 1
                self.answers[type(item).__name__] += 1
                if verb in LEASE_VERBS:
                    self.leases[type(item).__name__] += 1
            else:
                self.accepted[rule] += 1

    def repeated(self) -> None:
        """A settle was answered as before."""
        self.leases[REPEATED] += 1

    def add(self, other: "Tally") -> None:
        self.steps += other.steps
        self.examples += other.examples
        for field in ("ran", "accepted", "refused", "answers", "leases", "ways"):
            getattr(self, field).update(getattr(other, field))

    @classmethod
    def of(cls, counts: dict[str, Any]) -> "Tally":
        """The tally that `as_dict` told of."""
        tally = cls()
        tally.steps, tally.examples = counts["steps"], counts["examples"]
        for field in ("ran", "accepted", "refused"):
            getattr(tally, field).update({rule: told[field] for rule, told in counts["rules"].items()})
        tally.answers.update(counts["refusals"])
        tally.leases.update(counts["lease_refusals"])
        tally.ways.update({Way(way): count for way, count in counts["ways"].items()})
        return tally

    def missing(self, at_least: int) -> list[str]:
        """The refusals of §5 seen less often than that."""
        return [name for name in LEASE_ANSWERS if self.leases[name] < at_least]

    def as_dict(self) -> dict[str, Any]:
        rules = {
            rule: {"ran": self.ran[rule], "accepted": self.accepted[rule], "refused": self.refused[rule]}
            for rule in sorted(self.rules)
        }
        return {
            "steps": self.steps,
            "examples": self.examples,
            "rules": rules,
            "refusals": dict(sorted(self.answers.items())),
            "lease_refusals": {name: self.leases[name] for name in LEASE_ANSWERS},
            "ways": {way.value: count for way, count in sorted(self.ways.items())},
        }

    def table(self) -> str:
        """The counts for people: items accepted and refused, per rule and per refusal."""
        lines = [f"{self.steps:,} steps in {self.examples:,} examples", ""]
        lines.append(f"  {'rule':<28}{'ran':>9}{'accepted':>11}{'refused':>10}")
        for rule in sorted(self.rules):
            lines.append(f"  {rule:<28}{self.ran[rule]:>9,}{self.accepted[rule]:>11,}{self.refused[rule]:>10,}")
        lines += ["", f"  {'answers to a token (§5)':<28}{'seen':>9}"]
        lines += [f"  {name:<28}{self.leases[name]:>9,}" for name in LEASE_ANSWERS]
        lines += ["", f"  {'ways that calls went':<52}{'taken':>9}"]
        lines += [f"  {way:<52}{count:>9,}" for way, count in sorted(self.ways.items())]
        lines += ["", f"  {'refusals of all verbs':<28}{'seen':>9}"]
        lines += [f"  {name:<28}{count:>9,}" for name, count in sorted(self.answers.items())]
        return "\n".join(lines)


def _items(reply: object) -> Iterable[object]:
    if isinstance(reply, Exchanged):
        return (*reply.settled, reply.claimed)
    return reply if isinstance(reply, list) else (reply,)
