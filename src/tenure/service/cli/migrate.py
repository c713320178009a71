"""`tenure migrate`."""

import argparse
from typing import TYPE_CHECKING

from tenure.service.cli.arguments import add_command, add_store
from tenure.service.cli.output import Out
from tenure.service.cli.target import Target, opened, shown_url

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands


def declare(commands: "Commands") -> None:
    add_store(add_command(commands, "migrate", run, "create the store, or bring it to this version's schema"))


def run(args: argparse.Namespace, out: Out) -> int:
    with opened(args, out, creates=True) as target:
        version = target.run(migrated(target))
        url = shown_url(target.app.url)
    if out.json:
        out.document({"schema": version, "url": url})
    else:
        out.line(f"schema {version} at {url}")
    return 0


async def migrated(target: Target) -> int:
    store = await target.store()
    return await store.migrate()
