"""`tenure jobs`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tenure import Tenure
from tenure.domain.calls import Retry
from tenure.domain.job import Failure, Traceback
from tests.cli.kit import UNKNOWN, Cli, Shop

SECRET = "s3cr3t-payload"


def test_a_list_newest_first(cli: Cli, shop: Shop) -> None:
    first, second = shop.enqueue(2)
    (failed,) = shop.fail(1, "no\nstamp \x1b[31m", priority=50)
    ran = cli.done("jobs")
    head, *rows = ran.lines
    assert head.split() == ["id", "type", "queue", "status", "attempt", "age", "error"]
    assert [row.split()[0] for row in rows] == [failed, second, first]
    assert rows[0].split()[1:5] == ["send", "mail", "failed", "1/3"]
    assert rows[0].endswith("Refused: no stamp  [31m")
    assert rows[1].split()[1:5] == ["send", "mail", "ready", "0/3"]
    assert len({row.index("send") for row in rows}) == 1


def test_no_jobs(cli: Cli) -> None:
    cli.done("migrate")
    ran = cli.done("jobs")
    assert (ran.out, ran.err) == ("", "tenure: no jobs\n")
    assert cli.json("jobs") == {"jobs": [], "more": False}


def test_filters(cli: Cli, shop: Shop) -> None:
    (mail,) = shop.enqueue(labels={"team": "crm", "tier": "a"})
    (video,) = shop.enqueue(queue="video", labels={"team": "crm"})
    (other,) = shop.enqueue(job_type="silent")
    (failed,) = shop.fail(1, priority=100)
    (foreign,) = shop.enqueue(tenant="acme")

    def ids(*argv: str) -> list[str]:
        return [job["id"] for job in cli.json("jobs", *argv)["jobs"]]

    assert ids("--queue", "video") == [video]
    assert ids("--type", "silent") == [other]
    assert ids("--state", "failed") == [failed]
    assert ids("--state", "failed,pending", "--type", "send") == [failed, video, mail]
    assert ids("--label", "team=crm") == [video, mail]
    assert ids("--label", "team=crm", "--label", "tier=a") == [mail]
    assert ids("--tenant", "acme") == [foreign]
    assert ids("--all-tenants") == [foreign, failed, other, video, mail]
    assert ids("--tenant", "nobody") == []


def test_all_tenants_are_told_apart(cli: Cli, shop: Shop) -> None:
    shop.enqueue()
    shop.enqueue(tenant="acme")
    _, first, second = cli.done("jobs", "--all-tenants").lines
    assert (first.split()[0], second.split()[0]) == ("acme", "default")


def test_a_limit_says_that_there_are_more(cli: Cli, shop: Shop) -> None:
    ids = shop.enqueue(3)
    told = cli.json("jobs", "--limit", "2")
    assert ([job["id"] for job in told["jobs"]], told["more"]) == ([ids[2], ids[1]], True)
    assert "there are more: these are the newest 2" in cli.done("jobs", "--limit", "2").err
    assert cli.json("jobs", "--limit", "3")["more"] is False


def test_explain_says_what_holds_jobs_back(cli: Cli, shop: Shop) -> None:
    (later,) = shop.enqueue(delay=3_600)
    (now,) = shop.enqueue(queue="video")
    cli.done("queues", "pause", "mail")
    gates = {job["id"]: job["gates"] for job in cli.json("jobs", "--explain")["jobs"]}
    assert gates == {later: ["scheduled", "queue_paused"], now: []}
    assert cli.done("jobs", "--explain").lines[-1].endswith("scheduled, queue_paused")
    assert all(job["gates"] == [] for job in cli.json("jobs")["jobs"])


def test_payloads_are_shown_of_a_single_job_only(cli: Cli, shop: Shop) -> None:
    id = cli.done("enqueue", "send", "--arg", f"to={SECRET}").out.strip()
    for argv in (["jobs"], ["jobs", "--json"], ["jobs", "--explain", "--json"], ["top", "--once", "--json"]):
        assert SECRET not in cli.done(*argv).out
    assert SECRET in cli.done("jobs", id).out
    assert cli.json("jobs", id)["payload"] == {"to": SECRET}


def test_json_has_the_words_of_the_python_api(cli: Cli, shop: Shop) -> None:
    (id,) = shop.fail()
    whole, python = cli.json("jobs", id), shop.get(id)
    assert {**python.to_dict(), "result": None} == whole
    assert (whole["job_type"], whole["last_error"]["family"]) == ("send", "Refused")
    (listed,) = cli.json("jobs")["jobs"]
    assert listed.keys() == whole.keys() - {"payload", "history", "tracebacks", "result"}


def test_the_whole_story_of_a_job(cli: Cli, shop: Shop) -> None:
    (id,) = shop.enqueue(key="k", labels={"team": "crm"}, max_attempts=2)
    shop.settle(shop.claim(), Retry(Failure("Greylisted", "come back"), 0))
    shop.work()
    told = cli.json("jobs", id)
    assert (told["state"], told["attempt"], told["result"]) == ("succeeded", 2, "a@b.example × 1")
    assert [one["outcome"] for one in told["history"]] == ["retry_scheduled", "succeeded"]
    assert told["history"][0]["error"] == {"family": "Greylisted", "message": "come back"}
    assert told["labels"] == {"team": "crm"}
    text = cli.done("jobs", id).out
    fields = dict(line.split("  ", 1) for line in text.split("\n\n")[0].splitlines())
    shown = {name: value.strip() for name, value in fields.items()}
    assert shown["id"] == id
    assert shown["attempt"] == "2 of 2"
    assert shown["labels"] == "team=crm"
    assert shown["key"] == "k"
    assert json.loads(shown["payload"]) == {"to": "a@b.example"}
    assert json.loads(shown["result"]) == "a@b.example × 1"
    history = text.split("\n\n")[1].splitlines()
    assert len(history) == 3
    assert history[1].split()[:2] == ["1", "north"]
    assert history[1].endswith("Greylisted: come back")


def test_the_story_of_a_waiting_job_says_what_holds_it(cli: Cli, shop: Shop) -> None:
    (id,) = shop.enqueue(delay=3_600)
    assert cli.json("jobs", id)["gates"] == ["scheduled"]
    assert "held by   scheduled\n" in cli.done("jobs", id).out


class Private:
    """A codec that only its app has."""

    name = "private"

    def encode(self, value: Any) -> bytes:
        return bytes(255 - one for one in json.dumps(value).encode())

    def decode(self, body: bytes, type: Any = Any) -> Any:
        return json.loads(bytes(255 - one for one in body))


def test_a_payload_that_cant_be_read_is_named(cli: Cli, shop: Shop) -> None:
    async def enqueue(app: Tenure) -> str:
        app.codec(Private())
        return (await app.send("post", {"to": "a"}, codec="private")).id

    id = shop.use(enqueue)
    assert cli.json("jobs", id)["payload"].startswith("<11 bytes of private: ")
    assert cli.json("jobs")["jobs"][0]["id"] == id


LARGE = "x" * 140_000
"""As an argument and as a result, more than lies in a record."""


@pytest.fixture
def large(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a job whose payload and result are in the blob store, and TENURE_BLOBS that names it."""
    monkeypatch.setenv("TENURE_BLOBS", f"file://{tmp_path}/blobs")

    async def enqueue(app: Tenure) -> str:
        return (await app.send("echo", {"text": LARGE})).id

    id = shop.use(enqueue)
    shop.work()
    return id


def test_a_job_is_shown_with_what_is_in_the_blob_store(cli: Cli, large: str) -> None:
    told = cli.json("jobs", large)
    assert (told["payload"], told["result"]) == ({"text": LARGE}, LARGE)
    assert LARGE in cli.done("jobs", large).out


def test_a_job_is_shown_with_what_is_in_its_apps_blob_store(
    cli: Cli, large: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the store isn't the app's own."""
    monkeypatch.delenv("TENURE_BLOBS")
    blobs = f"file://{tmp_path}/blobs"
    source = f"from tenure import Tenure\napp = Tenure('sqlite:///other.db', blobs={blobs!r})"
    (tmp_path / "cli_blobs.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    told = cli.json("jobs", large, "--app", "cli_blobs:app")
    assert (told["payload"], told["result"]) == ({"text": LARGE}, LARGE)


def test_a_job_whose_blobs_cant_be_had_is_shown_without(
    cli: Cli, large: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(tmp_path / "blobs")
    assert cli.json("jobs", large)["payload"].endswith("of json.blob: no such blob in this tenant>")
    monkeypatch.delenv("TENURE_BLOBS")
    told = cli.json("jobs", large)
    for shown in (told["payload"], told["result"]):
        assert shown.endswith("of json.blob: the body is in a blob store: give Tenure(blobs=…), or set TENURE_BLOBS>")


def test_an_unknown_job_is_1(cli: Cli, shop: Shop) -> None:
    (id,) = shop.enqueue()
    for argv in ([UNKNOWN], [id, "--tenant", "acme"]):
        ran = cli("jobs", *argv)
        assert (ran.code, ran.out, ran.err) == (1, "", "tenure: no such job in this tenant\n")


def test_tracebacks_of_one_job_are_shown_when_asked_for(cli: Cli, shop: Shop) -> None:
    (id,) = shop.enqueue()
    text = 'Traceback (most recent call last):\n  File "shop.py", line 7, in send\nDeclined: no \x1b[31mstamp\n'
    first, second = Traceback("shop.errors.Declined", "no stamp", text), Traceback("OSError", "gone")
    for traceback in (first, second):
        shop.settle(shop.claim(), Retry(Failure("Declined", "no stamp"), traceback=traceback))
    assert "Traceback" not in cli.done("jobs", id).out
    ran = cli.done("jobs", id, "--tracebacks")
    assert ran.lines[-8:] == [
        "",
        "attempt 1 raised shop.errors.Declined:",
        "Traceback (most recent call last):",
        '  File "shop.py", line 7, in send',
        "Declined: no  [31mstamp",
        "",
        "attempt 2 raised OSError:",
        "gone",
    ]
    kept = {"lease_seq": 1, "class_path": "shop.errors.Declined", "message": "no stamp", "text": text}
    whole = cli.json("jobs", id, "--tracebacks")
    assert [one["lease_seq"] for one in whole["tracebacks"]] == [1, 2]
    assert whole["tracebacks"][0] == kept
    assert cli.json("jobs", id)["tracebacks"] == []


def test_tracebacks_of_a_list_are_refused(cli: Cli, shop: Shop) -> None:
    shop.enqueue()
    ran = cli("jobs", "--tracebacks")
    assert (ran.code, ran.err) == (2, "tenure: --tracebacks: they are shown of one job; give its ID\n")
