"""The app that the demo's workers run. Where everything is was written down before they were started."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

from tenure import Tenure
from tenure.demo.jobs import Services, jobs
from tenure.demo.places import VARIABLE, Places, register_scheme

register_scheme()
app = Tenure()
app.include(jobs)


@app.lifespan
async def services() -> AsyncIterator[Services]:
    yield Places(Path(os.environ[VARIABLE])).services()
