"""What can only be said at the end: nothing is stuck once faults have ended."""

from dataclasses import dataclass

from tenure.testing.checker.clients import Clients
from tenure.testing.checker.ledger import Body
from tenure.testing.checker.paths import Account
from tenure.testing.checker.violation import Violation


@dataclass(slots=True)
class Healing:
    """What the test told about faults, and the sweeps that came after them."""

    healed: bool = False
    drained: bool = False
    """The test says that workers went on until nothing was left."""
    held_until: int = 0
    swept_at: int | None = None
    """Store time of the last whole sweep after healing."""

    def note(self, verb: str, body: Body) -> None:
        if verb == "heal":
            self.healed = True
        elif verb == "crash":
            self.healed, self.swept_at = False, None
        elif verb == "end":
            self.drained = bool(body.get("drained"))

    def sweep(self, asked: Body, reply: Body) -> None:
        """A sweep was answered; whole if it got the turn, no hold was in force and it didn't reach its limit."""
        if asked["hold"] is not None:
            self.held_until = max(self.held_until, reply["now"] + asked["hold"])
        whole = reply["turn"] and reply["now"] >= self.held_until and reply["counts"]["lost"] < asked["limit"]
        if self.healed and whole:
            self.swept_at = reply["now"]


def check_alive(account: Account, clients: Clients, healing: Healing) -> None:
    """The whole feed is known: every live job can still end."""
    for job in account.live():
        name = f"{job.ref[0]}/{job.ref[1]}"
        if healing.drained:
            raise Violation("H15", f"{name} is {job.state}, workers found nothing more to do")
        if job.state == "blocked" and all(account.jobs[(job.ref[0], parent)].terminal for parent in job.parents):
            raise Violation("H12", f"{name} is blocked, its parents have all ended")
        token = (job.ref, job.lease_seq)
        if job.state != "running" or token in clients.doubtful or healing.swept_at is None:
            continue
        deadline = clients.deadlines.get(token)
        if deadline is not None and healing.swept_at > deadline:
            raise Violation("H15", f"{name} runs past its deadline {deadline}, a sweep at {healing.swept_at} left it")
