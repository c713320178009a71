"""The Django app: what happens when a project starts."""

from functools import cached_property
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.db.models.signals import pre_migrate

from tenure.contrib.django.checks import look
from tenure.contrib.django.configuration import LABEL, app_of, database_of
from tenure.contrib.django.connections import renew_around
from tenure.contrib.django.discovery import discover
from tenure.engine.app import Tenure


class TenureConfig(AppConfig):
    """Finds the project's jobs. Nothing touches the store before the first call that needs it."""

    name = "tenure.contrib.django"
    label = LABEL
    verbose_name = "Tenure"

    @cached_property
    def app(self) -> Tenure:
        """The project's app, made or imported when it is first asked for."""
        return app_of()

    def ready(self) -> None:
        discover(self.app)
        for definition in self.app.definitions.values():
            renew_around(definition)
        checks.register(look)
        database = database_of(settings.TENURE)
        if database is not None:
            pre_migrate.connect(self._make_schema, sender=self)
            database.before_it_is_destroyed(self.app.sync.close)

    def _make_schema(self, using: str, **_: Any) -> None:
        """The jobs' tables come with `migrate` of their database, before those of models: a file has to begin so."""
        database = database_of(settings.TENURE)
        if database is not None and database.alias == using:
            database.make_schema()
