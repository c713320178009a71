"""The story: a process of a worker is killed, a job is called off, a whole worker is killed, and all is judged.

Nothing depends on how fast the machine is. Before a kill the mail server stops answering, so that whoever sends mail
holds on to it; the kill comes when a worker has enough in hand.
"""

import asyncio
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tenure import Call, Handle, Settings, Tenure
from tenure.demo import proof
from tenure.demo.board import Board
from tenure.demo.fleet import Broken, Fleet, card_of
from tenure.demo.jobs import Services, jobs, resize_image, send_email, summarize_text, webhook_delivery
from tenure.demo.places import Places
from tenure.demo.proof import Proof
from tenure.demo.sinks import BROKEN, GREY, HOST, SLOW, HookSink, MailSink
from tenure.demo.view import View
from tenure.demo.webhooks import Policy
from tenure.demo.worker import GRACE_SECONDS, LEASE_SECONDS
from tenure.domain.calls import EventPage
from tenure.domain.job import Ref
from tenure.domain.states import EventKind
from tenure.domain.store import FEED_TOPIC
from tenure.testing.history import RecordingStore

WEIGHTS = {"acme": 3, "bolt": 2, "cory": 1}
TURNS = ("acme", "bolt", "acme", "cory", "acme", "acme", "bolt", "acme", "acme", "acme")
"""Whose jobs come in, one of each kind at a time: most are acme's."""
WORKERS = ("north", "south")
GROUP_LIMIT = 2
TICK_SECONDS = 2
HELD = 3
"""Mails that a worker has in hand when it is killed, at least."""
LEAST_JOBS = 60
"""So that each third has mails for 2 × HELD - 1: one of two workers gets HELD of them."""
MOST_JOBS = 5_000
LATENCY_SECONDS = 0.05
PATIENCE_SECONDS = 60.0
SIZES = ((96, 72), (48, 36), (24, 18))

STORY = (
    "A lease is a promise with an end. Whoever holds a job by lease may finish it until the lease runs out. "
    "A worker that is alive renews its lease, and a worker that died can't. "
    "When the lease has run out, another worker takes the job, and the old one's answer is refused. "
    "So a job is never lost, and it never ends twice. "
    "It may begin twice: no queue can know what a dead worker did last."
)


class Story:
    """The demo in its chapters."""

    def __init__(
        self, places: Places, view: View, store: RecordingStore, fleet: Fleet, mail: MailSink, hooks: HookSink
    ) -> None:
        self._places = places
        self._view = view
        self._store = store
        self._fleet = fleet
        self._mail = mail
        self._hooks = hooks
        self._app = Tenure(store=store, settings=Settings())
        self._app.include(jobs)
        self._board = Board()
        self._cursor: str | None = None
        self._acknowledged: set[Ref] = set()
        self._deserted: set[Ref] = set()
        self._fates: dict[str, str] = {}
        """What became of workers that aren't simply at work."""
        self._problems: list[str] = []
        self._number = 0

    async def tell(self, count: int) -> Proof:
        """All of it, with so many ordinary jobs, and what it came to."""
        await self._prepare()
        special = await self._enqueue_special()
        await self._enqueue_ordinary(count // 3)
        for name in WORKERS:
            self._view.say(f"worker {name} starts: supervisor is process {self._fleet.start(name)}")
        await self._until(lambda: self._succeeded >= count // 6, "the first jobs succeed")
        await self._kill_a_child(count // 3)
        await self._call_one_off()
        await self._kill_a_worker(count - 2 * (count // 3))
        await self._drain(PATIENCE_SECONDS + count / 10)
        await self._recount(special)
        return await self._judge()

    @property
    def _succeeded(self) -> int:
        return self._board.kinds[EventKind.SUCCEEDED]

    # Enqueuing

    async def _prepare(self) -> None:
        await self._app.opened()
        for tenant, weight in WEIGHTS.items():
            await self._app.tenant(tenant).configure(weight=weight)
        await self._app.queue(webhook_delivery.queue).configure(mode="keyed", group_limit=GROUP_LIMIT)
        tick = summarize_text.options(labels={"by": "schedule"}).build(STORY, sentences=1)
        await self._app.tenant("acme").schedule("digest", TICK_SECONDS, tick)
        shares = ", ".join(f"{tenant} (weight {weight})" for tenant, weight in WEIGHTS.items())
        self._view.say(f"three tenants: {shares}; acme has a schedule, a digest every {TICK_SECONDS} s")

    async def _enqueue_special(self) -> "Special":
        """A mail that is refused the first time, a webhook that can't work, and a flow."""
        bolt, cory = self._app.tenant("bolt"), self._app.tenant("cory")
        flaky = await bolt.enqueue(send_email.build(f"{GREY}bolt.example", "Hello", "Have we met?"))
        poison = await cory.enqueue(
            webhook_delivery.options(max_attempts=2).build(self._hooks.url + BROKEN, "order.paid", {"order": "13"})
        )
        flow = cory.flow()
        told = flow.group(
            [resize_image.build("cover", *size) for size in SIZES],
            then=webhook_delivery.build(self._hooks.url + "/cory", "pictures.ready", {"picture": "cover"}),
        )
        handles = await flow.enqueue()
        self._note([flaky, poison, *handles])
        self._view.say("a flaky mail, a poisoned webhook, and a flow: three sizes of a picture, then a webhook")
        return Special(flaky, poison, told)

    async def _enqueue_ordinary(self, count: int) -> None:
        numbers = range(self._number, self._number + count)
        self._number += count
        self._note(await self._app.enqueue_many([self._ordinary(number) for number in numbers]))
        self._view.say(f"{count} jobs in: mails, pictures, texts, webhooks, most of them acme's")

    def _ordinary(self, number: int) -> Call[Any]:
        tenant = TURNS[number // 4 % len(TURNS)]
        match number % 4:
            case 0:
                to = f"customer-{number}@{tenant}.example"
                return send_email.options(tenant=tenant).build(to, f"Order {number}", "It is on its way.")
            case 1:
                return resize_image.options(tenant=tenant).build(f"product-{number}", *SIZES[number % len(SIZES)])
            case 2:
                return summarize_text.options(tenant=tenant).build(STORY)
        url = f"{self._hooks.url}/{tenant}"
        return webhook_delivery.options(tenant=tenant).build(url, "order.shipped", {"order": str(number)})

    def _note(self, handles: Sequence[Handle[Any]]) -> None:
        self._acknowledged.update((handle.tenant, handle.id) for handle in handles)

    # Watching

    async def _until(self, seen: Callable[[], bool], what: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Follows the feed until something is so. Raises `Broken` when it doesn't come to that."""
        deadline = time.monotonic() + patience_seconds
        while True:
            await self._catch_up()
            self._view.show(self._board, self._fates)
            if seen():
                return
            self._fleet.check()
            if time.monotonic() > deadline:
                raise Broken(f"after {patience_seconds:.0f} s this still isn't so: {what}")
            await self._store.wait((FEED_TOPIC,), 0.2)

    async def _catch_up(self) -> None:
        while True:
            page = await self._store.events(after=self._cursor)
            if not isinstance(page, EventPage):
                raise page
            self._cursor = page.cursor
            for event in page.events:
                self._board.add(event)
            if not page.events:
                return

    async def _with_mails_in_hand(self, count: int) -> tuple[str, set[Ref]]:
        """Enqueues more, and waits for a worker that sends mails; it can't end them while the server is held."""
        self._mail.hold()
        await self._enqueue_ordinary(count)
        await self._until(lambda: self._sender() is not None, "a worker sends mails")
        worker = self._sender()
        assert worker is not None
        return worker, self._sending(worker)

    def _sender(self) -> str | None:
        """A worker with enough mails in hand."""
        return next((worker for worker in self._board.workers if len(self._sending(worker)) >= HELD), None)

    def _sending(self, worker: str) -> set[Ref]:
        """Mails that arrived, and whose sender has no answer yet."""
        arrived = {id.partition("@")[0] for id in self._mail.arrivals}
        return {ref for ref in self._board.held(worker, send_email.name) if ref[1] in arrived}

    async def _process_of(self, worker: str) -> int:
        """The number of a worker's process, as it says itself."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (card := await card_of(self._store, worker)) is None:
                    await self._store.wait((FEED_TOPIC,), 0.2)
        except TimeoutError:
            raise Broken(f"worker {worker} doesn't say which process it is") from None
        return card.pid

    # Chapters

    async def _kill_a_child(self, count: int) -> None:
        worker, held = await self._with_mails_in_hand(count)
        process = await self._process_of(worker)
        os.kill(process, signal.SIGKILL)
        self._desert(worker, held, "lost a process")
        self._view.say(f"SIGKILL to the process of {worker} ({process}) with {len(held)} mails in hand", "bad")
        await self._until(lambda: self._given_back(held), "a supervisor gives the jobs of its process back")
        self._view.say("its supervisor saw it die and gave its jobs back at once; another process starts", "good")
        await self._recover(held)

    async def _call_one_off(self) -> None:
        call = webhook_delivery.build(self._hooks.url + SLOW, "order.lost", {"order": "0"})
        handle = await self._app.tenant("bolt").enqueue(call)
        self._note([handle])
        await self._until(lambda: self._hooks.waiting > 0, "a webhook waits for a receiver that never answers")
        cancelled = await handle.cancel()
        if not cancelled.was_running:
            raise Broken(f"a running job was cancelled, and the answer was {cancelled}")
        await self._until(lambda: self._hooks.waiting == 0, "the handler of a cancelled job ends")
        self._view.say("a webhook whose receiver never answers: cancelled while it ran, and its handler ended", "good")

    async def _kill_a_worker(self, count: int) -> None:
        worker, held = await self._with_mails_in_hand(count)
        self._fleet.kill(worker)
        self._desert(worker, held, "killed")
        self._view.say(f"SIGKILL to all of {worker}, its supervisor too, with {len(held)} mails in hand", "bad")
        lease = f"{LEASE_SECONDS:g} s and {GRACE_SECONDS:g} s of grace"
        self._view.say(f"nobody is left to say so: its jobs come back when their leases have run out, {lease}")
        await self._recover(held)

    def _desert(self, worker: str, held: set[Ref], fate: str) -> None:
        self._fates[worker] = fate
        self._deserted |= held

    def _given_back(self, held: set[Ref]) -> bool:
        return all(self._board.jobs[ref].deserted for ref in held)

    async def _recover(self, held: set[Ref]) -> None:
        self._mail.release()
        await self._until(lambda: self._board.ended(held), "jobs of a killed worker end")
        self._view.say(f"all {len(held)} mails were taken over and sent: recovered", "good")

    async def _drain(self, patience_seconds: float) -> None:
        await self._app.tenant("acme").unschedule("digest")
        self._store.note("heal")
        await self._until(lambda: self._board.live == 0, "every job ends", patience_seconds)
        self._problems += await self._fleet.stop()
        await self._catch_up()
        self._view.say("nothing is left to do; the workers stopped")

    # The end

    async def _recount(self, special: "Special") -> None:
        """What became of everything that was out of the ordinary."""
        say = self._view.say
        flaky, poison, told = await special.flaky.get(), await special.poison.get(), await special.told.get()
        say(f"flaky mail: {flaky.state} in attempt {flaky.attempt}")
        say(f"poisoned webhook: {poison.state} after {poison.attempt} of {poison.max_attempts} attempts, a dead letter")
        say(f"flow: three pictures, then the webhook that tells of them: {told.state}")
        ticks = await self._app.tenant("acme").jobs(labels={"by": "schedule"})
        say(f"schedule: {len(ticks)} digests")
        say(f"webhooks of one receiver at a time: {self._board.most_in_a_group} at most, the limit is {GROUP_LIMIT}")
        twice = proof.again(self._mail.arrivals)
        say(f"mails: {len(self._mail.arrivals)} arrived, {twice} of them twice: sent, and then their worker was killed")

    async def _judge(self) -> Proof:
        self._store.note("end", drained=True)
        counted = proof.count(self._board, self._acknowledged)
        problems = self._problems + proof.check_story(counted, len(self._deserted))
        if self._board.most_in_a_group > GROUP_LIMIT:
            problems.append(f"{self._board.most_in_a_group} of a group ran at once, the limit is {GROUP_LIMIT}")
        problems += proof.check_effects(self._board, self._mail, self._hooks, self._places.pictures)
        problems += await proof.check_records(self._places.store, self._board)
        summary, found = proof.check_histories(self._places.histories)
        if not found:
            processes = sum(1 for _ in self._places.histories.iterdir())
            self._view.say(f"checked: {summary.calls} calls of {processes} processes keep the contract", "good")
        return proof.with_problems(counted, problems + found)


class Special(msgspec.Struct, frozen=True):
    """Jobs that are looked at again at the end."""

    flaky: Handle[str]
    poison: Handle[int]
    told: Handle[int]


# Around it


@asynccontextmanager
async def sinks(places: Places) -> AsyncIterator[tuple[MailSink, HookSink]]:
    """The mail server and the receiver, and a note for the workers where they are."""
    secret = secrets.token_bytes(32)
    async with (
        MailSink(latency_seconds=LATENCY_SECONDS) as mail,
        HookSink(secret, latency_seconds=LATENCY_SECONDS) as hooks,
    ):
        places.write(
            Services(
                smtp=(HOST, mail.port),
                hook_secret=secret.hex(),
                hook_policy=Policy(allowed=(f"{HOST}/32",), timeout_seconds=20),
                pictures=str(places.pictures),
            )
        )
        yield mail, hooks


async def run(places: Places, view: View, count: int, *, keep: bool) -> Proof:
    """The whole demo; with `keep`, workers go on afterwards until Ctrl-C."""
    places.make()
    async with sinks(places) as (mail, hooks):
        store = places.recorded("client")
        try:
            async with Fleet(places, places.recorded_url) as fleet:
                with view:
                    found = await Story(places, view, store, fleet, mail, hooks).tell(count)
        finally:
            await store.close()
        told(view, found)
        if keep:
            await linger(places, view)
    return found


def told(view: View, found: Proof) -> None:
    view.line()
    view.line(str(found), "good" if found.sound else "bad")
    for problem in found.problems:
        view.line(f"problem: {problem}", "bad")
    view.line(f"took {view.seconds:.1f} s")


async def linger(places: Places, view: View) -> None:
    """Workers and a job every second to look at, until Ctrl-C."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stopped.set)
    async with Tenure(places.url, settings=Settings()) as app, Fleet(places, places.url) as fleet:
        app.include(jobs)
        await app.tenant("acme").schedule("digest", 1, summarize_text.build(STORY, sentences=1))
        for name in WORKERS:
            fleet.start(name)
        view.line()
        view.line("Two workers go on, with a job every second, until Ctrl-C. Look around:")
        for command in ("top --all-tenants", "jobs --all-tenants", "dead-letters --tenant cory", "workers"):
            view.line(f"  tenure {command} --url {places.url}")
        await stopped.wait()
        await fleet.stop()
