"""The demo: real work of four kinds on this machine's loopback, three tenants, two workers, two kills, and a proof.

`python -m tenure.demo` runs it.

`mail`, `images`, `text`, `webhooks`  the work itself
`jobs`, `app`, `worker`               the work as jobs, and the processes that do it
`sinks`                               who gets the mails and the webhooks
`fleet`, `board`, `view`, `story`     starting and killing workers, counting, showing, in order
`proof`                               what it came to
"""

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the demo and answers its exit code; without arguments, as it comes."""
    from tenure.demo.__main__ import main as run  # workers import this package too, and need none of it

    return run(argv)
