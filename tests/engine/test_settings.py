"""Settings: from the environment, and refused in words that name the variable."""

from typing import Any

import pytest

from tenure import InvalidValue, Settings, Tenure
from tenure.engine.settings import settings_from


def test_the_defaults_are_those_of_the_contract() -> None:
    settings = settings_from({})
    assert (settings.lease, settings.grace, settings.shutdown_grace) == (60, 5, 30)
    assert (settings.poll, settings.poll_at_most, settings.url) == (0.5, 2, None)


def test_the_environment_sets_what_isnt_given() -> None:
    environment = {"TENURE_URL": "memory://", "TENURE_CONCURRENCY": "7", "TENURE_LEASE": "1.5", "OTHER": "x"}
    settings = settings_from(environment, lease=3.0, grace=None)
    assert (settings.url, settings.concurrency, settings.lease, settings.grace) == ("memory://", 7, 3.0, 5)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TENURE_CONCURRENCY", "many"),
        ("TENURE_CONCURRENCY", ""),
        ("TENURE_CONCURRENCY", "1.5"),
        ("TENURE_CONCURRENCY", "0"),
        ("TENURE_CONCURRENCY", "1001"),
        ("TENURE_LEASE", "1m"),
        ("TENURE_LEASE", "0"),
        ("TENURE_LEASE", "-5"),
        ("TENURE_LEASE", "nan"),
        ("TENURE_LEASE", "inf"),
        ("TENURE_LEASE", "86401"),
        ("TENURE_GRACE", "-1"),
        ("TENURE_POLL", "0"),
        ("TENURE_POLL", "5"),
        ("TENURE_SHUTDOWN_GRACE", "soon"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(variable: str, value: str) -> None:
    with pytest.raises(InvalidValue, match=variable):
        settings_from({variable: value})


@pytest.mark.parametrize(
    "given", [{"lease": "60"}, {"lease": True}, {"lease": None}, {"concurrency": 1.5}, {"poll": 3, "poll_at_most": 2}]
)
def test_what_is_given_is_checked_too(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(given))):
        Settings(**given)


def test_an_app_reads_its_url_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_URL", "memory://")
    assert Tenure().url == "memory://"
    monkeypatch.setenv("TENURE_URL", "nonsense")
    with pytest.raises(InvalidValue, match="url 'nonsense'"):
        Tenure()
    assert Tenure("memory://").url == "memory://"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"concurrency": 0}, "concurrency 0"),
        ({"queues": "mail"}, "queues 'mail': give a list of names"),
        ({"queues": {"mail": 0}}, "queue mail 0"),
        ({"queues": ["mail box"]}, "queue 'mail box'"),
        ({"lease": 0.01}, "lease 0.01: give 0.05 to 86400 seconds"),
        ({"lease": "1"}, "lease '1'"),
        ({"grace": -1}, "grace -1"),
        ({"tenants": ["_system"]}, "tenant '_system'"),
        ({"name": "my worker"}, "worker 'my worker'"),
    ],
)
def test_a_workers_terms_are_checked_before_it_starts(options: dict[str, Any], says: str) -> None:
    app = Tenure("memory://")

    @app.job
    async def work() -> None: ...

    with pytest.raises(InvalidValue, match=says):
        app.worker(**options)
