"""The shop's jobs: `tenure worker examples.shop.app:app` runs them."""

import os
from collections.abc import AsyncIterator

from examples.shop import work
from examples.shop.work import Picture, Shop
from tenure import Backoff, Context, Priority, Tenure

app = Tenure(os.environ.get("TENURE_URL", "sqlite:///shop.db"))


@app.lifespan
async def services() -> AsyncIterator[Shop]:
    """What every handler finds at `ctx.state`: made once per worker, and closed with it."""
    yield work.shop_from()


@app.job(
    queue="mail",
    priority=Priority.HIGH,
    timeout=30,
    max_attempts=5,
    retry=Backoff.exponential(base=2, cap=60),
    key=lambda to, order: f"confirm:{order}",
    unique="window",
    unique_for=24 * 3600,
)
def send_email(ctx: Context, to: str, order: int) -> str:
    """Confirms an order, once a day at most. A plain function: it runs in a thread."""
    message_id = f"{ctx.id}@shop.example"
    work.send(ctx.state, to, f"Order {order}", "Thank you! We are packing.", message_id)
    return message_id


@app.job(queue="pictures", timeout=60)
def resize_image(ctx: Context, product: str, width: int, height: int) -> Picture:
    """Writes a product's picture. Run twice, it writes the same file again."""
    return work.resize(ctx.state, product, width, height)


@app.job(queue="text", result_ttl=600)
def summarize_text(content: str, sentences: int = 1) -> list[str]:
    """What customers say, in short. It needs no context, so it takes none."""
    return work.summarize(content, sentences)


@app.job(queue="webhooks", timeout=30, max_attempts=10, group=lambda url, order: url)
async def webhook_delivery(ctx: Context, url: str, order: int) -> int:
    """Tells a partner that an order is ready, with what the jobs before it made. Partners are groups: none gets more
    at a time than the queue's `group_limit`."""
    pictures = await ctx.parents.results()
    event = {"event": "order.ready", "order": order, "pictures": pictures}
    return await work.deliver(ctx.state, url, event, ctx.id)


async def configure() -> None:
    """What the queues need to know. The same again changes nothing, so call it at every start."""
    await app.queue("webhooks").configure(mode="keyed", group_limit=2)
