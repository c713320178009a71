"""One job, step by step: decode, run, encode, and say how it ended."""

import asyncio
import inspect
import logging
import random
from collections.abc import Awaitable, Callable
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from tenure.blobs.spill import Body, is_spilled
from tenure.domain import calls
from tenure.domain.calls import ClaimedJob, Outcome
from tenure.domain.errors import InvalidValue, NotReady, Refused, StoreError, StoreUnavailable
from tenure.domain.job import Failure, Job, Lease, Spec, Token
from tenure.domain.names import Ms
from tenure.domain.retry import clamp_delay
from tenure.domain.states import State
from tenure.engine.bodies import to_run, to_settle
from tenure.engine.context import CURRENT, Context
from tenure.engine.definition import Call, Definition
from tenure.engine.durations import milliseconds
from tenure.engine.hooks import Middleware, Next
from tenure.engine.signals import Fail, InvalidResult, Retry, Signal, Snooze, Stopped, text_of
from tenure.engine.signature import of_result
from tenure.engine.worker.elsewhere import ELSEWHERE_MS, Elsewhere
from tenure.engine.worker.executors import Executors, inline
from tenure.engine.worker.forks import forks, leave_if_forked
from tenure.engine.worker.hand import Ending, Hand
from tenure.engine.worker.processes.pool import HandlerError, ProcessDied
from tenure.engine.worker.processes.wire import Returned

if TYPE_CHECKING:
    from tenure.engine.app import Tenure

R = TypeVar("R")

SUCCEEDED = calls.Succeed()
"""With nothing to keep."""

log = logging.getLogger("tenure.worker")

Uniform = Callable[[float, float], float]


class Runner:
    """Runs handlers. Whatever they do, what comes back is an outcome, or None when there is nothing left to say."""

    def __init__(self, app: "Tenure", executors: Executors, uniform: Uniform = random.uniform) -> None:
        self._app = app
        self._executors = executors
        self._uniform = uniform
        self._elsewhere = Elsewhere(app)
        self._forks = forks()

    async def run(self, hand: Hand) -> Outcome | None:
        """How the attempt ended. Never raises what a handler raised, not even SystemExit."""
        if hand.ending is not None:
            return self._as_told(hand, calls.Release(reason="stopped"))  # told to end before it began
        try:
            if is_spilled(hand.claimed.job.spec.codec):
                hand.claimed = await to_run(self._app, hand.claimed)
            codec = self._app.codecs.get(hand.claimed.job.spec.codec)
            arguments = hand.definition.signature.decode(hand.claimed.payload, codec)
        except (asyncio.CancelledError, StoreUnavailable, NotReady) as error:  # of the blob store: later, or elsewhere
            return self._as_told(hand, self._outcome_of(hand, error))
        except Exception as error:  # a codec of one's own may raise anything
            return await self._undecoded(hand, error)
        try:
            value = await self._value(hand, arguments)
        except BaseException as error:
            leave_if_forked(self._forks)
            outcome = self._outcome_of(hand, error)
        else:
            leave_if_forked(self._forks)
            outcome = SUCCEEDED if _nothing_to_keep(hand, value) else await self._success(hand, value)
        if hand.context is not None and hand.context.settled:
            return self._after_transaction(hand, outcome)
        return outcome if hand.ending is None else self._as_told(hand, outcome)

    async def _undecoded(self, hand: Hand, error: Exception) -> Outcome | None:
        """The end of an attempt whose payload the handler here refuses: another worker's may take it (§6)."""
        try:
            taken = await self._elsewhere.takes(hand)
        except StoreError:
            taken = True  # nobody knows: it may be, and to be asked again costs no attempt
        except asyncio.CancelledError as cancelled:
            return self._as_told(hand, self._outcome_of(hand, cancelled))
        if taken:
            return self._as_told(hand, calls.Release(ELSEWHERE_MS, calls.UNKNOWN_ARGUMENT))
        hand.error = error
        return calls.Fail(Failure.clip("InvalidPayload", text_of(error)), reason="invalid_payload")

    @staticmethod
    def _after_transaction(hand: Hand, outcome: Outcome) -> None:
        """The job has ended with its transaction: what came after can't change that."""
        if not isinstance(outcome, calls.Succeed):
            log.warning("%r ended with its transaction; what it did after that is ignored: %r", hand, outcome)

    def _value(self, hand: Hand, arguments: dict[str, Any]) -> Awaitable[Any]:
        definition, context = hand.definition, hand.context
        if context is None:
            raise AssertionError("a hand was run without its context")
        middlewares = self._app.middlewares
        if definition.executor == "inline" and not middlewares:
            return inline(hand, arguments)
        execute = self._executors.of(definition.executor)
        return (
            wrapped(middlewares, context, lambda: execute(hand, arguments)) if middlewares else execute(hand, arguments)
        )

    async def _success(self, hand: Hand, value: Any) -> Outcome:
        carried = hand.context.carried if hand.context else ()
        if isinstance(value, Returned):
            carried += value.carried
        try:
            result = self._result(hand, value)
            return await to_settle(self._app, hand.token.tenant, hand.token.job_id, result, carried)
        except (asyncio.CancelledError, StoreError) as error:  # of the blob store
            return self._outcome_of(hand, error)
        except Exception as error:  # a codec of one's own may raise anything
            hand.error = error
            message = f"the result of {hand.definition.name} can't be kept: {of_result(error)}"
            return calls.Fail(Failure.clip("InvalidResult", message), InvalidResult.reason)

    def _result(self, hand: Hand, value: Any) -> Body | None:
        if isinstance(value, Returned):
            return None if value.body is None else Body(value.body, value.codec)
        if value is None and hand.definition.signature.result_type is NoneType:
            return None
        name = hand.definition.declared.get("result_codec", "json")
        return Body(hand.definition.signature.encode_result(value, self._app.codecs.get(name)), name)

    def _outcome_of(self, hand: Hand, error: BaseException) -> Outcome:
        """An exception as the end of an attempt."""
        hand.error = None if isinstance(error, ProcessDied) else error  # that one's frames are the worker's own
        try:
            return self._meant(hand, error)
        except Exception as wrong:  # a name that can't be stored, an `after` that is no duration
            failure = Failure.clip("InvalidError", f"{_family(error)} can't be kept: {text_of(wrong)}")
            return calls.Retry(failure, self._delay(hand))

    def _meant(self, hand: Hand, error: BaseException) -> Outcome:
        family, message = _family(error), text_of(error)
        match error:
            case Fail():
                return calls.Fail(Failure.clip(family, message), error.reason)
            case ProcessDied():
                return calls.Retry(Failure.clip("Crashed", message), self._delay(hand), "crashed")
            case Snooze():
                # At least a millisecond: only a delay is counted, and nobody may snooze for ever.
                return calls.Release(max(1, milliseconds("after", error.after)), "snooze")
            case Retry():
                return calls.Retry(Failure.clip(family, message), self._delay(hand, error.after))
            case Stopped():
                return calls.Release(reason="stopped")
            case asyncio.CancelledError() if hand.ending is not None:
                return calls.Release(reason="stopped")
        return calls.Retry(Failure.clip(family, message), self._delay(hand))

    def refused(self, hand: Hand, why: Refused) -> Outcome:
        """The end of an attempt whose success the store refuses for a job that it carries."""
        failure = Failure.clip(type(why).__name__, f"a job that it made was refused: {why}")
        return calls.Retry(failure, self._delay(hand))

    def _delay(self, hand: Hand, after: Any = None) -> Ms:
        if after is not None:
            return clamp_delay(milliseconds("after", after))
        job = hand.claimed.job
        return job.spec.retry.delay(job.attempt, self._uniform)

    def _as_told(self, hand: Hand, outcome: Outcome) -> Outcome | None:
        """What a handler that was told to end leaves to be settled."""
        match hand.ending:
            case None | Ending.REQUESTED:
                return outcome
            case Ending.LOST:
                return None
            case Ending.CANCELLED:
                return calls.Release(reason="cancelled")
            case Ending.TIMEOUT:
                seconds = hand.claimed.job.spec.timeout / 1_000
                failure = Failure("Timeout", f"the handler hadn't ended after {seconds:g} s")
                return calls.Retry(failure, self._delay(hand), "timeout")
            case Ending.SHUTDOWN:
                return calls.Release(reason="shutdown") if _broken_off(hand, outcome) else outcome


def _nothing_to_keep(hand: Hand, value: Any) -> bool:
    """Whether a handler gave back nothing, as its signature says, and made no jobs that go in with its success."""
    carried = hand.context.carried if hand.context else ()
    return value is None and not carried and hand.definition.signature.result_type is NoneType


def _broken_off(hand: Hand, outcome: Outcome) -> bool:
    """Whether a handler ended because the worker stops, and not by itself."""
    match outcome:
        case calls.Release():
            return outcome.delay == 0
        case calls.Retry():
            return hand.forced
    return False


def _family(error: BaseException) -> str:
    return (isinstance(error, HandlerError | Signal) and error.family) or type(error).__name__


def wrapped(middlewares: list[Middleware], context: Context, innermost: Next) -> Awaitable[Any]:
    """The handler with everything that stands around it, the first middleware outermost."""
    following = innermost
    for middleware in reversed(middlewares):
        following = _around(middleware, context, following)
    return following()


def _around(middleware: Middleware, context: Context, following: Next) -> Next:
    return lambda: middleware(context, following)


async def run_here(app: "Tenure", call: Call[R]) -> R:
    """Runs a call without store or worker, in a task of its own as a worker does."""
    definition = call.definition
    if not definition.handled:
        raise InvalidValue(f"job {definition.name} is a stub: its handler is elsewhere")
    claimed = _pretended(app, call)
    context = Context(app, claimed, None, lambda progress: None)
    arguments = definition.signature.decode(claimed.payload, app.codecs.get(claimed.job.spec.codec))
    raised: list[BaseException] = []

    async def run() -> Any:
        CURRENT.set(context)
        try:
            async with app.state() as context.state:
                return await wrapped(app.middlewares, context, lambda: _direct(definition, context, arguments))
        except BaseException as error:  # some would end the event loop on their way out of a task
            raised.append(error)

    value: R = await asyncio.create_task(run(), name="tenure-execute-now")
    if raised:
        raise raised.pop()
    return value


async def _direct(definition: Definition[Any, Any], context: Context, arguments: dict[str, Any]) -> Any:
    first = (context,) if definition.signature.takes_context else ()
    if inspect.iscoroutinefunction(definition.function):
        return await definition.function(*first, **arguments)
    return await asyncio.to_thread(definition.function, *first, **arguments)


def _pretended(app: "Tenure", call: Call[Any]) -> ClaimedJob:
    new = call.new_job(app, call.options.get("tenant", app.tenant_name))
    spec = Spec(
        tenant=new.tenant,
        id=new.id,
        seq=0,
        queue=new.queue,
        job_type=new.job_type,
        codec=new.codec,
        fingerprint=new.fingerprint,
        payload_size=len(new.payload),
        enqueued_at=0,
        max_attempts=new.max_attempts,
        retry=new.retry,
        timeout=new.timeout,
        result_ttl=new.result_ttl,
        key=new.key,
        group=new.group,
        labels=new.labels,
    )
    job = Job(spec, State.RUNNING, 2, new.priority, 0, 0, 1, 1, b"", Lease("here", 0, 0, 0, 0))
    return ClaimedJob(job, new.payload, Token(new.tenant, new.id, 1, b""), 1)
