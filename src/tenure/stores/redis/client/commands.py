"""Commands as bytes, and the ones that a connection with several callers can't carry."""

from collections.abc import Sequence
from itertools import takewhile
from typing import TypeAlias

import hiredis

from tenure.domain.errors import InvalidValue

Arg: TypeAlias = bytes | str | int | float
Command: TypeAlias = Sequence[Arg]

_SUBSCRIBING = "its confirmations are pushes: use subscribe() and unsubscribe() of a connection"
_REPLYING = "it changes how, or whether, replies come, so they couldn't be told apart"
_BLOCKING = "it would hold up the calls of all others: use dedicated()"
_LASTING = "it changes the connection for all that use it: use dedicated(), or prepare="
_OPENING = "commands of others would come in between: use pipeline() with MULTI … EXEC, or dedicated()"

_NEVER = {
    **dict.fromkeys(
        ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"], _SUBSCRIBING
    ),
    **dict.fromkeys(["MONITOR", "SYNC", "PSYNC", "REPLCONF", "HELLO", "RESET", "QUIT", "DEBUG"], _REPLYING),
}
"""Commands without exactly one reply, on any connection. DEBUG can make a server send attributes, which hiredis gives
as if they were replies; nothing else does."""
_ALONE = {
    **dict.fromkeys(["BLPOP", "BRPOP", "BRPOPLPUSH", "BLMOVE", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP"], _BLOCKING),
    **dict.fromkeys(["WAIT", "WAITAOF"], _BLOCKING),
    **dict.fromkeys(["SELECT", "AUTH", "READONLY", "READWRITE", "ASKING"], _LASTING),
    **dict.fromkeys(["MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"], _OPENING),
}
"""Commands for a connection with one user."""
_SOMETIMES = ("CLIENT", "XREAD", "XREADGROUP")
"""Commands whose arguments decide."""

_LOOKED_AT = {spelled for name in (*_NEVER, *_ALONE, *_SOMETIMES) for spelled in (name, name.encode())}


def pack(args: Command) -> bytes:
    """A command as the server reads it, whatever it is."""
    try:
        data: bytes = hiredis.pack_command(tuple(args))  # type: ignore[arg-type]  # its stub has a tuple of one item
        return data
    except (TypeError, ValueError) as error:  # a str that UTF-8 can't write is a ValueError
        raise InvalidValue(f"{_name(args)}: give arguments as bytes, str, int or float: {error}") from None


def packed(args: Command, *, shared: bool) -> bytes:
    """The same. Raises `InvalidValue` for one that the connection can't carry."""
    _check(args, shared)
    return pack(args)


def packed_all(commands: Sequence[Command], *, shared: bool) -> bytes:
    """Several commands, one behind the other. MULTI and EXEC may stand among them, in pairs."""
    inside = False
    parts = []
    for args in commands:
        name = _name(args)
        if name == "MULTI" and not inside:
            inside = True
        elif name in ("EXEC", "DISCARD") and inside:
            inside = False
        else:
            _check(args, shared)
        parts.append(pack(args))
    if inside:
        raise InvalidValue("pipeline: a MULTI in it has no EXEC: add it, or use dedicated()")
    return b"".join(parts)


def _check(args: Command, shared: bool) -> None:
    try:
        if args[0].upper() not in _LOOKED_AT:  # type: ignore[union-attr]  # what has no upper() is refused below
            return
    except (AttributeError, IndexError):
        pass
    name = _name(args)
    reason = _NEVER.get(name) or (_ALONE.get(name) if shared else None) or _reason(name, args[1:], shared)
    if reason:
        raise InvalidValue(f"{name} can't be called here: {reason}")


def _reason(name: str, args: Command, shared: bool) -> str | None:
    if name == "CLIENT" and args and _text(args[0]) == "REPLY":
        return _REPLYING
    if name in ("XREAD", "XREADGROUP") and shared and "BLOCK" in takewhile("STREAMS".__ne__, map(_text, args)):
        return _BLOCKING
    return None


def _name(args: Command) -> str:
    if not args or not isinstance(args[0], str | bytes):
        raise InvalidValue("command: give its name first, as str or bytes")
    return _text(args[0])


def _text(arg: Arg) -> str:
    return (arg.decode("utf-8", "replace") if isinstance(arg, bytes) else str(arg)).upper()
