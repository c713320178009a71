"""Moving a job, with everything that follows: its key, its dead letter, its children and theirs.

Every path into a terminal state goes through `move`, so no path can forget a consequence.
"""

from collections import deque
from typing import Any

from msgspec.structs import replace

from tenure.domain.job import Binding, DeadLetter, Edge, Job, Ref, Spec
from tenure.domain.model.unit import Unit
from tenure.domain.states import TERMINAL, Command, Disposition, OnParentFailure, State, Unique
from tenure.domain.transitions import apply

CASCADE_BUDGET = 1_000
"""Edges that one item resolves at most; the rest waits for `sweep`."""


def move(unit: Unit, command: Command, job: Job, argument: Any = None) -> Job:
    """Applies a command to a job and follows its consequences."""
    after = _step(unit, command, job, argument)
    if after.state in TERMINAL and job.state not in TERMINAL and unit.has_children(after.ref):
        tell_children(unit, after.ref)
    return after


def _step(unit: Unit, command: Command, job: Job, argument: Any) -> Job:
    step = apply(command, job, argument, unit.now)
    unit.put(job, step)
    if step.job.state in TERMINAL and job.state not in TERMINAL:
        _close(unit, step.job)
    return step.job


def _close(unit: Unit, job: Job) -> None:
    """What ends with a job besides its children's waiting."""
    release_key(unit, job.spec, job.state)
    if job.state is State.FAILED:
        unit.letters[job.ref] = DeadLetter(*job.ref, unit.now, Disposition.OPEN)
    if job.spec.parents:
        for edge in unit.edges_to(job.ref):
            unit.drop_edge(edge)


def release_key(unit: Unit, spec: Spec, state: State) -> None:
    """A job that ended so gives its key back, as its policy says."""
    key = spec.binding_key
    if key is None or spec.unique is Unique.RETAINED:
        return
    binding = unit.binding(key)
    if binding is None or binding.job_id != spec.id:
        return
    if spec.unique is Unique.WINDOW and state is State.SUCCEEDED:
        unit.bindings[key] = replace(binding, expires_at=unit.now + (spec.unique_for or 0))
    else:
        unit.bindings[key] = None


def bind(unit: Unit, job: Job) -> None:
    """The job takes its key, if it has one."""
    key = job.spec.binding_key
    if key is not None:
        unit.bindings[key] = Binding(job.spec.id, job.spec.fingerprint, job.spec.unique)


# Children


def tell_children(unit: Unit, parent: Ref, budget: int = CASCADE_BUDGET) -> None:
    """Resolves the edges below an ended job, breadth first, children by arrival; beyond the budget `sweep` goes on."""
    told = deque([parent])
    while told:
        used, done, ended = resolve(unit, told[0], budget)
        budget -= used
        told.extend(ended)
        if not done:
            break
        told.popleft()
    for waiting in told:
        unit.defer(waiting)


def resolve(unit: Unit, parent: Ref, budget: int) -> tuple[int, bool, list[Ref]]:
    """Tells a parent's waiting children of its end: (edges resolved, whether all are, the children that ended)."""
    job = unit.job(parent)
    if job is None:
        return 0, True, []
    waiting = [edge for edge in unit.edges_from(parent) if not edge.resolved]
    told = waiting[:budget]
    ended = [edge for edge in told if settle_edge(unit, edge, job.state)]
    return len(told), len(told) == len(waiting), [(edge.tenant, edge.child) for edge in ended]


def settle_edge(unit: Unit, edge: Edge, parent_state: State) -> bool:
    """Counts one ended parent for a blocked child; whether that ended the child too."""
    child = unit.job((edge.tenant, edge.child))
    if child is None or child.state is not State.BLOCKED:
        return False
    unit.put_edge(replace(edge, resolved=True))
    succeeded = parent_state is State.SUCCEEDED
    if not succeeded and edge.on_failure is not OnParentFailure.IGNORE:
        _step(unit, Command.PARENT_FAILED, child, edge.on_failure)
        return True
    if all(other.resolved for other in unit.edges_to(child.ref)):
        command = Command.UNBLOCK if succeeded else Command.PARENT_FAILED
        _step(unit, command, child, None if succeeded else edge.on_failure)
    return False
