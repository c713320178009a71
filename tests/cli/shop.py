"""The app of the command line's tests; its store is where TENURE_URL says."""

from tenure import Tenure
from tests.cli.handlers import jobs

app = Tenure()
app.include(jobs)
