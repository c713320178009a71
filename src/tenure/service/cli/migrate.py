"""`tenure migrate`."""

import argparse
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tenure.domain.errors import Unsupported
from tenure.service.cli.arguments import add_command, add_store
from tenure.service.cli.output import Out
from tenure.service.cli.target import Target, opened, shown_url

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands


@runtime_checkable
class Secured(Protocol):
    """A store whose rows can be kept from whom they don't concern."""

    has_row_security: bool

    async def migrate(self, *, row_security: bool = False) -> int: ...


def declare(commands: "Commands") -> None:
    parser = add_command(commands, "migrate", run, "create the store, or bring it to this version's schema")
    parser.add_argument(
        "--row-security",
        action="store_true",
        help="PostgreSQL: policies for the roles tenure_fleet, which sees everything, and tenure_tenant",
    )
    add_store(parser)


def run(args: argparse.Namespace, out: Out) -> int:
    with opened(args, out, creates=True) as target:
        version = target.run(migrated(target, args.row_security))
        url = shown_url(target.app.url)
    if out.json:
        out.document({"schema": version, "url": url})
    else:
        out.line(f"schema {version} at {url}")
    return 0


async def migrated(target: Target, row_security: bool) -> int:
    store = await target.store()
    if not row_security:
        return await store.migrate()
    if not isinstance(store, Secured):
        raise Unsupported(f"--row-security: a {store.capabilities.name} store has none; it is PostgreSQL's")
    return await store.migrate(row_security=True)
