"""The process that keeps a snapshot of a store: `python -m tenure.stores.sql.postgres.keeper ORDER`, the URL as input.

One connection holds the transaction whose snapshot was exported; another hears of those who have read. Whoever looks at
the server's activity finds both by their name, with the process that has them.
"""

import os
import socket
import sys
import time
from contextlib import closing, suppress
from typing import Any

import msgspec
import psycopg
from psycopg import Connection

from tenure.domain.errors import TenureError
from tenure.stores.sql.keepers import Refusal, detach, ended_within, say
from tenure.stores.sql.postgres.connection import Server, translated
from tenure.stores.sql.postgres.migrate import check
from tenure.stores.sql.postgres.shared import Handle, Order
from tenure.stores.sql.postgres.snapshot import BEGIN, PATIENT, ViewTables

NAME = "tenure view, kept by process"
_EXPORT = "SELECT pg_export_snapshot(), floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


def main(text: str) -> None:
    """Exports a snapshot, says which, and stays."""
    order, server = msgspec.json.decode(text, type=Order), Server(sys.stdin.read())
    detach()
    try:
        with closing(server.connect()) as view, closing(server.connect()) as hearing:
            with translated(server):
                for connection in (view, hearing):
                    name_it(connection)
                handle = export(server, view, order)
                hearing.execute(f"LISTEN {order.channel}".encode())
            say(handle)
            with suppress(psycopg.Error):  # the server ended one of them: nothing is kept any more
                keep(view, hearing, order)
    except TenureError as error:
        say(Refusal(type(error).__name__, str(error)))


def name_it(connection: "Connection[Any]") -> None:
    name = f"{NAME} {os.getpid()} on {socket.gethostname()}"
    connection.execute("SELECT set_config('application_name', $1, false)", (name[:63],))


def export(server: Server, view: "Connection[Any]", order: Order) -> Handle:
    """Begins the transaction that holds the view."""
    check(view, server)
    ViewTables(view, server).number_events()
    view.execute(BEGIN)
    view.execute(PATIENT)
    found = view.execute(_EXPORT).fetchone()
    if found is None:
        raise AssertionError("a server that exports nothing, and no error")
    return Handle(found[0], order.channel, found[1] if order.at is None else order.at, order.seconds)


def keep(view: "Connection[Any]", hearing: "Connection[Any]", order: Order) -> None:
    """Returns when the view is to go: its time is over and nobody reads it. Those who come after that find it gone."""
    until = time.monotonic() + order.seconds
    while not ended_within(order.owner, max(0, until - time.monotonic()), [view.fileno(), hearing.fileno()]):
        view.execute("SELECT 1")  # fails when the server has ended it
        if list(hearing.notifies(timeout=0)):
            until = time.monotonic() + order.seconds
        elif time.monotonic() >= until:
            if alone(hearing, order):
                return
            until = time.monotonic() + order.seconds  # whoever reads tells when it is done


def alone(hearing: "Connection[Any]", order: Order) -> bool:
    """Whether nobody reads; from then on nobody can."""
    lock = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"
    return hearing.execute(lock, (order.channel,)).fetchone() == (True,)


if __name__ == "__main__":
    main(sys.argv[1])
