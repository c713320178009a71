"""An order comes in: `python -m examples.shop.enqueue [ORDER]`."""

import asyncio
import sys

from examples.shop.app import app, configure, resize_image, send_email, summarize_text, webhook_delivery
from examples.shop.work import shop_from

REVIEWS = (
    "The kettle boils fast and the kettle is quiet. I bought it in blue. "
    "My kettle boils water while I look for a cup. Delivery took two days."
)
SIZES = ((128, 96), (64, 48), (32, 24))
PATIENCE_SECONDS = 60


async def main(order: int) -> int:
    """Enqueues everything that an order needs, and waits for it."""
    async with app:
        await configure()
        mail = await send_email.enqueue("ada@customer.example", order)
        print(f"mail {mail.id}" if mail.created else f"mail {mail.id}: asked for before, so it isn't sent again")
        summary = await summarize_text.enqueue(REVIEWS)

        flow = app.flow()
        told = flow.group(
            [resize_image.build("kettle", *size) for size in SIZES],
            then=webhook_delivery.build(shop_from().hook_url, order),
        )
        await flow.enqueue()

        print(f"the mail was sent as {await mail.result(PATIENCE_SECONDS)}")
        print(f"customers say: {' '.join(await summary.result(PATIENCE_SECONDS))}")
        print(f"the partner was told, and answered {await told.result(PATIENCE_SECONDS)}")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1042)))
