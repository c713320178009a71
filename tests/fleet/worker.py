"""One worker of a fleet: `python -m tests.fleet.worker NAME PROCESSES LEASE`."""

import asyncio
import logging
import os
import sys

from tenure.engine.worker.supervisor.child import ChildOptions
from tenure.engine.worker.supervisor.supervisor import Supervisor
from tests.fleet import app as _registers_the_scheme  # noqa: F401


def main() -> int:
    name, processes, lease = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    os.environ["FLEET_NAME"] = name
    logging.basicConfig(level="ERROR")
    options = ChildOptions(
        target="tests.fleet.app:app",
        name=name,
        slots=200,
        concurrency=20,
        lease=lease,
        grace=lease,
        shutdown_grace=5.0,
        log_level="error",
    )
    return asyncio.run(_run(options, processes))


async def _run(options: ChildOptions, processes: int) -> int:
    return await Supervisor(options, processes).run()


if __name__ == "__main__":
    sys.exit(main())
