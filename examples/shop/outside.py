"""The world outside the shop: a mail server and a webhook receiver, until Ctrl-C. `python -m examples.shop.outside`."""

import asyncio
from contextlib import suppress

from examples.shop.work import shop_from
from tenure.demo.sinks import HookSink, MailSink, Sink


async def main() -> None:
    shop = shop_from()
    async with MailSink(shop.smtp_port) as mail, HookSink(shop.secret.encode(), shop.hook_port) as hooks:
        print(f"mail on port {mail.port}, webhooks at {shop.hook_url}")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(report(mail, "mails"))
            tasks.create_task(report(hooks, "webhooks"))


async def report(sink: Sink, what: str) -> None:
    while True:
        await sink.arrival()
        print(f"{sink.arrivals.total()} {what} arrived")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
