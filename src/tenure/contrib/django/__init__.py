"""Tenure in a Django project. Needs the extra `django`.

    INSTALLED_APPS = ["tenure.contrib.django", ...]
    TENURE = {"APP": "mysite.jobs:app"}  # or {"URL": "sqlite:////var/lib/mysite/jobs.db"}

Jobs are found in every installed app's `jobs.py`, `manage.py tenure worker` runs them, and `on_commit` enqueues them
once a transaction has committed.
"""

from tenure.domain.extras import Extra, needs

try:
    import django  # noqa: F401 only asked for
except ImportError as error:
    raise ImportError(needs("tenure.contrib.django", Extra.DJANGO)) from error

from tenure.contrib.django.commits import on_commit
from tenure.contrib.django.configuration import get_app

__all__ = ["get_app", "on_commit"]
