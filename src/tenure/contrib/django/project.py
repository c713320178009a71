"""The project's app with Django set up, for worker processes: `tenure worker tenure.contrib.django.project:app`.

`DJANGO_SETTINGS_MODULE` names the project. Not for code of the project itself: that has Django already.
"""

import django
from django.apps import apps

from tenure.contrib.django.configuration import get_app

if not apps.ready:
    django.setup()

app = get_app()
