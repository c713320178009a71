"""System checks: what `manage.py check` says of the project's jobs."""

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Error, Warning

from tenure.contrib.django.configuration import get_app
from tenure.domain.errors import NotReady
from tenure.engine.app import Tenure

HERE, FOLDER = "sqlite:///", "sqlite:////"
"""How the URL of a file begins: by its path from the current folder, or by its whole path."""


def look(**_: Any) -> list[CheckMessage]:
    """Every check, in order."""
    app = get_app()
    return [*_store(app), *_jobs(app)]


def _store(app: Tenure) -> Iterator[CheckMessage]:
    try:
        app.made()
    except NotReady as error:
        yield Error(f"Tenure has no store: {error}", id="tenure.E001")
        return
    url = app.url or ""
    if url == "memory://":
        hint = "Use sqlite:////path/to/jobs.db to keep them."
        yield Warning("Jobs live in this process alone: no worker sees them.", hint=hint, id="tenure.W001")
    if url.startswith(HERE) and not url.startswith(FOLDER):
        found = f"The jobs' file, {url.removeprefix(HERE)}, is looked for in whatever folder a process starts in."
        hint = "Name it by its whole path: f\"sqlite:///{BASE_DIR / 'jobs.db'}\"."
        yield Warning(found, hint=hint, id="tenure.W002")


def _jobs(app: Tenure) -> Iterator[CheckMessage]:
    if not app.definitions:
        hint = "Declare them in jobs.py of an installed app, with jobs = Jobs() and @jobs.job."
        yield Warning("No jobs are declared.", hint=hint, id="tenure.W003")
