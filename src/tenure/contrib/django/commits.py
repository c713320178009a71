"""Enqueueing once a transaction of Django's has committed: what is rolled back is never enqueued."""

from typing import Any

from django.db import transaction

from tenure.domain.errors import InvalidValue
from tenure.engine.definition import Call


def on_commit(call: Call[Any], *, using: str | None = None, robust: bool = False) -> None:
    """Enqueues a job when the open transaction on database `using` commits; at once if there is none.

    `on_commit(send_email.build(user.email))`. Raises `InvalidValue` here and now for arguments or options that no
    store would take, so that they still roll the transaction back. A store that doesn't take the job after the commit
    raises out of the `atomic` block, or is logged by Django if `robust`. It is for plain code, as transactions are.
    """
    app = call.definition.app
    if call.options.get("connection") is not None:
        raise InvalidValue("on_commit(): a job with connection= goes in with its transaction: call .sync.enqueue(...)")
    call.new_job(app, call.options.get("tenant", app.tenant_name))  # made to be checked, and forgotten
    transaction.on_commit(lambda: app.sync.enqueue(call), using=using, robust=robust)
