"""Jobs for the command line's tests."""

import asyncio

from tenure import Context, Fail, Jobs

jobs = Jobs()


@jobs.job(queue="mail")
async def send(to: str, copies: int = 1) -> str:
    return f"{to} × {copies}"


@jobs.job(queue="mail")
async def echo(text: str) -> str:
    return text


@jobs.job(queue="mail")
async def silent() -> None:
    """Leaves no result."""


@jobs.job(queue="mail")
async def broken(why: str = "no stamp") -> None:
    raise Fail(why)


@jobs.job(queue="slow")
async def hold(ctx: Context) -> None:
    """Says that it started, then goes on until it is ended by force."""
    print(f"holding {ctx.id}", flush=True)
    await asyncio.Event().wait()
