"""Statements as files: `-- name: x` begins one, comments stay with it, a blank line before the next ends it."""

import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load(package: str, *files: str) -> dict[str, str]:
    """The named statements of a package's `statements` folder."""
    folder = resources.files(package) / "statements"
    found: dict[str, str] = {}
    for file in files:
        text = (folder / f"{file}.sql").read_text(encoding="utf-8")
        parts = _NAME.split(text)[1:]
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise AssertionError(f"two statements are named {name}")
            found[name] = body.strip()
    return found
