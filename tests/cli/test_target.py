"""Finding the app and its store."""

from pathlib import Path

import pytest

from tenure.service.cli.target import hidden, path_of, shown_url
from tests.cli.kit import Cli, Shop

SHOP = "tests.cli.shop:app"


def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **sources: str) -> None:
    """Modules in the current folder."""
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("cli_absent:app", "no module 'cli_absent'"),
        ("cli_absent.deeper:app", "no module 'cli_absent.deeper'"),
        ("cli_needy:app", "needs 'cli_not_installed'"),
        ("cli_broken:app", "broke when it was imported: ZeroDivisionError"),
        ("cli_script:app", "ended the program when it was imported"),
        ("cli_syntax:app", "broke when it was imported: SyntaxError"),
        ("cli_fine:application", "has no 'application': it has app"),
        ("cli_empty:app", "it has no Tenure(...) at all"),
        ("cli_fine:number", "is a int, not a Tenure(...)"),
        (":app", "give MODULE:APP, as in shop.jobs:app"),
        (".shop:app", "give MODULE:APP, as in shop.jobs:app"),
    ],
)
def test_an_app_that_cant_be_found(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app: str, said: str
) -> None:
    modules(
        tmp_path,
        monkeypatch,
        cli_needy="import cli_not_installed",
        cli_broken="1 / 0",
        cli_script="import sys; sys.exit(4)",
        cli_syntax="app = = 1",
        cli_fine="from tenure import Tenure\napp = Tenure('memory://')\nnumber = 1",
        cli_empty="",
    )
    for argv in (["worker", app], ["jobs", "--app", app]):
        ran = cli(*argv)
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err
        assert "Traceback" not in ran.err
        assert len(ran.err.splitlines()) == 1


def test_where_a_module_broke_is_shown_with_debug(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules(tmp_path, monkeypatch, cli_breaks="1 / 0")
    assert "--debug shows where" in cli("jobs", "--app", "cli_breaks:app").err
    assert "cli_breaks.py" in cli("jobs", "--app", "cli_breaks:app", "--debug").err


def test_the_apps_own_store_is_used(cli: Cli, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (id,) = shop.enqueue()
    monkeypatch.delenv("TENURE_URL")
    modules(tmp_path, monkeypatch, cli_own=f"from tenure import Tenure\napp = Tenure({shop.url!r})")
    ran = cli.done("jobs", "--app", "cli_own:app", "--json")
    assert [job["id"] for job in ran.document["jobs"]] == [id]
    assert ran.err == ""


def test_the_environment_goes_before_the_apps_own_and_says_so(
    cli: Cli, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (id,) = shop.enqueue()
    modules(tmp_path, monkeypatch, cli_other="from tenure import Tenure\napp = Tenure('sqlite:///other.db')")
    ran = cli.done("jobs", "--app", "cli_other:app", "--json")
    assert [job["id"] for job in ran.document["jobs"]] == [id]
    assert ran.err == f"tenure: using TENURE_URL ({shop.url}), not the app's own store (sqlite:///other.db)\n"


def test_an_option_goes_before_the_environment(cli: Cli, shop: Shop, tmp_path: Path) -> None:
    shop.enqueue()
    elsewhere = Shop(tmp_path / "elsewhere.db")
    (id,) = elsewhere.enqueue()
    assert [job["id"] for job in cli.json("jobs", "--url", elsewhere.url)["jobs"]] == [id]


def test_the_apps_jobs_are_known_at_another_store(cli: Cli, tmp_path: Path) -> None:
    """Its declaration says the queue, and refuses wrong arguments."""
    elsewhere = Shop(tmp_path / "elsewhere.db")
    id = cli.done("enqueue", "send", "--app", SHOP, "--url", elsewhere.url, "--arg", "to=a").out.strip()
    assert elsewhere.get(id).queue == "mail"
    assert cli("enqueue", "send", "--app", SHOP, "--url", elsewhere.url, "--arg", "too=a").code == 2


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///jobs.db", "sqlite:///jobs.db"),
        ("redis://me:pass@host:1/0", "redis://me:…@host:1/0"),
        ("redis://:p%40ss@host", "redis://:…@host"),
        ("postgresql://host/db?user=me&password=s%20t", "postgresql://host/db?user=me&password=…"),
        (None, "a store without a URL"),
        ("redis://[broken", "redis://[broken"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str | None, shown: str) -> None:
    assert shown_url(url) == shown


def test_a_decoded_password_is_hidden_too() -> None:
    assert hidden("can't log in with p@ss", "redis://:p%40ss@host") == "can't log in with …"


def test_the_file_of_a_url() -> None:
    assert path_of("sqlite:////var/jobs%20of%20mine.db") == Path("/var/jobs of mine.db")
    assert path_of("sqlite:///jobs.db") == Path.cwd() / "jobs.db"
    assert path_of("memory://") is None
    assert path_of(None) is None
