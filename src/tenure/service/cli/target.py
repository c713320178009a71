"""What a command is aimed at: the app, its store, and whose jobs."""

import argparse
import asyncio
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, Unpack
from urllib.parse import parse_qsl, unquote, urlsplit

from tenure.domain.errors import InvalidValue, NotReady, StoreUnavailable
from tenure.domain.names import tenant_name
from tenure.domain.store import Store
from tenure.engine.app import Tenant, Tenure
from tenure.engine.filters import Where
from tenure.engine.importing import import_app
from tenure.engine.listing import Listing
from tenure.service.cli.output import Out
from tenure.service.cli.server import missing_schema, on_server

T = TypeVar("T")

URL = "TENURE_URL"
NO_STORE = f"no store is named: give --url, as in --url sqlite:///jobs.db, or --app, or set {URL}"
HIDDEN = "…"
_SECRET_WORDS = ("password", "passwd", "secret", "token")


class Target:
    """An app, the tenant meant (None: all), and the loop that its calls run on."""

    def __init__(self, app: Tenure, tenant: str | None, runner: asyncio.Runner) -> None:
        self.app = app
        self.tenant = tenant
        self._runner = runner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs to the end. Between two runs Ctrl-C works as everywhere."""
        return self._runner.run(work)

    @property
    def surface(self) -> Tenant:
        """The tenant's jobs."""
        if self.tenant is None:
            raise AssertionError("one tenant's jobs were asked for, and all tenants are meant")
        return self.app.tenant(self.tenant)

    def jobs(self, limit: int, **where: Unpack[Where]) -> Listing:
        """Jobs of whom is meant, newest first."""
        if self.tenant is None:
            return self.app.fleet.jobs(limit=limit, **where)
        return self.surface.jobs(limit=limit, **where)

    async def store(self) -> Store:
        return await self.app.opened()


@contextmanager
def opened(args: argparse.Namespace, out: Out, *, creates: bool = False) -> Iterator[Target]:
    """What the options name. A file or schema that isn't there is an error, unless the command `creates` it."""
    app = app_of(args, out)
    check_named(app, args.app)
    if not creates:
        check_there(app.url)
    if app.url == "memory://":
        out.say("memory:// is this command's own and ends with it; give the --url of a store that stays")
    tenant = None if getattr(args, "all_tenants", False) else getattr(args, "tenant", None)
    if tenant is not None:
        tenant_name(tenant)
    with asyncio.Runner() as runner:
        try:
            yield Target(app, tenant, runner)
        finally:
            runner.run(app.close())


def app_of(args: argparse.Namespace, out: Out) -> Tenure:
    """The app at the store that the options name."""
    declared = None if args.app is None else load_app(args.app)
    url = url_of(args, declared, out)
    if declared is None and url is None:
        raise NotReady(NO_STORE)
    if declared is None:
        return Tenure(url)
    if url in (None, declared.url):
        return declared
    elsewhere = Tenure(url, blobs=declared.blob_store, settings=declared.settings)
    elsewhere.codecs = declared.codecs
    elsewhere.include(declared)
    return elsewhere


def check_named(app: Tenure, name: str) -> None:
    """Refuses an app without a store, in the words of the command line."""
    try:
        app.made()
    except NotReady:
        raise NotReady(names_none(name)) from None


def names_none(app: str) -> str:
    """What is said of an app without a store."""
    return f"{app} names no store: give --url, as in --url sqlite:///jobs.db, or set {URL}"


def url_of(args: argparse.Namespace, declared: Tenure | None, out: Out) -> str | None:
    """Where the store is: `--url`, else TENURE_URL, else the app's own."""
    own = None if declared is None else declared.url
    if args.url is not None:
        return str(args.url)
    given = os.environ.get(URL)
    if given and own is not None and given != own:
        out.say(f"using {URL} ({shown_url(given)}), not the app's own store ({shown_url(own)})")
    return given or own


def load_app(name: str) -> Tenure:
    """The app that MODULE:APP names. Raises `NotReady` that says what to do."""
    module = name.partition(":")[0]
    if not module or module.startswith("."):
        raise InvalidValue(f"app {name!r:.80}: give MODULE:APP, as in shop.jobs:app")
    try:
        return import_app(name)
    except NotReady as error:
        hint = "--debug shows where" if error.__cause__ else "give MODULE:APP, as in shop.jobs:app"
        raise NotReady(f"{error}; {hint}") from error.__cause__
    except SystemExit as error:
        advice = "let it do so only under if __name__ == '__main__'"
        raise NotReady(f"module {module!r} ended the program when it was imported: {advice}") from error


# URLs


def path_of(url: str | None) -> Path | None:
    """The file of an embedded store; None for any other."""
    scheme, _, path = (url or "").partition(":///")
    return Path(unquote(path)).absolute() if scheme == "sqlite" and path else None


def check_there(url: str | None) -> None:
    """Refuses a file or schema that doesn't exist: reading would create it, and a mistyped URL would look like an empty
    store.
    """
    missing = missing_schema(url) if url is not None and on_server(url) else _missing_file(url)
    if missing is not None:
        raise StoreUnavailable(f"{missing} doesn't exist: check the URL, or create the store with: tenure migrate")


def _missing_file(url: str | None) -> Path | None:
    path = path_of(url)
    return path if path is not None and path.parent.is_dir() and not path.exists() else None


def shown_url(url: str | None) -> str:
    """A URL without what it keeps secret."""
    return hidden(url or "a store without a URL", url)


def hidden(text: str, url: str | None) -> str:
    """A text without the secrets of a URL that may be quoted in it."""
    for secret in _secrets(url or ""):
        text = text.replace(secret, HIDDEN)
    return text


def _secrets(url: str) -> list[str]:
    """Passwords of a URL, as they stand in it and as they are meant, longest first."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    found = [parts.password or ""]
    for field in parts.query.split("&"):
        name, _, value = field.partition("=")
        if any(word in name.lower() for word in _SECRET_WORDS):
            found += [value, *(decoded for _, decoded in parse_qsl(field))]
    return sorted({secret for one in found for secret in (one, unquote(one)) if secret}, key=len, reverse=True)
