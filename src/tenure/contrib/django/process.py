"""Where a process for handlers (`executor="process"`) finds the project's jobs. Nobody else imports it."""

from tenure.contrib.django.project import app

__all__ = ["app"]
