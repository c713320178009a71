"""Where a store's tables are, and what its connections in this process know together."""

import re

from tenure.domain.errors import StoreCorrupt
from tenure.domain.job import Job, Ref, Spec
from tenure.domain.names import Ms
from tenure.stores.forms import EnqueueForms
from tenure.stores.sql import statements
from tenure.stores.sql.postgres.frontier import PATIENCE, Border, Frontiers
from tenure.stores.ways import Ways

KEPT_QUEUES = 1_000
_PART = re.compile(r"/\* (\w+) \*/ (.*?)/\* end \*/ ", re.DOTALL)


class Overtaken(Exception):
    """Somebody else moved what this transaction has read: it must begin again."""


class Held(Overtaken):
    """Somebody else holds what this transaction needs, and it has waited for as long as it may."""


class Severed(Exception):
    """The connection broke. What was on its way happened or not; if it wasn't committing, it did not."""

    def __init__(self, committing: bool) -> None:
        super().__init__()
        self.committing = committing


class Unreadable(StoreCorrupt):
    """A record that can't be read, or isn't there."""

    def __init__(self, seq: int, error: Exception) -> None:
        super().__init__(f"the record with seq {seq} can't be read ({error})")
        self.seq = seq


class Place:
    """A schema, its statements, and what was seen there."""

    def __init__(self, schema: str, slack: Ms, patience: int | None = PATIENCE, ways: Ways | None = None) -> None:
        self.ways = Ways() if ways is None else ways
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
        self.forms = EnqueueForms()
        self.lone: dict[str, str] = {}
        """Queue → the only tenant that had jobs there when this process last claimed: its line is read ahead."""
        self.falls_short = False
        """Whether the last claim from a lone line found fewer jobs than it wanted: it asks when more are due."""
        self.few = False
        """Whether it found a few plain jobs: the next may take as many by one statement (`claim_direct.claim_few`)."""
        self._few_after = 0
        self.frontiers = Frontiers(patience)
        self.borders: dict[str, Border] = {}
        """From where on `inbox` and `claimed` must be read."""

    def keep_lone(self, queue: str, tenant: str | None) -> None:
        if tenant is None:
            self.lone.pop(queue, None)
        elif len(self.lone) < KEPT_QUEUES or queue in self.lone:
            self.lone[queue] = tenant

    def expect_few(self, few: bool) -> None:
        """What a claim by the usual way found."""
        self._few_after = max(0, self._few_after - 1)
        self.few = few and not self._few_after

    def expect_many(self, claims: int) -> None:
        """So many claims will go the usual way: one statement wouldn't do."""
        self.few, self._few_after = False, claims

    def part(self, name: str, parts: frozenset[str]) -> str:
        """A statement with only some of its optional parts."""
        text = self.partial.get((name, parts))
        if text is None:
            text = self.partial[name, parts] = _PART.sub(
                lambda part: part[2] if part[1] in parts else "", self.sql[name].text
            )
        return text
