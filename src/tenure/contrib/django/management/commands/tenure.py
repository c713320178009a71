"""`manage.py tenure …`: the `tenure` command with the project's own app."""

import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand

from tenure.service.cli.main import COMMANDS, main

TARGET = "tenure.contrib.django.project:app"

WITHOUT_APP = ("demo", "version")
"""Commands that need no app."""


class Command(BaseCommand):
    """Forwards to the command line of Tenure; exit codes are its own."""

    help = "Run a command of Tenure with this project's app, as in: manage.py tenure worker --concurrency 20"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("command", choices=sorted(COMMANDS), metavar="COMMAND", help=", ".join(COMMANDS))
        parser.add_argument("args", nargs=argparse.REMAINDER, metavar="...", help="what the command takes; try -h")

    def handle(self, *args: str, command: str, **_: Any) -> None:
        code = main(forwarded(command, list(args)))
        if code:
            sys.exit(code)


def forwarded(command: str, rest: list[str]) -> list[str]:
    """The arguments as `tenure` takes them, with the project's app unless another is named."""
    if command in WITHOUT_APP:
        return [command, *rest]
    if command == "worker":
        return [command, TARGET, *rest]
    named = any(word == "--app" or word.startswith("--app=") for word in rest)
    return [command, *rest, *([] if named else ["--app", TARGET])]
