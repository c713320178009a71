"""An app whose handlers take and give a bit of every type; tasks import it by its name."""

import tempfile
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from tenure import Context, Tenure
from tenure.engine.settings import Settings

BLOBS = Path(tempfile.gettempdir()) / "tenure-tests-spark-blobs"
app = Tenure("memory://", blobs=f"file://{BLOBS}", settings=Settings(inline_payload=2_000))
NAME = f"{__name__}:app"


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Line(msgspec.Struct):
    article: str
    price: Decimal


@dataclass
class Address:
    city: str
    zip: str | None = None


class Receipt(msgspec.Struct):
    number: int
    at: datetime


@app.job(queue="orders")
async def order(
    ctx: Context,
    number: int,
    weight: float,
    gift: bool,
    picture: bytes,
    day: date,
    at: datetime,
    size: Size,
    lines: list[Line],
    to: Address,
    counts: dict[str, int],
    anything: Any,
    note: str = "none",
) -> Receipt:
    return Receipt(number, datetime(2026, 1, 1, tzinfo=UTC))


@app.job(queue="orders")
async def count(n: int) -> int:
    return n


def arguments(number: int) -> dict[str, Any]:
    """What an order is enqueued with."""
    return {
        "number": number,
        "weight": 1.5,
        "gift": True,
        "picture": b"\x00\xff",
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 8, tzinfo=UTC),
        "size": Size.LARGE,
        "lines": [Line("shoe", Decimal("19.99"))],
        "to": Address("Ulm"),
        "counts": {"a": 1},
        "anything": [1, "x", None],
    }
