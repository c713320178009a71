"""The measured job of Chancy, which finds it by its module's name."""

from bench.worker.board import Marker

mark = Marker()


async def noop(*, sent: int) -> None:
    """Nothing, but that it ran."""
    mark(sent)
