"""What several tests of app and worker need: a store in between that can misbehave, and words for waiting."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from tenure import Tenure
from tenure.domain.calls import Claim, Claimed, ClaimedJob, Outcome, Settle, Settled
from tenure.domain.errors import Refused, StoreUnavailable
from tenure.domain.event import Event
from tenure.domain.job import Token
from tenure.domain.store import Store
from tenure.stores.clock import system_clock

REAL = system_clock
"""The clock of a test whose subject is real time."""

Meddle = Callable[..., Awaitable[Any]]
"""Stands in for a verb: gets the real one, then the call's own arguments, and answers for it."""


class Between:
    """A store between an app and the real one. `calls` has (verb, arguments) in order of coming; what stands in
    `meddle` under a verb's name answers for it.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.meddle: dict[str, Meddle] = {}
        self._awaited: list[tuple[str, int, asyncio.Event, asyncio.AbstractEventLoop]] = []

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.store, name)
        if not callable(verb):
            return verb

        async def called(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args))
            self._count(name)
            meddle = self.meddle.get(name)
            return await (verb(*args, **kwargs) if meddle is None else meddle(verb, *args, **kwargs))

        return called

    def of(self, verb: str) -> list[Any]:
        """The first argument of every call of a verb so far."""
        return [args[0] for name, args in self.calls if name == verb]

    async def called(self, verb: str, times: int) -> None:
        """Waits until a verb was called so many times, from any thread."""
        reached = asyncio.Event()
        self._awaited.append((verb, times, reached, asyncio.get_running_loop()))
        self._count(verb)
        await reached.wait()

    def _count(self, verb: str) -> None:
        times = sum(name == verb for name, _ in self.calls)
        for awaited, enough, reached, loop in self._awaited:
            if awaited == verb and times >= enough:
                loop.call_soon_threadsafe(reached.set)

    def hold(self, verb: str) -> "Held":
        """Keeps calls of a verb waiting until they are let go."""
        held = Held()
        self.meddle[verb] = held
        return held

    def fail(self, *verbs: str, times: int, error: Exception | None = None) -> asyncio.Event:
        """Lets the next calls of some verbs fail, together so many times; the event is set after the last."""
        over = asyncio.Event()
        left = times

        async def failing(verb: Meddle, *args: Any, **kwargs: Any) -> Any:
            nonlocal left
            if left == 0:
                return await verb(*args, **kwargs)
            left -= 1
            if left == 0:
                over.set()
            raise error or StoreUnavailable("the store is away")

        self.meddle |= dict.fromkeys(verbs, failing)
        return over


class Held:
    """Calls that wait: `came` is set by the first, `let_go` lets all pass, now and later."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self._open = asyncio.Event()

    async def __call__(self, verb: Meddle, *args: Any, **kwargs: Any) -> Any:
        self.came.set()
        await self._open.wait()
        return await verb(*args, **kwargs)

    def let_go(self) -> None:
        self._open.set()


async def claim(app: Tenure, queue: str = "default", n: int = 1) -> list[ClaimedJob]:
    """Takes jobs as a worker would that does nothing else."""
    store = await app.opened()
    claimed = await store.claim(Claim(claim_id=os.urandom(16), worker="hand", queues=((queue, None),), n=n))
    assert isinstance(claimed, Claimed)
    return list(claimed.jobs)


async def settle(app: Tenure, token: Token, outcome: Outcome) -> Settled | Refused:
    store = await app.opened()
    (reply,) = await store.settle([Settle(token, outcome)])
    return reply


async def happened(app: Tenure, kind: str, **fields: Any) -> Event:
    """Waits for an event of any tenant; one of the past counts."""
    async for event in app.fleet.events():
        if event.kind == kind and all(getattr(event, name) == value for name, value in fields.items()):
            return event
    raise AssertionError("a feed that is followed doesn't end")
