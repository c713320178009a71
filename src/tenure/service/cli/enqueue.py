"""`tenure enqueue`."""

import argparse
import difflib
from typing import TYPE_CHECKING, Any

from tenure.domain.errors import InvalidValue, ResultGone, TenureError
from tenure.engine.handle import Handle
from tenure.engine.options import Options, Priority
from tenure.service.cli.arguments import add_command, add_store, add_tenant, argument, json_object, pair, seconds
from tenure.service.cli.output import Out, to_json
from tenure.service.cli.target import Target, opened

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands


def declare(commands: "Commands") -> None:
    parser = add_command(commands, "enqueue", run, "put a job into its queue and print its id")
    parser.add_argument("job_type", metavar="TYPE", help="the job type's name")
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--payload", type=json_object, metavar="JSON", help="the arguments, as a JSON object")
    given.add_argument(
        "--arg",
        dest="arguments",
        action="append",
        type=argument,
        metavar="NAME=VALUE",
        help="one argument, its value JSON or else text; may be given again",
    )
    _add_options(parser)
    parser.add_argument("--wait", type=seconds, metavar="SECONDS", help="wait so long for the result, and print it")
    add_tenant(parser)
    add_store(parser)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue", help="default: the job type's own queue with --app, else 'default'")
    parser.add_argument("--priority", type=priority, help="-100 to 100, or lowest, low, normal, high, highest")
    parser.add_argument("--delay", type=seconds, metavar="SECONDS", help="run no earlier than so long from now")
    parser.add_argument("--key", help="what must not be queued twice")
    parser.add_argument("--group", help="what must not run together")
    parser.add_argument(
        "--label", dest="labels", action="append", type=pair, metavar="NAME=VALUE", help="may be given again"
    )


def priority(text: str) -> int:
    """A number, or the name of one."""
    if text.upper() in Priority.__members__:
        return Priority[text.upper()]
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give -100 to 100, or {', '.join(Priority.__members__)}") from None


def run(args: argparse.Namespace, out: Out) -> int:
    with opened(args, out, creates=True) as target:
        handle = target.run(sent(target, args))
        if not handle.created:
            out.say("the key is taken: this is the job that holds it")
        if out.json:
            told(target, out, handle, args.wait)
            return 0
        out.line(handle.id)
        if args.wait is not None:
            out.line(to_json(target.run(result_of(handle, args.wait))).decode())
    return 0


def told(target: Target, out: Out, handle: Handle[Any], wait: float | None) -> None:
    """One document, whatever comes of the waiting: whoever asked needs the id."""
    document: dict[str, Any] = {"id": handle.id, "created": handle.created}
    try:
        if wait is not None:
            document["result"] = target.run(result_of(handle, wait))
    except TenureError as error:
        document["error"] = str(error)
        raise
    finally:
        out.document(document)


async def sent(target: Target, args: argparse.Namespace) -> Handle[Any]:
    if args.app is not None:
        check_type(target, args.app, args.job_type)
    return await target.surface.send(args.job_type, payload_of(args), **options_of(args))


def check_type(target: Target, app: str, job_type: str) -> None:
    """Refuses a type that the app doesn't have: whoever names an app wants its jobs checked."""
    known = sorted(target.app.definitions)
    if job_type in known:
        return
    close = difflib.get_close_matches(job_type, known)
    advice = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(known) or 'none'}"
    raise InvalidValue(f"{app} has no job type {job_type!r:.80}: {advice} Without --app any type is taken")


def payload_of(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments by name."""
    given: list[tuple[str, Any]] = args.arguments or []
    arguments = dict(given)
    if len(arguments) != len(given):
        raise InvalidValue("--arg: the same argument is given twice")
    return arguments if args.payload is None else dict(args.payload)


def options_of(args: argparse.Namespace) -> Options:
    """What was given besides the arguments."""
    options = Options()
    if args.queue is not None:
        options["queue"] = args.queue
    if args.priority is not None:
        options["priority"] = args.priority
    if args.delay is not None:
        options["delay"] = args.delay
    if args.key is not None:
        options["key"] = args.key
    if args.group is not None:
        options["group"] = args.group
    if args.labels:
        options["labels"] = dict(args.labels)
    return options


async def result_of(handle: Handle[Any], timeout: float) -> Any:
    """The result; None of a job that succeeded and left none."""
    try:
        return await handle.result(timeout=timeout)
    except ResultGone:
        return None
