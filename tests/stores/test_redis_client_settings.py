"""URLs and clients of others as settings: all that is meant, and a clear error for what can't be."""

import math
import ssl
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio

from tenure.domain.errors import InvalidValue, Unsupported
from tenure.stores.redis.client import ClientSettings


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("redis://", {}),
        ("redis://h", {"host": "h"}),
        ("valkey://h:7", {"host": "h", "port": 7}),
        ("redis://h/", {"host": "h"}),
        ("redis://h:7/3", {"host": "h", "port": 7, "db": 3}),
        ("redis://h?db=3", {"host": "h", "db": 3}),
        ("redis://h/3?db=3", {"host": "h", "db": 3}),
        ("redis://:p%2F%40@h", {"host": "h", "password": "p/@"}),
        ("redis://u%3A:p:q@h", {"host": "h", "user": "u:", "password": "p:q"}),
        ("redis://:p@ss@h", {"host": "h", "password": "p@ss"}),
        ("redis://[::1]:7", {"host": "::1", "port": 7}),
        ("redis://[::1]", {"host": "::1"}),
        ("unix:///run/v.sock?db=2", {"path": "/run/v.sock", "db": 2}),
        ("unix://u:p@/run/v%20w.sock", {"path": "/run/v w.sock", "user": "u", "password": "p"}),
        (
            "redis://h?prefix=jobs:a&timeout=0.5&connect_timeout=2&calls=9&name=me",
            {"host": "h", "prefix": "jobs:a", "timeout": 0.5, "connect_timeout": 2.0, "calls": 9, "name": "me"},
        ),
    ],
)
def test_a_url_means(url: str, meant: dict[str, Any]) -> None:
    assert ClientSettings.parse(url) == ClientSettings(**meant)


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_tls_by_scheme(scheme: str) -> None:
    settings = ClientSettings.parse(f"{scheme}://h")
    assert settings.tls is not None
    assert settings.tls.verify_mode is ssl.CERT_REQUIRED
    assert settings.tls.check_hostname
    lax = ClientSettings.parse(f"{scheme}://h?ssl_cert_reqs=none").tls
    assert lax is not None
    assert (lax.verify_mode, lax.check_hostname) == (ssl.CERT_NONE, False)
    nameless = ClientSettings.parse(f"{scheme}://h?ssl_check_hostname=false").tls
    assert nameless is not None
    assert (nameless.verify_mode, nameless.check_hostname) == (ssl.CERT_REQUIRED, False)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "scheme"),
        ("h:6379", "scheme"),
        ("http://h", "scheme"),
        ("postgresql://h", "redis://, valkey://, rediss://"),
        ("redis://h?what=1", "unknown option 'what'; known are prefix, db,"),
        ("redis://h?ssl_cert_reqs=none", "unknown option 'ssl_cert_reqs'"),
        ("redis://h?db", "give the option db a value"),
        ("redis://h?db=", "give the option db a value"),
        ("redis://h?db=1&db=1", "twice"),
        ("redis://h/1?db=2", "give one of them"),
        ("redis://h?db=-1", "whole number"),
        ("redis://h?db=x", "whole number"),
        ("redis://h?db=٣", "whole number"),
        ("redis://h?db=99999999999999999999999", "whole number from 0"),
        ("redis://h:0", "port 0"),
        ("redis://h:65536", "port 65536"),
        ("redis://h:x", "host:port/db"),
        ("redis://h/x", "host:port/db"),
        ("redis://h/1/2", "host:port/db"),
        ("redis://u@h", "user:password"),
        ("redis://u:@h", "user:password"),
        ("redis://h#x", "%23"),
        ("redis://h?timeout=0", "seconds above 0"),
        ("redis://h?timeout=nan", "seconds above 0"),
        ("redis://h?timeout=inf", "seconds above 0"),
        ("redis://h?timeout=x", "give seconds"),
        ("redis://h?prefix={x}", "prefix"),
        ("redis://h?name=a%20b", "name"),
        ("redis://h?calls=0", "calls"),
        ("unix://", "Unix socket"),
        ("rediss://h?ssl_cert_reqs=maybe", "required or none"),
        ("rediss://h?ssl_check_hostname=maybe", "true or false"),
        ("rediss://h?ssl_ca_certs=/no/such/file", "can't be used"),
    ],
)
def test_a_url_that_cannot_be_meant(url: str, says: str) -> None:
    with pytest.raises(InvalidValue, match=r"^(url|port|db|calls|timeout|prefix|name|path|ssl_|tls)") as refused:
        ClientSettings.parse(url)
    assert says in str(refused.value)


@pytest.mark.parametrize("secret", ["se/cret", "se?cret", "se?cret=1", "se#cret", "se@cret/x", "[secret"])
def test_no_error_quotes_a_login(secret: str) -> None:
    for url in (f"redis://u:{secret}@h?what=1", f"rediss://:{secret}@h:x", f"redis://{secret}@h"):
        with pytest.raises(InvalidValue) as refused:
            ClientSettings.parse(url)
        assert "cret" not in str(refused.value)


def test_no_repr_has_a_password() -> None:
    settings = ClientSettings.parse("redis://user:secret@h:7/1")
    assert "secret" not in f"{settings!r} {settings} {settings.shown}"
    assert settings.shown == "redis://h:7/1"
    assert ClientSettings.parse("rediss://:secret@[::1]").shown == "rediss://[::1]:6379"
    assert ClientSettings.parse("unix://:secret@/s?db=1").shown == "unix:///s?db=1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": ""},
        {"port": True},
        {"port": "7"},
        {"db": 1.0},
        {"user": "u"},
        {"timeout": math.inf},
        {"silence": 0},
        {"connect_timeout": True},
        {"sent_bytes": 0},
        {"reply_bytes": 0},
        {"prefix": b"x"},
    ],
)
def test_a_setting_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        ClientSettings(**wrong)


@pytest.mark.parametrize(
    "client",
    [
        redis.Redis(host="h", port=7, db=3, username="u", password="p", socket_timeout=2.5, client_name="c"),
        redis.asyncio.Redis(host="h", port=7, db=3, username="u", password="p", socket_timeout=2.5, client_name="c"),
        valkey.Valkey(host="h", port=7, db=3, username="u", password="p", socket_timeout=2.5, client_name="c"),
        valkey.asyncio.Valkey(host="h", port=7, db=3, username="u", password="p", socket_timeout=2.5, client_name="c"),
        redis.Redis.from_url("redis://u:p@h:7/3?socket_timeout=2.5&client_name=c"),
    ],
    ids=lambda client: f"{type(client).__module__}",
)
def test_the_settings_of_anothers_client(client: Any) -> None:
    found = ClientSettings.of(client)
    assert (found.host, found.port, found.db, found.user, found.password) == ("h", 7, 3, "u", "p")
    assert (found.timeout, found.name, found.path, found.tls) == (2.5, "c", None, None)


@pytest.mark.parametrize("module", [redis, redis.asyncio, valkey, valkey.asyncio])
def test_a_unix_socket_and_tls_of_anothers_client(module: Any) -> None:
    kind = getattr(module, "Redis", None) or module.Valkey
    local = ClientSettings.of(kind(unix_socket_path="/s"))
    assert (local.path, local.password, local.user) == ("/s", None, None)
    secure = ClientSettings.of(kind(host="h", ssl=True, ssl_check_hostname=True)).tls
    assert secure is not None
    assert (secure.verify_mode, secure.check_hostname) == (ssl.CERT_REQUIRED, True)
    lax = ClientSettings.of(kind(host="h", ssl=True, ssl_cert_reqs="none", ssl_check_hostname=False)).tls
    assert lax is not None
    assert lax.verify_mode is ssl.CERT_NONE


def test_a_default_client_is_a_default_server() -> None:
    found = ClientSettings.of(valkey.Valkey())
    assert found == ClientSettings()


@pytest.mark.parametrize("client", [None, object(), "redis://h"])
def test_what_is_no_client(client: object) -> None:
    with pytest.raises(InvalidValue, match=r"give a redis\.Redis"):
        ClientSettings.of(client)


def test_what_of_a_client_cannot_be_taken_over() -> None:
    provider = redis.UsernamePasswordCredentialProvider("u", "secret")
    with pytest.raises(Unsupported, match="credential_provider") as refused:
        ClientSettings.of(redis.Redis(credential_provider=provider))
    assert "secret" not in str(refused.value)
    sentinel: Any = redis.sentinel.Sentinel
    with pytest.raises(Unsupported, match="Sentinel"):
        ClientSettings.of(sentinel([("h", 1)]).master_for("main"))
    with pytest.raises(Unsupported, match="ssl_validate_ocsp"):
        ClientSettings.of(valkey.Valkey(ssl=True, ssl_validate_ocsp=True))


def test_certificates_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(InvalidValue, match="can't be used"):
        ClientSettings.parse(f"rediss://h?ssl_ca_certs={tmp_path}/ca.pem")
