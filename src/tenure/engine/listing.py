"""Jobs that match, as users get them: one by one, by the batch, or all at once."""

from collections.abc import AsyncIterator, Generator, Mapping
from typing import TYPE_CHECKING, Any

from tenure.engine.handle import Job

if TYPE_CHECKING:
    from tenure.engine.surface import Surface


class Listing:
    """Jobs that match, read page by page as they are asked for."""

    def __init__(self, surface: "Surface", where: Mapping[str, Any], limit: int | None) -> None:
        self._surface = surface
        self._where = where
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[Job]:
        async for batch in self.batches():
            for job in batch:
                yield job

    async def batches(self) -> AsyncIterator[list[Job]]:
        """Jobs as they are read, many at once."""
        async for page in self._surface.pages(self._where, self._limit):
            yield [self._surface._job_of(view) for view in page]

    def __await__(self) -> Generator[Any, None, list[Job]]:
        return self._list().__await__()

    async def _list(self) -> list[Job]:
        return [job async for job in self]
