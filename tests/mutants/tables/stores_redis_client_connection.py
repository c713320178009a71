"""Deliberate bugs in `stores/redis/client/connection.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/redis/client/connection.py"
WHY = "The machine knows stores; this is what one of them will stand on."

MUTANTS = (
    Mutant(
        name="redis-confirmation-of-another-channel",
        what="A subscription is confirmed by what the server says of another channel.",
        breaks="each call gets its own reply",
        edits=(
            Edit(
                "Connection._pushed",
                "if channels and confirmed in channels:\n        channels.remove(confirmed)",
                "if channels:\n        channels.pop()",
            ),
        ),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-false-is-no-reply",
        what="The reply `false` is taken for one that hasn't come yet.",
        breaks="each call gets its own reply",
        edits=(
            Edit(
                "Connection._read",
                "(reply := read()) is not _INCOMPLETE",
                "(reply := read()) not in (_INCOMPLETE, False)",
            ),
        ),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-flush-each-call",
        what="Each call is a write of its own.",
        breaks="the calls of one turn leave in one write",
        edits=(Edit("Connection._flush_soon", "self._loop.call_soon(self._flush)", "self._flush()"),),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-given-up-call-sent",
        what="A call whose caller gave up before it was sent is sent.",
        breaks="what wasn't sent isn't carried out",
        edits=(
            Edit(
                "Connection._flush",
                "if request.future.done():  # its caller has given up\n            continue\n        request.sent_at",
                "request.sent_at",
            ),
        ),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-late-reply-given-to-another",
        what="A call that timed out loses its place in the order.",
        breaks="each call gets its own reply",
        edits=(
            Edit(
                "Connection._expire",
                "waiting = (",
                "self._on_way = deque(one for one in self._on_way if not one.future.done())\n    waiting = (",
            ),
        ),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-leaving-cuts-off",
        what="A server that became a replica is left at once, whatever is on its way.",
        breaks="calls on their way get their replies",
        edits=(Edit("Connection.data_received", "self._leaving and not self._on_way", "self._leaving"),),
        killers=("faults-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-limit-by-bytes-ignored",
        what="Any number of bytes is on its way.",
        breaks="everything that can grow has a limit",
        edits=(Edit("Connection._has_room", "<= self._settings.sent_bytes", "<= self._settings.sent_bytes << 20"),),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-limit-by-calls-off-by-pipelines",
        what="A pipeline counts as one call.",
        breaks="everything that can grow has a limit",
        edits=(
            Edit("Connection._flush", "self._owed += request.wanted", "self._owed += 1"),
            Edit("Connection._answer", "self._owed -= request.wanted", "self._owed -= 1"),
            Edit("Connection._has_room", "self._owed + request.wanted <=", "self._owed + 1 <="),
        ),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-push-taken-for-a-reply",
        what="A push is given to the call that waits longest.",
        breaks="each call gets its own reply",
        edits=(
            Edit(
                "Connection._read",
                "if type(reply) is hiredis.PushNotification:",
                "if type(reply) is hiredis.PushNotification and (not on_way or on_way[0].channels):",
            ),
        ),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-replica-not-left",
        what="A client stays with a server that became a replica.",
        breaks="after a failover writes go to the primary",
        edits=(Edit("Connection._error", "if self._shared and", "if self._leaving and"),),
        killers=("faults-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-reply-without-an-end",
        what="A reply may be of any size.",
        breaks="everything that can grow has a limit",
        edits=(Edit("Connection._read", "self._incomplete_bytes > self._settings.reply_bytes", "size < 0"),),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-sent-call-called-unsent",
        what="A call that was on its way when the connection broke is said not to have been sent.",
        breaks="§5a: nobody knows whether it was done, so it may be done twice",
        edits=(
            Edit(
                "Connection._end",
                "request.future.set_exception(sent(said))",
                "request.future.set_exception(unsent(said))",
            ),
        ),
        killers=("faults-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-silence-unnoticed",
        what="A server that says nothing more is waited for.",
        breaks="a connection that is broken is left",
        edits=(Edit("Connection._expire", "self._silent_at() <= now", "now < 0"),),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-stray-reply-ignored",
        what="A reply that nobody asked for is dropped: the next one may belong to another call.",
        breaks="each call gets its own reply",
        edits=(
            Edit(
                "Connection._read",
                'self._end(f"a reply came that nobody asked for ({type(reply).__name__})")\n            return',
                "continue",
            ),
        ),
        killers=("client-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-unsent-call-called-unknown",
        what="A call that wasn't sent when the connection broke is said to be unknown.",
        breaks="what wasn't sent is safe to send again",
        edits=(
            Edit(
                "Connection._end",
                "request.future.set_exception(unsent(said))",
                "request.future.set_exception(sent(said))",
            ),
        ),
        killers=("faults-redis",),
        why=WHY,
    ),
    Mutant(
        name="redis-written-while-choked",
        what="Calls are written although the transport is full.",
        breaks="everything that can grow has a limit",
        edits=(Edit("Connection._flush", "if self._choked or", "if"),),
        killers=("client-redis",),
        why=WHY,
    ),
)
