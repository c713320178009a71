"""The demo's jobs: what they give back, and which failures they call final."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenure import Call, Fail, JobFailed, Retry, Settings, Tenure
from tenure.demo.jobs import Picture, Services, jobs, resize_image, send_email, summarize_text, webhook_delivery
from tenure.demo.sinks import BROKEN, HOST, HookSink, MailSink
from tenure.demo.webhooks import Policy, Undelivered

PATIENCE = 30.0
SECRET = b"between us"


class Place:
    """An app with the demo's jobs, and who gets what they send."""

    def __init__(self, app: Tenure, mail: MailSink, hooks: HookSink) -> None:
        self.app = app
        self.mail = mail
        self.hooks = hooks


@asynccontextmanager
async def place(folder: Path, allowed: tuple[str, ...] = (f"{HOST}/32",)) -> AsyncIterator[Place]:
    async with MailSink() as mail, HookSink(SECRET) as hooks:
        app = Tenure("memory://", settings=Settings(poll=0.05))
        app.include(jobs)

        @app.lifespan
        async def services() -> AsyncIterator[Services]:
            yield Services(
                smtp=(HOST, mail.port),
                hook_secret=SECRET.hex(),
                hook_policy=Policy(allowed=allowed),
                pictures=str(folder),
            )

        async with app, asyncio.timeout(PATIENCE):
            yield Place(app, mail, hooks)


def run_one(folder: Path, call: Call[Any]) -> Any:
    async def main() -> Any:
        async with place(folder) as here:
            return await here.app.execute_now(call)

    return asyncio.run(main())


def test_a_picture_is_written_where_it_says(tmp_path: Path) -> None:
    picture = run_one(tmp_path, resize_image.build("kettle", 8, 6))
    assert (picture.width, picture.height) == (8, 6)
    assert Path(picture.path).stat().st_size == picture.size
    assert [file.name for file in tmp_path.iterdir()] == ["kettle-8x6.png"]


@pytest.mark.parametrize("name", ["../kettle", "a/b", "", "x" * 65, "kettle.png"])
def test_a_picture_cant_be_written_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(Fail, match="name"):
        run_one(tmp_path, resize_image.build(name, 8, 6))


def test_a_picture_of_no_size_fails_for_good(tmp_path: Path) -> None:
    with pytest.raises(Fail, match="pixels"):
        run_one(tmp_path, resize_image.build("kettle", 0, 6))


def test_a_text_in_short(tmp_path: Path) -> None:
    digest = run_one(tmp_path, summarize_text.build("Kettles boil. It rained. Kettles boil fast.", sentences=1))
    assert (digest.sentences, digest.words) == (["Kettles boil."], 7)


def test_a_text_that_makes_no_sense_fails_for_good(tmp_path: Path) -> None:
    with pytest.raises(Fail, match="sentence"):
        run_one(tmp_path, summarize_text.build("Kettles boil.", sentences=0))


def test_a_mail_to_nobody_fails_for_good(tmp_path: Path) -> None:
    with pytest.raises(Fail, match="550"):
        run_one(tmp_path, send_email.build("nobody@shop.example", "Hello", "Is anyone there?"))


def test_a_mail_that_was_refused_once_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(Retry, match="451"):
        run_one(tmp_path, send_email.build("grey@shop.example", "Hello", "Have we met?"))


def test_a_mail_with_a_header_of_two_lines_fails_for_good(tmp_path: Path) -> None:
    with pytest.raises(Fail, match="linefeed"):
        run_one(tmp_path, send_email.build("ada@shop.example", "Hello\nBcc: all@shop.example", "Hello"))


def test_a_webhook_inside_fails_for_good(tmp_path: Path) -> None:
    with pytest.raises(Fail, match=r"169\.254\.169\.254, an address inside"):
        run_one(tmp_path, webhook_delivery.build("http://169.254.169.254/latest/meta-data/", "x", {}))


def test_a_webhook_that_may_pass_is_tried_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as here:
            with pytest.raises(Undelivered, match="500"):
                await here.app.execute_now(webhook_delivery.build(here.hooks.url + BROKEN, "x", {}))

    asyncio.run(main())


def test_a_webhook_that_isnt_believed_fails_for_good(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as here, HookSink(b"another secret") as stranger:
            with pytest.raises(Fail, match="401"):
                await here.app.execute_now(webhook_delivery.build(stranger.url, "x", {}))

    asyncio.run(main())


def test_a_flow_ends_with_a_webhook_that_tells_what_was_made(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as here:
            await here.app.queue("webhooks").configure(mode="keyed", group_limit=1)
            flow = here.app.tenant("acme").flow()
            told = flow.group(
                [resize_image.build("cover", width, width) for width in (4, 2)],
                then=webhook_delivery.build(here.hooks.url, "pictures.ready", {"picture": "cover"}),
            )
            await flow.enqueue()
            async with here.app.worker():
                assert await told.result(PATIENCE) == 204
            (request,) = here.hooks.requests
            body = msgspec.json.decode(request.body)
            assert (body["event"], body["tenant"], request.id) == ("pictures.ready", "acme", told.id)
            assert [msgspec.convert(one, Picture).width for one in body["results"]] == [4, 2]

    asyncio.run(main())


def test_each_receiver_is_a_group_and_a_plain_worker_does_all_four(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as here:
            await here.app.queue("webhooks").configure(mode="keyed", group_limit=1)
            poison = webhook_delivery.options(max_attempts=1).build(here.hooks.url + BROKEN, "x", {})
            handles = await here.app.enqueue_many(
                [
                    send_email.build("grey@shop.example", "Hello", "Have we met?"),
                    summarize_text.build("Kettles boil."),
                    resize_image.build("kettle", 3, 2),
                    webhook_delivery.build(here.hooks.url + "/a", "x", {}),
                ]
            )
            failing = await here.app.enqueue(poison)
            async with here.app.worker():
                for handle in handles:
                    await handle.result(PATIENCE)
                with pytest.raises(JobFailed, match="500"):
                    await failing.result(PATIENCE)
            assert here.mail.arrivals == {f"{handles[0].id}@tenure.example": 1}
            assert (await handles[3].get()).group == here.hooks.url + "/a"

    asyncio.run(main())
