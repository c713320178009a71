"""A copy of the package in which records and events have a field more, that only the domain knows of.

`Spec`, `Job` and `Event` get a field each, and the model sets it; nothing else is changed. A store that writes records
or events by a list of its own loses it on the way, and lockstep sees that.
"""

import shutil
from pathlib import Path

from tests.mutants.source import changed

PACKAGE = Path("src/tenure")

FIELDS = (
    (
        "domain/event.py",
        "Event",
        "hold_until: Ms | None = None",
        "hold_until: Ms | None = None\n    canary: str | None = None",
    ),
    (
        "domain/job.py",
        "Spec",
        "root_id: str | None = None",
        "root_id: str | None = None\n    canary: str | None = None",
    ),
    (
        "domain/job.py",
        "Job",
        "history: tuple[Attempt, ...] = ()",
        "history: tuple[Attempt, ...] = ()\n    canary: int = 0",
    ),
)
"""(file, struct, its last field, the same with one after it)"""

STEPS = (
    (
        "domain/model/enqueue.py",
        "_spec",
        "parents=new.parents,",
        'parents=new.parents,\n        canary=f"{new.job_type} {new.priority}" if new.priority else None,',
    ),
    (
        "domain/transitions.py",
        "_event",
        "**fields,",
        'canary=f"{kind} {spec.job_type} {job.canary}",\n        **fields,',
    ),
    (
        "domain/transitions.py",
        "apply",
        "step = rule.effect(job, argument, max(now, job.updated_at))",
        "step = rule.effect(_sung(command, job), argument, max(now, job.updated_at))",
    ),
)
"""(file, function, text, the text that sets the field)"""

SUNG = """

def _sung(command: Command, job: Job) -> Job:
    return job if command is Command.ENQUEUE else replace(job, canary=job.canary + 1)
"""


def build(root: Path, folder: Path) -> Path:
    """Makes the copy in a folder; what to put in front of the installed package."""
    shutil.copytree(root / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for module, symbol, old, new in FIELDS + STEPS:
        file = folder / PACKAGE / module
        file.write_text(changed(file.read_text(encoding="utf-8"), symbol, old, new), encoding="utf-8")
    with (folder / PACKAGE / "domain/transitions.py").open("a", encoding="utf-8") as transitions:
        transitions.write(SUNG)
    return folder / "src"
