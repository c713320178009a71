"""What is plain: calls that change nothing but the job that they name, so that many of them can be answered at once.

Everything else goes by the model, one job after the other. Stores with shorter ways ask here which they may take.
"""

from tenure.domain.config import QueueRules
from tenure.domain.job import NewJob
from tenure.domain.states import Mode


def fits_mode(rules: QueueRules, group: str | None) -> bool:
    """Whether a queue takes jobs of such a group: in a keyed queue each has one, elsewhere none."""
    return (rules.mode is Mode.KEYED) == (group is not None)


def enqueues_plainly(new: NewJob, rules: QueueRules) -> bool:
    """Whether a new job is accepted without a look at other jobs, unless its id or key is known."""
    return not new.parents and rules.max_depth is None and fits_mode(rules, new.group)
