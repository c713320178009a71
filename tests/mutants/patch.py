"""A mutant as it is kept: a unified diff against the repository's root, under a header that says what is wrong.

    name: <as its file>
    what: <one sentence: what the code does wrong now>
    breaks: <the bug of §17, or the property of the checker, that it is about>
    killer: <who must find it>
    why: <only where a conformance test is the killer: why the machine isn't>

A header's line goes on in lines that start with two spaces. A neutral patch changes no behaviour: it names the killers
that must not find it, and says so in `what`.
"""

import os
import shutil
import subprocess
from pathlib import Path

import msgspec

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PATCHES = HERE / "patches"

KILLERS = (
    "machine-memory",
    "machine-sqlite",
    "conformance-memory",
    "conformance-sqlite",
    "processes-sqlite",
    "together-postgres",
    "network-postgres",
    "loops-postgres",
    "few-postgres",
    "transactions-postgres",
)
"""The machine on memory is its own model, so only the checker can object there; on SQLite lockstep must do it alone.
On PostgreSQL it is others who get in the way: several clients at once, a network that breaks, a user's transaction. Who
is told of what is looked at there too."""

_SUITE = (
    "tests/conformance/test_memory.py",
    "tests/conformance/test_sqlite.py",
    "tests/conftest.py",
    "tests/stores/test_sqlite_processes.py",
    "tests/stores/test_postgres_together.py",
    "tests/stores/test_postgres_network.py",
    "tests/stores/test_postgres_loops.py",
    "tests/stores/test_postgres_few.py",
    "tests/engine/test_postgres_transactions.py",
    "pyproject.toml",
)


class BadPatch(Exception):
    """A patch that can't be used: its header is incomplete, or it doesn't apply."""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the code, and who must see that it is a bug."""

    name: str
    what: str
    breaks: str
    killers: tuple[str, ...]
    why: str
    path: Path

    @property
    def neutral(self) -> bool:
        return self.name.startswith("neutral-")


def patches(folder: Path = PATCHES) -> list[Patch]:
    """All of them, by name. Raises `BadPatch` for one with an incomplete header."""
    return [read(path) for path in sorted(folder.glob("*.patch"))]


def read(path: Path) -> Patch:
    """A patch by its header."""
    fields: dict[str, str] = {}
    last = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(("diff --git", "--- ")):
            break
        if line.startswith("  ") and last:
            fields[last] += f" {line.strip()}"
        else:
            last, _, text = line.partition(": ")
            fields[last] = text.strip()
    found = Patch(
        name=path.stem,
        what=fields.get("what", ""),
        breaks=fields.get("breaks", ""),
        killers=tuple(killer.strip() for killer in fields.get("killer", "").split(",")),
        why=fields.get("why", ""),
        path=path,
    )
    _check(found, fields)
    return found


def _check(patch: Patch, fields: dict[str, str]) -> None:
    if fields.get("name") != patch.name:
        raise BadPatch(f"{patch.path.name}: its header names it {fields.get('name')!r}")
    if not patch.what or not patch.breaks:
        raise BadPatch(f"{patch.name}: its header must say what is wrong, and what that breaks")
    if unknown := [killer for killer in patch.killers if killer not in KILLERS]:
        raise BadPatch(f"{patch.name}: killer {unknown}; there are {', '.join(KILLERS)}")
    if not patch.neutral and len(patch.killers) != 1:
        raise BadPatch(f"{patch.name}: a mutant has one killer")
    if not patch.neutral and not patch.killers[0].startswith("machine") and not patch.why:
        raise BadPatch(f"{patch.name}: say why the machine isn't its killer")


def snapshot(folder: Path) -> Path:
    """A copy of what a killer needs of the tree, taken once: nobody's edits change a run under way."""
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", folder / "src", ignore=skip)
    for name in _SUITE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def apply(patch: Patch, tree: Path) -> None:
    """Changes a copy of the tree. Raises `BadPatch` unless every line of context is as the patch says."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", str(patch.path)],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BadPatch(f"{patch.name} doesn't apply: {' '.join(done.stderr.split())}")
