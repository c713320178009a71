"""What several commands take: where the store is, whose jobs, which jobs; and how it is read."""

import argparse
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tenure.domain.errors import InvalidValue
from tenure.domain.states import State
from tenure.engine import durations
from tenure.engine.dead_letters import LetterWhere
from tenure.engine.filters import Where
from tenure.service.cli.output import Out

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

Run = Callable[[argparse.Namespace, Out], int]

DEFAULT_TENANT = "default"


def add_command(commands: "Commands", name: str, run: Run, help: str) -> argparse.ArgumentParser:
    """A command; its options are added by the caller."""
    parser = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.", allow_abbrev=False)
    parser.set_defaults(run=run)
    parser.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show where an error came from")
    return parser


def add_group(commands: "Commands", name: str, help: str) -> "Commands":
    """A command with actions of its own."""
    group = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.", allow_abbrev=False)
    return group.add_subparsers(metavar="ACTION", required=True)


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_store(parser: argparse.ArgumentParser) -> None:
    """Where the store is."""
    group = parser.add_argument_group("store")
    group.add_argument("--url", help="where the store is; else TENURE_URL, else the app's own")
    group.add_argument("--app", metavar="MODULE:APP", help="the app whose store and job types are meant")
    add_json(parser)


def add_tenant(parser: argparse.ArgumentParser) -> None:
    """Whose jobs: one tenant's."""
    parser.add_argument("--tenant", default=DEFAULT_TENANT, help="whose (default: %(default)s)")


def add_tenants(parser: argparse.ArgumentParser) -> None:
    """Whose jobs: one tenant's, or everyone's."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--tenant", default=DEFAULT_TENANT, help="whose (default: %(default)s)")
    group.add_argument("--all-tenants", action="store_true", help="everyone's")


def add_filter(parser: argparse.ArgumentParser, *, states: tuple[State, ...] = ()) -> None:
    """Which jobs."""
    group = parser.add_argument_group("which jobs")
    if states:
        known = ", ".join(states)
        group.add_argument("--state", type=some_states(states), metavar="STATE[,…]", help=f"any of {known}")
    group.add_argument("--queue")
    group.add_argument("--type", dest="job_type")
    group.add_argument(
        "--label", dest="labels", action="append", type=pair, metavar="NAME=VALUE", help="may be given again"
    )


def add_many(parser: argparse.ArgumentParser, *, states: tuple[State, ...] = ()) -> None:
    """What commands take that do something to one job, or to many."""
    parser.add_argument("id", nargs="?", metavar="ID", help="one job; else say which ones with a filter")
    add_filter(parser, states=states)
    parser.add_argument("--all", action="store_true", help="every one of the tenant's")
    parser.add_argument("--dry-run", action="store_true", help="only say how many there are")
    parser.add_argument("--yes", action="store_true", help="don't ask")


def where_of(args: argparse.Namespace) -> Where:
    """The filter that was given."""
    where = cast(Where, letters_of(args))
    if args.state:
        where["state"] = args.state
    return where


def letters_of(args: argparse.Namespace) -> LetterWhere:
    """The same for dead letters."""
    where = LetterWhere()
    if args.queue is not None:
        where["queue"] = args.queue
    if args.job_type is not None:
        where["job_type"] = args.job_type
    if args.labels:
        where["labels"] = dict(args.labels)
    return where


def one_of_many(args: argparse.Namespace, where: Mapping[str, Any], *, of_many: tuple[str, ...] = ()) -> bool:
    """Whether one job is meant, not many. Refuses both at once, and neither."""
    many = bool(where) or args.all
    if args.id is None and not many:
        raise InvalidValue("which jobs? give an ID, a filter such as --queue, or --all")
    if args.id is not None:
        given = ["a filter"] * many + [f"--{name.replace('_', '-')}" for name in of_many if getattr(args, name)]
        if given:
            raise InvalidValue(f"{given[0]} is for many jobs: leave it out, or the ID")
    return args.id is not None


# Types of single values


def pair(text: str) -> tuple[str, str]:
    """`name=value`."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: give NAME=VALUE")
    return name, value


def argument(text: str) -> tuple[str, Any]:
    """`name=value`, the value read as JSON where it is JSON, else as text."""
    name, value = pair(text)
    try:
        return name, msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return name, value


def json_object(text: str) -> dict[str, Any]:
    """A JSON object: arguments by name."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text!r:.80} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r:.80}: give an object, the arguments by name")
    return value


def seconds(text: str) -> float:
    """A duration."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of seconds")
    return value


def positive(text: str) -> int:
    """A count."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000_000_000):
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number, 1 or more")
    return int(text)


def rate(text: str) -> str:
    """`50/s`."""
    try:
        durations.rate("rate", text)
    except InvalidValue as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def names(text: str) -> list[str]:
    """`a,b,c`."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r}: give names with commas between them")
    return found


def some_states(allowed: tuple[State, ...]) -> Callable[[str], list[State]]:
    """Reads `failed,cancelled`."""

    def read(text: str) -> list[State]:
        asked = names(text)
        unknown = [name for name in asked if name not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r}: give any of {', '.join(allowed)}")
        return [State(name) for name in asked]

    return read
