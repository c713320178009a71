"""What the shop's jobs do. Mail, pictures, texts and webhooks themselves are the demo's, which Tenure brings along."""

import hashlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tenure import Fail, Retry
from tenure.demo import images, mail, text, webhooks

SENDER = "orders@shop.example"
HOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Shop:
    """Where everything is."""

    smtp_port: int
    hook_port: int
    secret: str
    pictures: Path

    @property
    def hook_url(self) -> str:
        return f"http://{HOST}:{self.hook_port}/orders"


def shop_from(environment: Mapping[str, str] = os.environ) -> Shop:
    return Shop(
        smtp_port=int(environment.get("SHOP_SMTP_PORT", "2525")),
        hook_port=int(environment.get("SHOP_HOOK_PORT", "8025")),
        secret=environment.get("SHOP_SECRET", "only for trying out"),
        pictures=Path(environment.get("SHOP_PICTURES", "shop-pictures")),
    )


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture that was written."""

    path: str
    width: int
    height: int
    sha256: str


def send(shop: Shop, to: str, subject: str, body: str, message_id: str) -> None:
    """Sends a mail, or says whether trying again can help."""
    try:
        message = mail.letter(sender=SENDER, to=to, subject=subject, body=body, message_id=message_id)
        mail.send(message, HOST, shop.smtp_port)
    except ValueError as error:
        raise Fail(str(error)) from error
    except mail.Undeliverable as error:
        raise (Fail(str(error)) if error.permanent else Retry(str(error), after=1)) from error


def resize(shop: Shop, product: str, width: int, height: int) -> Picture:
    """Paints a product, for want of a photo, and writes it in the size asked for."""
    if not re.fullmatch(r"[a-z0-9-]{1,64}", product):
        raise Fail(f"product {product!r:.80}: give a name of small letters, digits and dashes")
    body = images.png(images.resized(images.painted(product, 160, 120), width, height))
    shop.pictures.mkdir(parents=True, exist_ok=True)
    path = shop.pictures / f"{product}-{width}x{height}.png"
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(body)
    unfinished.replace(path)
    return Picture(path=str(path), width=width, height=height, sha256=hashlib.sha256(body).hexdigest())


def summarize(content: str, sentences: int) -> list[str]:
    return text.summary(content, sentences)


async def deliver(shop: Shop, url: str, event: Mapping[str, object], delivery_id: str) -> int:
    """Posts a signed event. Only the receiver on the loopback may be inside; anything else must be out in the world."""
    body = msgspec.json.encode(event)
    headers = {
        webhooks.DELIVERY_HEADER: delivery_id,
        webhooks.SIGNATURE_HEADER: webhooks.signature(shop.secret.encode(), int(time.time()), body),
    }
    try:
        return await webhooks.deliver(url, body, headers, webhooks.Policy(allowed=(f"{HOST}/32",)))
    except webhooks.NotAllowed as error:
        raise Fail(str(error)) from error
    except webhooks.Undelivered as error:
        if error.permanent:
            raise Fail(str(error)) from error
        raise
