"""What Sentry's logging integration makes of the worker's log: an event for each failed job, and no other."""

from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from tenure import Backoff, Context, Fail, Tenure
from tenure.stores.memory import MemoryStore


class Kept(Transport):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Any] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        event = envelope.get_event()
        if event is not None:
            self.events.append(event)


@pytest.fixture
def sent() -> Iterator[list[Any]]:
    kept = Kept()
    sentry_sdk.init(
        transport=kept,
        default_integrations=False,
        auto_enabling_integrations=False,
        integrations=[LoggingIntegration()],
    )
    yield kept.events
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


def explode(secret: str) -> None:
    raise ValueError("boom")


async def test_an_event_for_each_final_failure(sent: list[Any]) -> None:
    app = Tenure(store=MemoryStore())

    @app.job(queue="mail", max_attempts=3, retry=Backoff.none())
    async def breaks() -> None:
        explode("x")

    @app.job(queue="mail")
    async def refuses() -> None:
        raise Fail("no such customer")

    @app.job(queue="mail", max_attempts=2, retry=Backoff.none())
    async def flaky(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("once")

    async with app.worker() as worker:
        acme = app.tenant("acme")
        broken = [await acme.enqueue(breaks.build()) for _ in range(2)]
        refused = await acme.enqueue(refuses.build())
        await acme.enqueue(flaky.build())
        await worker.idle()

    fields = ("job", "job_type", "tenant", "queue", "attempt", "reason")
    said = {tuple(event["extra"][name] for name in fields) for event in sent}
    assert said == {
        *((one.id, "breaks", "acme", "mail", 3, "exhausted") for one in broken),
        (refused.id, "refuses", "acme", "mail", 1, "permanent"),
    }
    assert len(sent) == 3
    by_type = {event["extra"]["job_type"]: event for event in sent}
    assert frames(by_type["breaks"])[-2:] == ["breaks", "explode"]
    assert frames(by_type["refuses"])[-1] == "refuses"
    assert {event["logentry"]["message"] for event in sent} == {"job %s (%s of %s) failed in attempt %d (%s): %s"}
    assert {event["level"] for event in sent} == {"error"}


def frames(event: Any) -> list[str]:
    """The functions of an event's traceback, the innermost last."""
    return [frame["function"] for frame in event["exception"]["values"][-1]["stacktrace"]["frames"]]
