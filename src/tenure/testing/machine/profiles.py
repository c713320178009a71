"""Profiles: which world the machine builds, what happens there how often, and which ways must be taken there.

A profile is one entry of the table. What it leaves out is as in `mixed`, the small world in which everything meets
everything. A floor says how often a way is taken in 1,000 steps at the least, about a third of what was counted over
some ten thousand: a way that is no longer taken fails the run.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tenure.stores.ways import Way

MEMORY, SQLITE, POSTGRES = "memory", "sqlite", "postgres"

LEAST = 3
"""A floor below this isn't held: about nine are expected then, and none is no wonder yet."""

Weighted = tuple[tuple[int, int], ...]
"""[(weight, number)]"""
Floors = dict[Way, float]
"""How often in 1,000 steps, at the least."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of world. Names are chosen so that byte order differs from dictionary order."""

    name: str
    what: str
    tenants: tuple[str, ...] = ("Zed", "acme", "b-2")
    queues: tuple[str, ...] = ("Bulk", "lanes", "mail")
    lanes: tuple[str, ...] = ("lanes",)
    """The queues that are usually keyed."""
    groups: tuple[str, ...] = ("B", "a", "é")
    keys: tuple[str, ...] = ("k1", "k2", "k3")
    plain: int = 0
    """How many new jobs of a hundred have nothing but a type and a payload."""
    alike: Weighted = ((1, 2), (1, 3), (1, 5))
    """How many jobs of one kind are enqueued together."""
    claims: Weighted = ((4, 1), (3, 2), (2, 3), (2, 5), (1, 7))
    """How many jobs a claim wants."""
    open_claims: int = 0
    """How many claims of a hundred have neither bounds, nor tenants, nor a cursor from anywhere."""
    rules: dict[str, int] = {}
    """Weights of rules, in place of their own; 0 leaves a rule out."""
    others: bool = True
    """Whether rules that aren't named come too."""
    sequential: bool = True
    """Whether calls come one after the other: the checker then knows what each must answer."""
    stores: tuple[str, ...] = (MEMORY, SQLITE, POSTGRES)
    """Those of ours that it is for."""
    options: dict[str, Any] = {}
    """What their factories are told."""
    share: int = 1
    """Its part of a campaign's steps."""
    floors: dict[str, Floors] = {}
    """By store."""

    def floors_of(self, store: str, steps: int) -> dict[Way, int]:
        """How often a run of so many steps on a store must take each way. A short run says nothing of rare ones."""
        floors = {way: int(often * steps / 1_000) for way, often in self.floors.get(store, {}).items()}
        return {way: floor for way, floor in floors.items() if floor >= LEAST}

    def missing(self, store: str, ways: Mapping[Way, int], steps: int) -> list[str]:
        """The ways that a run of so many steps took less often than it must, in words."""
        return [
            f"{self.name} on {store}: {way} {ways.get(way, 0):,} times, at least {floor:,} are expected"
            for way, floor in self.floors_of(store, steps).items()
            if ways.get(way, 0) < floor
        ]


_MEMORY: Floors = {Way.ENQUEUE_MODEL: 45, Way.CLAIM_MODEL: 60, Way.SETTLE_MODEL: 45}
_HOT: Floors = {
    Way.CLAIM_HOT: 12,
    Way.CLAIM_HOT_AGAIN: 15,
    Way.CLAIM_HOT_MODEL: 2,
    Way.SETTLE_MODEL: 15,
    Way.SETTLE_HOT: 5,
    Way.SETTLE_HOT_AGAIN: 1,
}
_SQLITE: Floors = {**_HOT, Way.ENQUEUE_MODEL: 45}
_POSTGRES: Floors = {
    **_HOT,
    Way.ENQUEUE_MODEL: 1.5,
    Way.ENQUEUE_QUICK: 1,
    Way.ENQUEUE_ONE: 2.5,
    Way.ENQUEUE_ALIKE: 12,
    Way.ENQUEUE_MIXED: 2.5,
    Way.LOOK_PLAIN: 10,
    Way.CLAIM_KEPT_AT_ONCE: 8,
    Way.SETTLE_FINISHED: 2.5,
    Way.SETTLE_KEPT_AT_ONCE: 4,
    Way.BORDER: 400,
    Way.BORDER_NONE: 12,
}
"""What every profile takes there, whatever its world is like."""


def _floors(
    *, both: Floors | None = None, sqlite: Floors | None = None, postgres: Floors | None = None
) -> dict[str, Floors]:
    """The floors of every store, with those that only this profile has; `both` are of the SQL stores."""
    both, sqlite, postgres = both or {}, sqlite or {}, postgres or {}
    return {MEMORY: _MEMORY, SQLITE: {**_SQLITE, **both, **sqlite}, POSTGRES: {**_POSTGRES, **both, **postgres}}


_NONE_OF_THESE = {"configure_badly": 0, "configure_expecting": 0, "keep_document": 0, "list_documents": 0}

MIXED = Profile(
    name="mixed",
    what="three of everything, so that jobs meet each other all the time",
    share=4,
    floors=_floors(
        both={Way.CLAIM_HOT: 40, Way.CLAIM_HOT_GROUP: 17},
        postgres={Way.ENQUEUE_MODEL: 30, Way.LOOK_GROUPS: 5, Way.LOOK_RING: 40, Way.OVERTAKEN: 10},
    ),
)

PLAIN = Profile(
    name="plain",
    what="one tenant, one queue, jobs of one kind, few or very many at a time",
    tenants=("acme",),
    queues=("mail",),
    lanes=(),
    plain=97,
    alike=((4, 1), (5, 3), (4, 40), (2, 250), (1, 600)),
    claims=((5, 1), (3, 3), (4, 40), (2, 250), (1, 700)),
    open_claims=90,
    rules={
        "enqueue_one": 6,
        "enqueue_alike": 12,
        "enqueue_batch": 1,
        "claim": 16,
        "claim_again": 1,
        "exchange": 2,
        "succeed_all": 12,
        "settle_one": 2,
        "settle_batch": 1,
        "settle_again": 1,
        "renew": 1,
        "act_at_the_edge": 1,
        "cancel": 1,
        "pass_time": 2,
        "pass_to_an_edge": 1,
        "pass_a_day": 1,
        "sweep": 2,
        "purge": 1,
        "query": 1,
        "read_feed": 1,
        "outlive_the_feed": 1,
        "configure_turns": 1,
        "crash": 1,
        "second_client": 1,
        "freeze": 1,
        "transfer": 1,
    },
    others=False,
    floors=_floors(
        both={Way.CLAIM_HOT_MODEL: 0.5, Way.SETTLE_HOT: 12},
        postgres={
            Way.ENQUEUE_QUICK: 15,
            Way.ENQUEUE_NUMBERED: 4,
            Way.CLAIM_LONE: 10,
            Way.CLAIM_FEW: 5,
            Way.CLAIM_FEW_FAILED: 1,
            Way.SETTLE_HOT_AGAIN: 5,
        },
    ),
)

KEYED = Profile(
    name="keyed",
    what="groups, limits, rates and order, many groups of a lane at a time",
    tenants=("Zed", "acme"),
    queues=("Bulk", "lanes", "mail"),
    lanes=("Bulk", "lanes"),
    groups=("B", "a", "b", "c", "d", "f", "g", "h", "i", "j", "z", "é"),
    plain=50,
    alike=((3, 2), (2, 6), (1, 20)),
    claims=((3, 1), (3, 3), (3, 8), (2, 30)),
    open_claims=50,
    rules={**_NONE_OF_THESE, "enqueue_alike": 3, "enqueue_batch": 9, "configure": 2, "succeed_all": 4, "claim": 14},
    floors=_floors(both={Way.CLAIM_HOT_GROUP: 50}, postgres={Way.LOOK_GROUPS: 20, Way.LOOK_RING: 15}),
)

TENANTS = Profile(
    name="tenants",
    what="many tenants with weights, and queues with weights",
    tenants=tuple(f"{letter}{number}" for number in range(12) for letter in ("t", "T")),
    lanes=(),
    plain=60,
    alike=((3, 2), (2, 8), (1, 30)),
    claims=((3, 1), (3, 3), (3, 12), (2, 60)),
    open_claims=60,
    rules={
        **_NONE_OF_THESE,
        "enqueue_many_tenants": 10,
        "enqueue_alike": 4,
        "configure": 1,
        "configure_turns": 4,
        "succeed_all": 5,
        "claim": 16,
    },
    floors=_floors(both={Way.CLAIM_HOT: 150}, postgres={Way.LOOK_RING: 45, Way.CLAIM_KEPT_AT_ONCE: 30}),
)

FRONTIER = Profile(
    name="frontier",
    what="every claim from a frontier, some jobs enqueued by transactions that stay open for a while",
    plain=40,
    alike=((3, 2), (2, 6), (1, 30)),
    open_claims=30,
    rules={**_NONE_OF_THESE, "hold_enqueue": 5, "let_go": 4, "claim": 14, "enqueue_alike": 3, "pass_time": 4},
    stores=(POSTGRES,),
    options={"patience": 0},
    sequential=False,
    floors=_floors(
        postgres={
            Way.ENQUEUE_JOINED: 10,
            Way.LOOK_FRONTIER: 45,
            Way.LOOK_DISCOVER: 8,
            Way.LOOK_DUE: 4,
            Way.LOOK_GROUPS: 2,
            Way.CLAIM_HOT_GROUP: 15,
            Way.OVERTAKEN: 6,
        }
    ),
)

CALLERS = Profile(
    name="callers",
    what="several clients, whose calls overlap",
    plain=40,
    rules={
        **_NONE_OF_THESE,
        "second_client": 6,
        "two_at_once": 24,
        "several_in_order": 8,
        "enqueue_joined": 4,
        "hold_enqueue": 4,
        "let_go": 3,
        "claim": 12,
        "transfer": 0,
        "claim_in_two": 0,
    },
    sequential=False,
    floors=_floors(
        both={Way.CLAIM_HOT_GROUP: 20, Way.ENQUEUE_JOINED: 6},
        sqlite={Way.GROUPED: 30},
        postgres={Way.LOOK_RING: 25, Way.OVERTAKEN: 10},
    ),
)

PROFILES = {one.name: one for one in (MIXED, PLAIN, KEYED, TENANTS, FRONTIER, CALLERS)}


def profiles_of(store: str) -> list[Profile]:
    """Those that are for a store of ours."""
    return [profile for profile in PROFILES.values() if store in profile.stores]
