"""Where a store's tables are, and what its connections in this process know together."""

from tenure.domain.job import Job, Ref, Spec
from tenure.domain.names import Ms
from tenure.stores.sql import statements


class Overtaken(Exception):
    """Somebody else moved what this transaction has read: it must begin again."""


class Severed(Exception):
    """The connection broke. What was on its way happened or not; if it wasn't committing, it did not."""

    def __init__(self, committing: bool) -> None:
        super().__init__()
        self.committing = committing


class Place:
    """A schema, its statements, and what was seen there."""

    def __init__(self, schema: str, slack: Ms) -> None:
        self.schema = f'"{schema}"'
        self.sql = statements.load(__package__ or "", statements.postgres(self.schema))
        self.partial: dict[tuple[str, frozenset[str]], str] = {}
        """Statements without the parts that some call doesn't need."""
        self.slack = slack
        """By how much the times of transactions that overlap may differ."""
        self.promoted: Ms = 0
        """Jobs with run_at up to here may stand in `ready`."""
        self.running: dict[Ref, Job] = {}
        """Jobs that this process saw to run. Whoever settles one finds out whether it still does."""
        self.specs: dict[int, Spec] = {}
