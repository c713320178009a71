"""`tenure report`: one HTML file about what a lake knows."""

import argparse
from typing import TYPE_CHECKING

from tenure.service.cli.arguments import add_command, positive, seconds
from tenure.service.cli.extras import spark_extra
from tenure.service.cli.output import Out

if TYPE_CHECKING:
    from tenure.service.cli.arguments import Commands


def declare(commands: "Commands") -> None:
    parser = add_command(commands, "report", run, "write a report on a lake, as one HTML file")
    parser.add_argument("--lake", required=True, metavar="DIR", help="the lake")
    parser.add_argument("--out", default="tenure-report.html", metavar="FILE", help="where to (default: %(default)s)")
    parser.add_argument("--tenant", help="one tenant's jobs only (default: everyone's)")
    parser.add_argument("--since", metavar="TIME", help="from when, as in 2026-11-02 or 2026-11-02T08:00")
    parser.add_argument("--until", metavar="TIME", help="until when (default: what the lake has)")
    parser.add_argument("--days", type=positive, metavar="N", help="how long a time (default: 7)")
    parser.add_argument(
        "--target-wait",
        type=seconds,
        default=1.0,
        metavar="SECONDS",
        help="the wait for which slots are reckoned (default: 1)",
    )
    parser.add_argument("--tz", default="UTC", metavar="NAME", help="time zone, as in Europe/Berlin (default: UTC)")


def run(args: argparse.Namespace, out: Out) -> int:
    with spark_extra():
        from tenure.spark.report import write_report
    written = write_report(
        args.lake,
        args.out,
        tenant=args.tenant,
        since=args.since,
        until=args.until,
        days=args.days,
        target_wait=args.target_wait,
        tz=args.tz,
    )
    out.line(str(written.resolve()))
    return 0
