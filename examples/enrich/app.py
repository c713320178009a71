"""The job that every row becomes: `tenure worker examples.enrich.app:app` runs it."""

import hashlib
import ipaddress
import os
from pathlib import Path

import msgspec

from tenure import Fail, Tenure

QUEUE = "lookups"
COUNTRIES = ("AR", "CH", "DE", "FI", "IT", "JP", "KE", "NZ", "PT", "US")

URL = os.environ.get("TENURE_URL", f"sqlite:///{Path('enrich.db').absolute()}")
"""By its whole path: Spark's processes may run in another folder."""

app = Tenure(URL)


class Location(msgspec.Struct):
    """What is known of an address."""

    country: str
    trust: float


@app.job(queue=QUEUE, max_attempts=3, timeout=30, result_ttl=7 * 24 * 3600)
async def locate(ip: str) -> Location:
    """Asks where an address is. A real one would call a paid service here, which is why the queue has a rate."""
    if ipaddress.ip_address(ip).is_private:
        raise Fail("a private address is nowhere")
    digest = hashlib.sha256(ip.encode()).digest()
    return Location(COUNTRIES[digest[0] % len(COUNTRIES)], round(digest[1] / 255, 2))


async def configure(rate: str) -> None:
    """How often the service may be asked, by all workers together. The same again changes nothing."""
    await app.queue(QUEUE).configure(rate=rate, burst=100)
