"""The transition table is whole, closed, and what the docs show."""

from pathlib import Path

import pytest

from tenure.domain.diagram import page
from tenure.domain.job import Job, Lease, Spec
from tenure.domain.retry import RetryPolicy
from tenure.domain.states import TERMINAL, Command, EventKind, State
from tenure.domain.transitions import TABLE, apply

ROOT = Path(__file__).parents[2]
WITHOUT_A_JOB = {
    EventKind.PURGED,
    EventKind.CONFIGURED,
    EventKind.PAUSED,
    EventKind.RESUMED,
    EventKind.CLOCK_JUMP,
}


def job(state: State) -> Job:
    spec = Spec("acme", "0" * 8, 1, "mail", "send", "json", b"", 2, 0, 3, RetryPolicy(), 1_000, 1_000)
    lease = Lease("w", 0, 10, 10, 0) if state is State.RUNNING else None
    return Job(spec, state, 1, 0, 0, 0, lease=lease)


def test_every_command_has_its_row() -> None:
    assert set(TABLE) == set(Command)


def test_every_event_of_a_job_is_told_by_some_row() -> None:
    told = {kind for rule in TABLE.values() for kind in rule.events}
    assert told == set(EventKind) - WITHOUT_A_JOB


def test_nothing_leaves_a_terminal_state() -> None:
    leaving = {
        command
        for command, rule in TABLE.items()
        for source in rule.sources
        if source in TERMINAL and set(rule.targets) != {source}
    }
    assert leaving == set()


@pytest.mark.parametrize("command", [command for command in Command if command is not Command.ENQUEUE])
@pytest.mark.parametrize("state", list(State))
def test_a_wrong_state_is_refused_before_anything_changes(command: Command, state: State) -> None:
    if state not in TABLE[command].sources:
        with pytest.raises(AssertionError, match=f"of a job that is {state}"):
            apply(command, job(state), None, 0)


def test_the_page_of_states_is_fresh() -> None:
    assert (ROOT / "docs" / "states.md").read_text(encoding="utf-8") == page(), "run `make docs`"
