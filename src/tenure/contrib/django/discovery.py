"""Finding jobs: every installed app's `jobs.py` is imported, and its `Jobs` are taken in."""

import sys
from collections.abc import Iterator

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules

from tenure.domain.errors import InvalidValue
from tenure.engine.app import Tenure
from tenure.engine.definition import Jobs

MODULE = "jobs"


def discover(app: Tenure) -> None:
    """Imports the modules, and includes what they declare and nobody has included yet."""
    autodiscover_modules(MODULE)
    for name, jobs in _declared():
        if not _included(app, jobs):
            try:
                app.include(jobs)
            except InvalidValue as error:
                raise ImproperlyConfigured(f"{name}: {error}") from error


def _declared() -> Iterator[tuple[str, Jobs]]:
    """Every `Jobs` at the top level of a jobs module, with the module's name. A `Tenure` keeps its jobs to itself."""
    for config in apps.get_app_configs():
        module = sys.modules.get(f"{config.name}.{MODULE}")
        for value in list(vars(module).values()) if module is not None else ():
            if isinstance(value, Jobs) and not isinstance(value, Tenure):
                yield f"{config.name}.{MODULE}", value


def _included(app: Tenure, jobs: Jobs) -> bool:
    return all(app.definitions.get(name) is definition for name, definition in jobs.definitions.items())
