"""One worker of the demo, a supervisor and its child: `python -m tenure.demo.worker NAME`.

Its standard input comes from the demo and never says anything. When it ends, so has the demo, and this stops.
"""

import asyncio
import sys

from tenure.demo.places import register_scheme
from tenure.engine.worker.supervisor.child import ChildOptions
from tenure.engine.worker.supervisor.supervisor import Supervisor

CONCURRENCY = 6
LEASE_SECONDS = 3.0
GRACE_SECONDS = 0.5


def main() -> int:
    register_scheme()
    options = ChildOptions(
        target="tenure.demo.app:app",
        name=sys.argv[1],
        slots=4 * CONCURRENCY,
        concurrency=CONCURRENCY,
        lease=LEASE_SECONDS,
        grace=GRACE_SECONDS,
        shutdown_grace=1.0,
        log_level="warning",
    )
    return asyncio.run(_run(options))


async def _run(options: ChildOptions) -> int:
    loop, supervisor = asyncio.get_running_loop(), Supervisor(options)

    def left_alone() -> None:
        loop.remove_reader(sys.stdin)
        supervisor.stop()

    loop.add_reader(sys.stdin, left_alone)
    return await supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
