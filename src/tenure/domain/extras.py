"""What an installation may lack: the extras of the package, and the one sentence that says how to get one."""

from enum import StrEnum


class Extra(StrEnum):
    """An extra that pyproject.toml declares: one that isn't there can't be advised."""

    BLOBS = "blobs"
    DJANGO = "django"
    POSTGRES = "postgres"
    REDIS = "redis"
    SPARK = "spark"
    ZSTD = "zstd"


def install(extra: Extra) -> str:
    """The command that installs an extra."""
    return f"pip install 'tenure[{extra}]'"


def needs(what: str, extra: Extra, *, plural: bool = False) -> str:
    """Says which extra something needs, with the command that installs it."""
    return f"{what} {'need' if plural else 'needs'} the extra {str(extra)!r}: {install(extra)}"
