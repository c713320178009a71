"""The demo's jobs: what workers do, and what becomes of it when it goes wrong."""

import hashlib
import os
import re
import time
from pathlib import Path

import msgspec

from tenure import Backoff, Context, Fail, Jobs, Retry
from tenure.demo import images, mail, text, webhooks

SENDER = "shop@tenure.example"
SOURCE_SIZE = (120, 90)
SOON = Backoff.jittered(base=0.5, cap=2)

jobs = Jobs()


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What handlers find at `ctx.state`."""

    smtp: tuple[str, int]
    hook_secret: str
    hook_policy: webhooks.Policy
    pictures: str
    """The folder that pictures are written to."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A picture that was written."""

    path: str
    width: int
    height: int
    size: int
    sha256: str


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """A text in short."""

    sentences: list[str]
    words: int


@jobs.job(queue="mail", max_attempts=8, timeout=30, retry=SOON)
def send_email(ctx: Context, to: str, subject: str, body: str) -> str:
    """Sends one message; its id is the job's, so a mailbox that gets it twice can tell."""
    services: Services = ctx.state
    message_id = f"{ctx.id}@tenure.example"
    try:
        message = mail.letter(sender=SENDER, to=to, subject=subject, body=body, message_id=message_id)
        mail.send(message, *services.smtp)
    except ValueError as error:
        raise Fail(str(error)) from error
    except mail.Undeliverable as error:
        if error.permanent:
            raise Fail(str(error)) from error
        raise Retry(str(error), after=0.5) from error
    return message_id


@jobs.job(queue="pictures", max_attempts=8, timeout=30, retry=SOON)
def resize_image(ctx: Context, picture: str, width: int, height: int) -> Picture:
    """Writes a picture in another size. Done twice it writes the same file again."""
    services: Services = ctx.state
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", picture):
        raise Fail(f"picture {picture!r:.80}: give a name of letters, digits and dashes")
    try:
        images.check_size(width, height)
    except ValueError as error:
        raise Fail(str(error)) from error
    body = images.png(images.resized(images.painted(picture, *SOURCE_SIZE), width, height))
    path = Path(services.pictures, f"{picture}-{width}x{height}.png")
    _write(path, body, unique=ctx.id)
    return Picture(path=str(path), width=width, height=height, size=len(body), sha256=hashlib.sha256(body).hexdigest())


def _write(path: Path, body: bytes, unique: str) -> None:
    """All of it or nothing, whenever the process dies."""
    unfinished = path.with_name(f"{unique}.unfinished")
    unfinished.write_bytes(body)
    os.replace(unfinished, path)


@jobs.job(queue="text", max_attempts=8, timeout=30, retry=SOON)
def summarize_text(content: str, sentences: int = 2) -> Digest:
    """The sentences that say most."""
    try:
        return Digest(sentences=text.summary(content, sentences), words=len(text.words(content)))
    except ValueError as error:
        raise Fail(str(error)) from error


@jobs.job(queue="webhooks", max_attempts=8, timeout=30, retry=SOON, group=lambda url, event, data: url)
async def webhook_delivery(ctx: Context, url: str, event: str, data: dict[str, str]) -> int:
    """Posts an event, with the results of the jobs that it waited for; answers the status.

    Each receiver is a group, so a slow one has no more of us at a time than the queue's group limit.
    """
    services: Services = ctx.state
    results = await ctx.parents.results()
    body = msgspec.json.encode({"event": event, "tenant": ctx.tenant, "data": data, "results": results})
    secret = bytes.fromhex(services.hook_secret)
    headers = {
        webhooks.DELIVERY_HEADER: ctx.id,
        webhooks.SIGNATURE_HEADER: webhooks.signature(secret, int(time.time()), body),
    }
    try:
        return await webhooks.deliver(url, body, headers, services.hook_policy)
    except webhooks.NotAllowed as error:
        raise Fail(str(error)) from error
    except webhooks.Undelivered as error:
        if error.permanent:
            raise Fail(str(error)) from error
        raise
