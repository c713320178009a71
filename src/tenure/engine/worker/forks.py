"""A handler that forks comes back twice: the copy must neither settle nor go on as a worker."""

import os

LEFT = 70
"""The exit code of a copy that came back."""

_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


def forks() -> int:
    """How often this process and those before it were forked. Unlike its id, this costs no system call."""
    return _forks


def leave_if_forked(since: int) -> None:
    """Ends this process at once, without any clean-up, if it is a copy of the one that counted so many forks."""
    if _forks != since:
        os._exit(LEFT)
