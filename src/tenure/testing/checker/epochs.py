"""Key epochs under any interleaving: by the feed, a key is never held by two jobs at once."""

from tenure.testing.checker.ledger import Body
from tenure.testing.checker.paths import Account, Told
from tenure.testing.checker.violation import Violation


class KeyEpochs:
    """Who held which key last, in the order of each tenant's feed."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._held: dict[tuple[str, str, str, str], tuple[Told, Body, int]] = {}

    def enqueued(self, job: Told, spec: Body | None) -> None:
        """A job was created. `spec` is what its producer asked for, where that is known."""
        if job.key_hash is None:
            return
        key = (job.ref[0], job.queue, job.job_type, job.key_hash)
        before = self._held.get(key)
        if before is not None:
            self._check_free(job, *before)
        self._held[key] = (job, spec or {}, self._account.purges)

    def _check_free(self, job: Told, holder: Told, spec: Body, purges: int) -> None:
        unique = spec.get("unique", "active")
        gone = self._account.purges > purges and holder.terminal
        if not holder.terminal:
            held = "hasn't ended"
        elif unique == "window" and holder.state == "succeeded" and self._in_window(job, holder, spec):
            held = "holds it for a while after its success"
        elif unique == "retained" and not gone and job.replay_of != holder.ref[1]:
            held = "holds it until it is purged"
        else:
            return
        raise Violation("H9", f"{job.ref[0]}/{job.ref[1]} took a key that {holder.ref[1]} {held}")

    @staticmethod
    def _in_window(job: Told, holder: Told, spec: Body) -> bool:
        return job.at < (holder.finished_at or 0) + (spec.get("unique_for") or 0)
