"""Processes that keep a view of a store for others: how one is started, what it answers, and whose end it waits for.

A keeper says in one line what its readers need, or why there is nothing to read, closes its output and stays. It ends
with its owner, and when it is told to (SIGTERM).
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

import msgspec

from tenure.domain import errors
from tenure.domain.errors import StoreError, StoreUnavailable

AGAIN_SECONDS = 1.0
"""Where nobody tells that a process has ended, it is looked at so often."""


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """Why a keeper keeps nothing."""

    error: str
    """The name of one of Tenure's errors."""
    message: str


def start(module: str, order: msgspec.Struct, handle: type[msgspec.Struct], about: str, secret: str = "") -> str:
    """Starts a keeper and waits for its handle. What keeps it from keeping is raised here.

    Everybody on the machine can read the order; the secret comes by its input.
    """
    done = subprocess.run(  # noqa: S603 this very Python
        [sys.executable, "-m", module, msgspec.json.encode(order).decode()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
        input=secret.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    answer = done.stdout.decode(errors="replace").strip()
    try:
        said = msgspec.json.decode(answer, type=handle | Refusal)
    except msgspec.MsgspecError:
        raise StoreUnavailable(f"{about}: no view of it could be kept: {answer[-500:]}") from None
    if isinstance(said, Refusal):
        kind = getattr(errors, said.error, StoreError)
        raise kind(said.message)
    return answer


def detach() -> None:
    """At once, so that whoever started the keeper has no child to wait for."""
    if os.fork():
        os._exit(0)
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())


def say(answer: msgspec.Struct) -> None:
    """One line, then nothing more: whoever waits for it reads to the end."""
    sys.stdout.write(msgspec.json.encode(answer).decode())
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def ended_within(process: int, seconds: float, watched: Sequence[int] = ()) -> bool:
    """Whether a process has ended, or does so in that time. It may be earlier that a watched file has something."""
    try:
        if not hasattr(os, "pidfd_open"):  # not Linux: looked at from time to time
            os.kill(process, 0)
            select.select(watched, [], [], min(seconds, AGAIN_SECONDS))
            return False
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return descriptor in select.select([descriptor, *watched], [], [], seconds)[0]
    finally:
        os.close(descriptor)
