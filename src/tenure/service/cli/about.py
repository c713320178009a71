"""`tenure demo` and `tenure version`."""

import argparse
import platform
import sqlite3
from typing import TYPE_CHECKING

import tenure
from tenure.service.cli.arguments import add_command, add_json
from tenure.service.cli.output import Out

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands

OWN_OPTIONS = ("demo",)
"""Commands that read what follows them themselves."""


def declare(commands: "Commands") -> None:
    add_command(commands, "demo", demo, "watch jobs flow through a store, a worker killed on the way")
    parser = add_command(commands, "version", version, "print the version")
    add_json(parser)


def demo(args: argparse.Namespace, out: Out) -> int:
    from tenure.demo import main

    return main(args.rest)


def version(args: argparse.Namespace, out: Out) -> int:
    found = {"tenure": tenure.__version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    if out.json:
        out.document(found)
    else:
        out.line(f"tenure {found['tenure']} (Python {found['python']}, SQLite {found['sqlite']})")
    return 0
