"""Results: kept apart from records, by expiry, as long as a key's window and as long as a child may want them."""

from typing import Any

from tenure.testing.checker.ledger import Body, Ledger, Outcome, Row, brief
from tenure.testing.checker.violation import Violation


def keep(ledger: Ledger, row: Row, outcome: Body) -> None:
    """A success gave a result; it lives from the end of the job."""
    if outcome["result"] is None:
        return
    span = row.result_ttl
    if row.unique == "window":
        span = max(span, row.unique_for or 0)
    ledger.results[row.ref] = Outcome(outcome["result"], outcome["codec"], ledger.now + span)


def shown_result(ledger: Ledger, row: Row) -> Any:
    """The result a reader must see now: its fields, None, or `...` where the contract doesn't say."""
    result = ledger.results.get(row.ref)
    if result is None:
        return None
    if ledger.now >= result.expires_at:
        if not ledger.children.get(row.ref):
            return None
        if not result.sure:
            return ...
    return {"body": result.body, "codec": result.codec, "expires_at": result.expires_at}


def check_shown(ledger: Ledger, row: Row, shown: Body | None) -> None:
    """A reader was shown this result."""
    wanted = shown_result(ledger, row)
    if wanted is ... or wanted == _bare(shown):
        return
    told = "no result" if shown is None else brief(shown)
    due = "none" if wanted is None else brief(wanted)
    raise Violation("H13", f"{row.tenant}/{row.id} at {ledger.now}: shown {told}, must show {due}")


def _bare(shown: Body | None) -> Body | None:
    """A result without its type's name."""
    return None if shown is None else {name: value for name, value in shown.items() if name != "type"}
