"""Freeze, thaw, load, and what a call without an answer may have done."""

from collections.abc import Iterator

from tenure.testing.checker.ledger import Body, Ledger, demand, refusal
from tenure.testing.checker.violation import Violation


def freeze(ledger: Ledger, asked: Body, reply: Body | None) -> None:
    demand("H2", reply, {"type": "Epoch"}, what="freeze")
    ledger.frozen = True
    ledger.may_have_written()


def thaw(ledger: Ledger, asked: Body, reply: Body | None) -> None:
    """The freeze ends and the epoch grows by one."""
    if not ledger.frozen:
        demand("H2", reply, refusal("NotFrozen"), what="thaw")
        return
    demand("H2", reply, {"type": "Epoch"}, what="thaw")
    ledger.frozen = False
    ledger.may_have_written()
    epoch = None if reply is None else reply["epoch"]
    if epoch is not None and ledger.epoch is not None:
        wrong = epoch <= ledger.epoch if ledger.transferred else epoch != ledger.epoch + 1
        if wrong:
            raise Violation("H3", f"thaw of epoch {ledger.epoch} answers {epoch}")
    ledger.epoch = epoch
    ledger.transferred = False


def needs_freeze(ledger: Ledger, asked: Body, reply: Body | None) -> None:
    """Dump and load are for frozen stores."""
    refused = None if reply is None else reply.get("refused")
    if not ledger.frozen and refused != "NotFrozen":
        raise Violation("H2", "a store that isn't frozen was dumped or loaded")
    if ledger.frozen and refused == "NotFrozen":
        raise Violation("H2", "a frozen store says that it isn't")


def after_load(ledger: Ledger) -> Iterator[Ledger]:
    """What a transferred store may know: rotation, rates, turns and drained slots aren't promised to travel."""
    ledger.transferred = True
    for keep_rest, keep_slots in ((True, True), (False, True), (False, False)):
        twin = ledger.copy()
        twin.mark_maybe, twin.mark = max(twin.mark, twin.mark_maybe), 0
        if not keep_rest:
            twin.positions, twin.tats, twin.last_turn, twin.hold_until = {}, {}, None, None
        if not keep_slots:
            twin.slots = {}
        yield twin


_ITEMS = {"enqueue": "jobs", "settle": "settlements", "renew": "renewals", "command": "commands"}


def prefixes(verb: str, asked: Body) -> Iterator[Body]:
    """What a call that was cut short may have done: its items up to any of them, all of them first."""
    name = _ITEMS.get(verb)
    if name is None or asked.get("atomic"):
        yield asked
        return
    for length in range(len(asked[name]), 0, -1):
        yield {**asked, name: asked[name][:length]}
