"""The setting `TENURE`: which app the project has. What is wrong with it is said when Django starts."""

import difflib
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from tenure.contrib.django.databases import Database
from tenure.domain.errors import TenureError
from tenure.engine.app import Tenure
from tenure.engine.importing import import_app

LABEL = "tenure"
"""The Django app's label."""
KNOWN = ("APP", "DATABASE", "URL")
EXAMPLE = (
    'give TENURE = {"APP": "mysite.jobs:app"}, TENURE = {"DATABASE": "default"} '
    'or TENURE = {"URL": "sqlite:////var/lib/mysite/jobs.db"}'
)


def get_app() -> Tenure:
    """The project's app. Raises `ImproperlyConfigured` where the settings don't name one."""
    try:
        app: Tenure = apps.get_app_config(LABEL).app
    except LookupError:
        raise ImproperlyConfigured("add 'tenure.contrib.django' to INSTALLED_APPS") from None
    return app


def app_of() -> Tenure:
    """The app that the settings name."""
    name, value = _chosen(getattr(settings, "TENURE", None))
    try:
        match name:
            case "APP":
                return import_app(value)
            case "DATABASE":
                return _on_database(value)
            case _:
                return _made(value)
    except TenureError as error:
        raise ImproperlyConfigured(f"TENURE[{name!r}]: {error}") from error


@cache
def _made(url: str) -> Tenure:
    """One app per URL: Django may start its apps twice in one process, and a job belongs to one app."""
    return Tenure(url)


@cache
def _on_database(alias: str) -> Tenure:
    """The same for an alias of `DATABASES`."""
    return Tenure(Database(alias).url)


def database_of(given: Any) -> Database | None:
    """The database that the settings name for jobs, if they name one."""
    name, value = _chosen(given)
    return Database(value) if name == "DATABASE" else None


def _chosen(given: Any) -> tuple[str, str]:
    """The one setting that says where the app is."""
    if given is None:
        raise ImproperlyConfigured(f"TENURE isn't set: {EXAMPLE}")
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"TENURE is a {type(given).__name__}, not a dict: {EXAMPLE}")
    for key in given:
        if key not in KNOWN:
            raise ImproperlyConfigured(f"TENURE: there is no setting {key!r:.80}; {_hint(key)}")
    if len(given) != 1:
        wrong = f"{' and '.join(given)} exclude each other" if given else "it is empty"
        raise ImproperlyConfigured(f"TENURE: {wrong}; {EXAMPLE}")
    ((name, value),) = given.items()
    if not isinstance(value, str) or value[:1] in ("", ".", ":"):
        raise ImproperlyConfigured(f"TENURE[{name!r}] is {value!r:.80}: {EXAMPLE}")
    return name, value


def _hint(key: Any) -> str:
    close = difflib.get_close_matches(str(key).upper(), KNOWN, 1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(KNOWN)}"
