"""Where a server is and how to come in: from a URL, or from a client that the user's program already has."""

import math
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from tenure.domain.errors import InvalidValue, Unsupported

PLAIN, SECURE, UNIX = ("redis", "valkey"), ("rediss", "valkeys"), "unix"
DEFAULT_PORT = 6379
MOST_DATABASES = 1 << 24
MOST_CALLS = 1_000_000
LONGEST_SECONDS = 24 * 3600.0
PREFIX = re.compile(r"[A-Za-z0-9._:-]{1,64}")
NAME = re.compile(r"[!-~]{1,64}")
TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
OPTIONS = ("prefix", "db", "timeout", "connect_timeout", "calls", "name")
"""Of every URL; those of TLS are rediss:// ones' only."""


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """A server, a way to it, and limits. Its repr has no password."""

    host: str = "localhost"
    port: int = DEFAULT_PORT
    path: str | None = None
    """The Unix socket, which comes before host and port."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    db: int = 0
    prefix: str = "tenure"
    """What the names of a store's keys begin with. The client itself sends what it is given."""
    name: str = "tenure"
    """What CLIENT LIST shows."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    timeout: float = 10.0
    """Seconds for one call, from the moment it is made to its reply; for connecting see `connect_timeout`."""
    connect_timeout: float = 5.0
    """Seconds for one attempt to connect, log in and select the database."""
    silence: float = 10.0
    """After so many seconds without a byte from a server that owes a reply, the connection counts as broken."""
    calls: int = 10_000
    """How many calls are on their way at once. More wait for their turn, within their timeout."""
    sent_bytes: int = 16 << 20
    """How many bytes of calls are on their way at once; one that is larger goes alone."""
    reply_bytes: int = 512 << 20
    """The largest reply."""

    def __post_init__(self) -> None:
        if self.path is None and not self.host:
            raise InvalidValue("host: name the server's host")
        if self.path == "":
            raise InvalidValue("path: name the server's Unix socket, as in unix:///run/valkey.sock")
        if self.user is not None and self.password is None:
            raise InvalidValue("user: give a password too, as in redis://user:password@host")
        _whole("port", self.port, 1, 65_535)
        _whole("db", self.db, 0, MOST_DATABASES)
        _whole("calls", self.calls, 1, MOST_CALLS)
        _whole("sent_bytes", self.sent_bytes, 1, 1 << 40)
        _whole("reply_bytes", self.reply_bytes, 1, 1 << 40)
        for name in ("timeout", "connect_timeout", "silence"):
            check_seconds(name, getattr(self, name))
        _text("prefix", self.prefix, PREFIX, "up to 64 of A-Z, a-z, 0-9 and . _ : -")
        _text("name", self.name, NAME, "up to 64 printable ASCII characters without spaces")

    @property
    def shown(self) -> str:
        """The server's address in messages."""
        if self.path is not None:
            return f"unix://{self.path}" + (f"?db={self.db}" if self.db else "")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis{'s' if self.tls else ''}://{host}:{self.port}" + (f"/{self.db}" if self.db else "")

    @classmethod
    def parse(cls, url: str) -> "ClientSettings":
        """Reads redis://, rediss://, valkey://, valkeys:// and unix://. An `InvalidValue` quotes no login."""
        if not isinstance(url, str):
            raise InvalidValue(f"url: give a string, not {type(url).__name__}")
        scheme, separator, rest = url.partition("://")
        if not separator or scheme not in (*PLAIN, *SECURE, UNIX):
            known = ", ".join(f"{one}://" for one in (*PLAIN, *SECURE, UNIX))
            raise InvalidValue(f"url: the scheme {scheme if separator else ''!r:.20} isn't one of {known}")
        if "#" in rest:
            raise InvalidValue("url: write # as %23")
        place, _, query = rest.partition("?")
        if "@" in query:  # what stands before it may be the end of a password
            raise InvalidValue("url: there is an @ behind the ?; in a password write ? as %3F, in an option @ as %40")
        given = _options(query, OPTIONS + (TLS_OPTIONS if scheme in SECURE else ()))
        login, at, place = place.rpartition("@")
        values: dict[str, Any] = _login(login) if at else {}
        values |= {"path": unquote(place)} if scheme == UNIX else _address(place, given)
        if scheme in SECURE:
            values["tls"] = tls_context({name: given.pop(name) for name in TLS_OPTIONS if name in given})
        values |= {name: _read(name, text) for name, text in given.items()}
        return cls(**values)

    @classmethod
    def of(cls, client: Any) -> "ClientSettings":
        """The server, login, database and TLS of a client of `redis` or `valkey`, blocking or asyncio."""
        pool = getattr(client, "connection_pool", None)
        given = getattr(pool, "connection_kwargs", None)
        if not isinstance(given, Mapping):
            raise InvalidValue(
                f"client: a {type(client).__name__} has no connection pool to read: give a redis.Redis, a "
                "valkey.Valkey, their asyncio clients, or a URL"
            )
        if hasattr(pool, "sentinel_manager"):
            raise Unsupported("client: it finds its server by Sentinel; give a client or a URL of the primary itself")
        for dynamic in ("credential_provider", "redis_connect_func", "valkey_connect_func"):
            if given.get(dynamic) is not None:
                raise Unsupported(f"client: it logs in by its {dynamic}; give a URL with user and password")
        return cls(**_taken(given, secure="SSL" in getattr(pool, "connection_class", type).__name__))

    def at(self, host: str, port: int) -> "ClientSettings":
        """The same on another server, as a redirection names it."""
        return replace(self, host=host or self.host, port=port, path=None)


def _taken(given: Mapping[str, Any], secure: bool) -> dict[str, Any]:
    """Our names of what a client's connection pool was given."""
    values: dict[str, Any] = {"db": given.get("db") or 0}
    values |= (
        {"path": given["path"]}
        if given.get("path")
        else {
            "host": given.get("host") or "localhost",
            "port": given.get("port") or DEFAULT_PORT,
        }
    )
    if given.get("password"):
        values["password"] = given["password"]
        values["user"] = given.get("username") or None
    for ours, theirs in (("timeout", "socket_timeout"), ("connect_timeout", "socket_connect_timeout")):
        if given.get(theirs):
            values[ours] = float(given[theirs])
    if given.get("client_name"):
        values["name"] = given["client_name"]
    if secure:
        others = [name for name in _OTHER_TLS if given.get(name)]
        if others:
            raise Unsupported(f"client: {', '.join(others)} can't be taken over: give ClientSettings with tls=")
        values["tls"] = tls_context({name: given[name] for name in _KEPT_TLS if given.get(name) is not None})
    return values


_KEPT_TLS = (*TLS_OPTIONS, "ssl_ca_path", "ssl_ca_data", "ssl_password", "ssl_min_version", "ssl_ciphers")
_OTHER_TLS = (
    "ssl_validate_ocsp",
    "ssl_validate_ocsp_stapled",
    "ssl_ocsp_context",
    "ssl_ocsp_expected_cert",
    "ssl_include_verify_flags",
    "ssl_exclude_verify_flags",
)


def tls_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    """A context of the options that `redis` and `valkey` have; without any the server must prove its name."""
    wanted = str(options.get("ssl_cert_reqs", "required")).lower()
    if wanted not in ("required", "optional", "none") and not isinstance(options["ssl_cert_reqs"], ssl.VerifyMode):
        raise InvalidValue(f"ssl_cert_reqs {wanted!r:.80}: give required or none")
    unproven = wanted == "none" or options.get("ssl_cert_reqs") is ssl.CERT_NONE
    try:
        context = ssl.create_default_context(
            cafile=options.get("ssl_ca_certs"), capath=options.get("ssl_ca_path"), cadata=options.get("ssl_ca_data")
        )
        if options.get("ssl_certfile"):
            context.load_cert_chain(
                options["ssl_certfile"], options.get("ssl_keyfile"), password=options.get("ssl_password")
            )
        if options.get("ssl_min_version"):
            context.minimum_version = options["ssl_min_version"]
        if options.get("ssl_ciphers"):
            context.set_ciphers(options["ssl_ciphers"])
    except (OSError, ValueError, TypeError) as error:  # an ssl.SSLError is an OSError
        raise InvalidValue(f"tls: the certificates or the key can't be used: {error}") from error
    context.check_hostname = not unproven and _flag("ssl_check_hostname", options.get("ssl_check_hostname", True))
    if unproven:
        context.verify_mode = ssl.CERT_NONE
    return context


def _options(query: str, known: tuple[str, ...]) -> dict[str, str]:
    given: dict[str, str] = {}
    for option in filter(None, query.split("&")):
        name, equals, text = option.partition("=")
        if name not in known:
            raise InvalidValue(f"url: unknown option {name!r:.40}; known are {', '.join(known)}")
        if not equals or not text:
            raise InvalidValue(f"url: give the option {name} a value, as in ?{name}=…")
        if name in given:
            raise InvalidValue(f"url: the option {name} is given twice")
        given[name] = unquote(text)
    return given


def _login(text: str) -> dict[str, str]:
    """Of user:password@, :password@. A login is never quoted in an error."""
    user, colon, password = text.partition(":")
    if not colon or not password:
        raise InvalidValue("url: before the @ give user:password, or :password")
    login = {"password": unquote(password)}
    return {**login, "user": unquote(user)} if user else login


_ADDRESS = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^:/\[\]]*)(:(?P<port>[0-9]{1,5}))?(/(?P<db>[0-9]{1,8})?)?", re.ASCII
)


def _address(place: str, given: dict[str, str]) -> dict[str, Any]:
    """Of host:port/db."""
    found = _ADDRESS.fullmatch(place)
    if found is None:
        raise InvalidValue(
            "url: it isn't scheme://user:password@host:port/db; in a password write / ? # as %2F %3F %23"
        )
    values: dict[str, Any] = {"host": unquote(found["host"].strip("[]")) or "localhost"}
    if found["port"] is not None:
        values["port"] = int(found["port"])
    if found["db"] is not None and given.setdefault("db", found["db"]) != found["db"]:
        raise InvalidValue(f"url: the database is /{found['db']} and db={given['db']!r:.20}: give one of them")
    return values


def _read(name: str, text: str) -> int | float | str:
    if name in ("db", "calls"):
        if not (text.isascii() and text.isdigit()):
            raise InvalidValue(f"{name} {text!r:.40}: give a whole number")
        return int(text[:20])
    if name in ("timeout", "connect_timeout"):
        try:
            return float(text)
        except ValueError:
            raise InvalidValue(f"{name} {text!r:.40}: give seconds") from None
    return text


def _flag(name: str, given: object) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    flag = words.get(str(given).lower())
    if flag is None:
        raise InvalidValue(f"{name} {given!r:.40}: give true or false")
    return flag


def _whole(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InvalidValue(f"{name} {value!r:.40}: give a whole number from {least} to {most}")


def check_seconds(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidValue(f"{name} {value!r:.40}: give seconds as a number")
    if not (math.isfinite(value) and 0 < value <= LONGEST_SECONDS):
        raise InvalidValue(f"{name} {value!r:.40}: give seconds above 0, up to {LONGEST_SECONDS:.0f}")


def _text(name: str, value: object, allowed: re.Pattern[str], words: str) -> None:
    if not isinstance(value, str) or not allowed.fullmatch(value):
        raise InvalidValue(f"{name} {value!r:.80}: give {words}")
