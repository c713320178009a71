"""Calls of our Redis client beside `redis.asyncio` with hiredis, on one private server, interleaved:
`python -m bench.redis_client [--rounds 5] [--calls 2000] [--small]`.

Each round measures every client at each number of callers, one after the other, and compares inside the round: the
machine's other work falls on both. Printed are the best rate of each and the median of the rounds' ratios; on uvloop
too, where it is installed.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.util import find_spec
from statistics import median
from typing import Any

import redis.asyncio

from bench import table
from tenure.stores.redis.client import Client
from tenure.testing.valkey import served

CALLERS = (1, 50, 200)
BODY = b"x" * 100
OURS, THEIRS = "tenure", "redis.asyncio"
WARM_UP = 50

Call = Callable[..., Awaitable[Any]]
Rates = dict[tuple[str, int], list[float]]
"""(client, callers) → calls a second, of each round."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.redis_client", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=2_000, help="of each client in a round, at each number of callers")
    parser.add_argument("--small", action="store_true", help="only to see that it runs: the figures mean nothing")
    return parser.parse_args()


async def rate(call: Call, calls: int, callers: int) -> float:
    """Calls a second of so many callers, each of which waits for its reply before it calls again."""

    async def caller() -> None:
        for _ in range(max(calls // callers, 1)):
            await call("XADD", "bench", "MAXLEN", "~", 10_000, "*", "body", BODY)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return callers * max(calls // callers, 1) / (time.perf_counter() - started)


async def measure(url: str, rounds: int, calls: int) -> Rates:
    rates: Rates = {}
    async with AsyncExitStack() as stack:
        theirs = redis.asyncio.Redis.from_url(url, max_connections=2 * max(CALLERS))
        stack.push_async_callback(theirs.aclose)
        ours = await stack.enter_async_context(Client(url))
        clients: dict[str, Call] = {OURS: ours.call, THEIRS: theirs.execute_command}
        for callers in CALLERS:
            for call in clients.values():
                await rate(call, WARM_UP * callers, callers)  # a connection for each of their callers
            for number in range(rounds):
                for name in sorted(clients, reverse=bool(number % 2)):
                    rates.setdefault((name, callers), []).append(await rate(clients[name], calls, callers))
    return rates


def ratio(rates: Rates, callers: int) -> float:
    """How many times as fast as theirs, the median of the rounds."""
    return median(ours / theirs for ours, theirs in zip(rates[OURS, callers], rates[THEIRS, callers], strict=True))


def lines(rates: Rates) -> str:
    rows = [
        (callers, *(f"{max(rates[name, callers]):,.0f}" for name in (OURS, THEIRS)), f"{ratio(rates, callers):.1f} ×")
        for callers in CALLERS
    ]
    return table.lines(("callers", f"{OURS}, calls/s", f"{THEIRS}, calls/s", "ratio"), rows)


def main() -> int:
    options = parse()
    rounds, calls = (1, 200) if options.small else (options.rounds, options.calls)
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop] | None] = {"asyncio": None}
    if find_spec("uvloop") is not None:
        import uvloop

        loops["uvloop"] = uvloop.new_event_loop
    with served() as url:
        for name, loop in loops.items():
            with asyncio.Runner(loop_factory=loop) as runner:
                print(f"\n{name}\n\n{lines(runner.run(measure(url, rounds, calls)))}", end="", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
