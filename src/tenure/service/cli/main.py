"""The `tenure` command: what can be asked for, and how it ends.

Exit codes: 0 done, 1 failed or not found, 2 wrong usage, 3 the store is unavailable, 130 interrupted.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from tenure.domain.errors import InvalidValue, NotReady, OutcomeUnknown, StoreError, TenureError, Unsupported
from tenure.service.cli.output import Out
from tenure.service.cli.target import URL, hidden

FAILED, MISUSED, UNAVAILABLE, INTERRUPTED = 1, 2, 3, 130

COMMANDS = {
    "worker": "worker",
    "enqueue": "enqueue",
    "jobs": "jobs",
    "cancel": "cancel",
    "replay": "replay",
    "dead-letters": "dead_letters",
    "queues": "queues",
    "schedules": "schedules",
    "workers": "workers",
    "top": "top",
    "lake": "lake",
    "report": "report",
    "migrate": "migrate",
    "doctor": "doctor",
    "demo": "about",
    "version": "about",
}
"""Every command, and the module that has it."""


def main(argv: list[str] | None = None) -> int:
    """Runs one command and answers its exit code."""
    try:
        args = parsed(sys.argv[1:] if argv is None else argv)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    out = Out(json=getattr(args, "json", False))
    try:
        code: int = args.run(args, out)
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _give_up_stdout()
        return FAILED
    except TenureError as error:
        url = getattr(args, "url", None)
        if args.debug:
            sys.stderr.write(kept_secret(traceback.format_exc(), url))
        out.say(kept_secret(said(error), url))
        return code_of(error)


def parsed(argv: list[str]) -> argparse.Namespace:
    """What was asked for. Only the module of the command is imported: starting is most of what a command costs."""
    if not argv:
        argv = ["--help"]
    at = next((index for index, word in enumerate(argv) if not word.startswith("-")), None)
    command = None if at is None else argv[at]
    asked = [COMMANDS[command]] if command in COMMANDS else dict.fromkeys(COMMANDS.values())
    modules = [import_module(f"tenure.service.cli.{name}") for name in asked]
    if at is None or command not in COMMANDS:
        return parser(modules).parse_args(argv)
    if command in getattr(modules[0], "OWN_OPTIONS", ()):
        rest = argv[at + 1 :]
        return parser(modules).parse_args(argv[: at + 1], argparse.Namespace(rest=rest))
    return parser(modules).parse_args(with_action(argv, at, getattr(modules[0], "ACTIONS", ())))


def parser(modules: Iterable[Any]) -> argparse.ArgumentParser:
    """The commands of these modules."""
    top_level = argparse.ArgumentParser(
        prog="tenure", description="A job queue: leases, tenants, one semantics on every store.", allow_abbrev=False
    )
    top_level.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = top_level.add_subparsers(metavar="COMMAND", required=True)
    for module in modules:
        module.declare(commands)
    return top_level


def with_action(argv: list[str], at: int, actions: tuple[str, ...]) -> list[str]:
    """The arguments with the action that is meant: `tenure queues` is `tenure queues list`."""
    following = argv[at + 1] if len(argv) > at + 1 else ""
    named = following and not following.startswith("-")
    if not actions or named or following in ("-h", "--help"):
        return argv
    return [*argv[: at + 1], actions[0], *argv[at + 1 :]]


def said(error: TenureError) -> str:
    """An error in one line."""
    if not isinstance(error, OutcomeUnknown):
        return str(error)
    jobs = f" (jobs {', '.join(error.ids)})" if error.ids else ""
    return f"the store didn't answer: nobody knows whether it was done{jobs}; look before you ask again"


def kept_secret(text: str, url: str | None) -> str:
    """A text without the secrets of the store's URL, wherever that came from."""
    return hidden(hidden(text, url), os.environ.get(URL))


def code_of(error: TenureError) -> int:
    match error:
        case InvalidValue() | NotReady() | Unsupported():
            return MISUSED
        case StoreError():
            return UNAVAILABLE
    return FAILED


def _give_up_stdout() -> None:
    """Whoever read our output is gone: nothing more is written, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
