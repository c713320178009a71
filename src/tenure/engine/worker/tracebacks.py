"""The exception that ended an attempt as the store keeps it: its class path, its message, and its traceback as text.

The text is Python's own, without values of local variables. It begins where the handler does: the worker's frames above
it are left out.
"""

import os
import traceback
from pathlib import Path
from types import TracebackType

from msgspec.structs import replace

from tenure.domain.calls import Fail, Outcome, Retry
from tenure.domain.job import Traceback
from tenure.engine.signals import text_of

OURS = f"{Path(__file__).parent}{os.sep}"
"""Where the worker's code lies; a child process runs some of it as `__main__`."""


class Elsewhere(Exception):
    """Stands as the cause of what a handler raised in its process: what it raised there, as text."""

    def __init__(self, raised: Traceback) -> None:
        super().__init__(raised.text)
        self.raised = raised


def with_traceback(outcome: Outcome | None, error: BaseException) -> Outcome | None:
    """A failed attempt's outcome, with what the handler raised; any other as it is."""
    return replace(outcome, traceback=traceback_of(error)) if isinstance(outcome, Retry | Fail) else outcome


def traceback_of(error: BaseException) -> Traceback:
    """An exception as it is kept. Never raises, whatever the exception does when it is shown."""
    try:
        if isinstance(error.__cause__, Elsewhere):
            return error.__cause__.raised
        text = "".join(traceback.format_exception(type(error), error, _from_handler(error.__traceback__)))
    except Exception:
        text = ""
    return Traceback.clip(class_path(error), text_of(error), text)


def class_path(error: BaseException) -> str:
    """Where an exception's class is found: `shop.errors.Declined`; of Python's own the name alone."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _from_handler(raised: TracebackType | None) -> TracebackType | None:
    """The frames below the last one of the worker's; all of them if there are none below."""
    first = frame = raised
    while frame is not None:
        ours = frame.tb_frame.f_code.co_filename.startswith(OURS)
        frame = frame.tb_next
        first = frame if ours else first
    return first or raised
