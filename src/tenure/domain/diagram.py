"""The state machine as a page: drawn from the transition table, so it can't say anything else."""

from tenure.domain.states import Command
from tenure.domain.transitions import TABLE

_OPENING = """# States

Made from the transition table (`tenure.domain.transitions`) by `make docs`; a test keeps it fresh. The contract behind
it is [semantics.md](semantics.md).
"""


def page() -> str:
    """The whole page: a picture and the table."""
    return "\n".join([_OPENING, "```mermaid", *_picture(), "```", "", *_table(), ""])


def _picture() -> list[str]:
    lines = ["stateDiagram-v2"]
    arrows: dict[tuple[str, str], list[str]] = {}
    for command, rule in TABLE.items():
        for source in rule.sources:
            for target in rule.targets:
                start = "[*]" if source is None else source.value
                arrows.setdefault((start, target.value), []).append(command.value)
    lines += [f"    {start} --> {end}: {', '.join(commands)}" for (start, end), commands in arrows.items()]
    lines += [f"    {state} --> [*]" for state in ("succeeded", "failed", "cancelled")]
    return lines


def _table() -> list[str]:
    lines = ["| command | from | to | who | guard | effects | events |", "|---|---|---|---|---|---|---|"]
    return lines + [_row(command) for command in TABLE]


def _row(command: Command) -> str:
    rule = TABLE[command]
    sources = ", ".join("–" if source is None else source.value for source in rule.sources)
    targets = ", ".join(target.value for target in rule.targets)
    events = ", ".join(kind.value for kind in rule.events)
    return f"| {command.value} | {sources} | {targets} | {rule.who} | {rule.guard} | {rule.effects} | {events} |"


if __name__ == "__main__":
    print(page(), end="")
