"""Whether code differs in more than its words: a docstring that is put better makes no record old."""

import ast
import io
import subprocess
import tokenize
from collections.abc import Sequence
from pathlib import Path

KINDS = (".py", ".sql")


def bare(text: str) -> list[str]:
    """A Python module's lines without comments, docstrings and empty lines."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * len(lines[node.lineno - 1 : node.end_lineno])
    return [line.rstrip() for line in lines if line.strip()]


def changed_since(root: Path, commit: str, folders: Sequence[str]) -> bool:
    """Whether the code in these folders does anything else than at that commit, as far as its text shows. So it does if
    git doesn't know the commit.
    """
    listed = _git(root, "diff", "--name-only", "--no-renames", commit, "--", *folders)
    if listed is None:
        return True
    unlisted = _git(root, "ls-files", "--others", "--exclude-standard", "--", *folders) or ""
    files = [name for name in [*listed.splitlines(), *unlisted.splitlines()] if name.endswith(KINDS)]
    return any(_differs(root, commit, name) for name in files)


def _differs(root: Path, commit: str, name: str) -> bool:
    before = _git(root, "show", f"{commit}:{name}")
    path = root / name
    if before is None or not path.exists():
        return True
    after = path.read_text(encoding="utf-8")
    return bare(before) != bare(after) if name.endswith(".py") else before != after


def _git(root: Path, *arguments: str) -> str | None:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None
