"""A store that doesn't answer: one line when that is seen first, and one when it answers again."""

import logging

from tenure.domain.errors import StoreError
from tenure.engine.worker.clock import boottime

log = logging.getLogger("tenure.worker")


class Away:
    """What the loops of a worker know together. Each asks again at its own pace, and says so at DEBUG."""

    def __init__(self) -> None:
        self._since: float | None = None

    def failed(self, what: str, error: StoreError) -> None:
        """The store didn't answer this call."""
        if self._since is None:
            self._since = boottime()
            log.warning("the store didn't answer (%s); all calls are tried again until it does: %s", what, error)
        else:
            log.debug("the store still doesn't answer (%s): %s", what, error)

    def answered(self) -> None:
        """It answered a call that every worker makes again and again."""
        if self._since is not None:
            log.info("the store answers again, after %.1f s", boottime() - self._since)
            self._since = None
