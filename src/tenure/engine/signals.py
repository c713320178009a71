"""What a handler raises to say how its attempt ended. Any other exception is an error that may be retried."""

from tenure.engine.durations import Seconds


class Signal(Exception):
    """An ending that the handler chose."""

    family: str | None = None
    """What it is called, if not by its type: one that comes from another process."""


class Fail(Signal):
    """The job can't succeed, however often it is tried: it gets a dead letter at once."""

    reason = "permanent"

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


class InvalidResult(Fail):
    """What the handler returned can't be kept."""

    reason = "invalid_result"


class Retry(Signal):
    """Try again `after` so many seconds, whatever the job's policy says; without it, as the policy says."""

    def __init__(self, message: str = "", *, after: Seconds | None = None) -> None:
        super().__init__(message)
        self.after = after


class Snooze(Signal):
    """Not now: come back `after` so many seconds. It costs no attempt; after 100 times the job fails."""

    def __init__(self, message: str = "", *, after: Seconds) -> None:
        super().__init__(message)
        self.after = after


class Stopped(BaseException):
    """Raised by `ctx.check_cancelled()` when the handler should end. Don't catch it."""


def text_of(error: BaseException) -> str:
    """An error's own words, if it has any."""
    try:
        return str(error)
    except Exception:
        return "(it can't be shown)"
