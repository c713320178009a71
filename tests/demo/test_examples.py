"""The examples run as their pages say, in a folder of their own."""

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tenure import BlobRef, Fail, Job, Tenure
from tenure.demo.sinks import HookSink, MailSink

PATIENCE = 60.0
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The examples as if nobody had imported them, on a store of their own."""
    monkeypatch.setenv("TENURE_URL", f"sqlite:///{tmp_path}/jobs.db")
    monkeypatch.setenv("SHOP_PICTURES", str(tmp_path / "pictures"))
    monkeypatch.setenv("MUSIC_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("TENURE_BLOBS", (tmp_path / "blobs").as_uri())
    yield
    for name in [name for name in sys.modules if name.startswith("examples.")]:
        del sys.modules[name]  # for good: monkeypatch would put it back for the next test


def module(name: str) -> ModuleType:
    return importlib.import_module(f"examples.{name}")


async def run(name: str, *arguments: str) -> list[str]:
    """A program of an example, run as its page says; the lines that it printed."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", "-m", f"examples.{name}", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout.splitlines()


@contextmanager
def worker(target: str) -> Iterator[None]:
    """A worker as the pages start it; it must stop as well as it worked."""
    process = subprocess.Popen([sys.executable, "-m", "tenure", "worker", target, "--log-level", "error"], cwd=ROOT)
    try:
        yield
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("fresh")
def test_an_order_goes_through_the_shop_and_its_mail_goes_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setenv("SHOP_SECRET", "between us")
        async with MailSink() as mail, HookSink(b"between us") as hooks:
            monkeypatch.setenv("SHOP_SMTP_PORT", str(mail.port))
            monkeypatch.setenv("SHOP_HOOK_PORT", str(hooks.port))
            with worker("examples.shop.app:app"):
                first, second = await run("shop.enqueue", "7"), await run("shop.enqueue", "7")
            assert first[1:] == [
                f"the mail was sent as {next(iter(mail.arrivals))}",
                "customers say: The kettle boils fast and the kettle is quiet.",
                "the partner was told, and answered 204",
            ]
            assert "asked for before" in second[0]
            assert list(mail.arrivals.values()) == [1]
            assert [request.path for request in hooks.requests] == ["/orders", "/orders"]

    asyncio.run(main())
    assert len(list((tmp_path / "pictures").glob("kettle-*.png"))) == 3


@pytest.mark.usefixtures("fresh")
def test_tunes_go_through_the_library_by_reference(tmp_path: Path) -> None:
    async def main() -> tuple[list[str], list[Job]]:
        app: Tenure = module("music.app").app
        async with app, app.worker():
            drawn = await run("music.enqueue")
            return drawn, await app.jobs(job_type="import_track")

    drawn, imports = asyncio.run(main())
    assert [line[:16].strip() for line in drawn] == ["up", "down", "there and back"]
    assert all(line.count("█") >= 7 for line in drawn)
    library = {path.stem: path.stat().st_size for path in (tmp_path / "library").glob("*.wav")}
    given = [job.payload["audio"] for job in imports]
    assert library == {audio["sha256"][:16]: audio["size"] for audio in given}
    assert len(library) == 3


@pytest.mark.usefixtures("fresh")
def test_a_file_of_ones_own_comes_back_as_a_reference_to_its_waveform(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(module("music.sound").tune([440.0, 880.0]))

    async def main() -> None:
        music = module("music.app")
        app: Tenure = music.app
        async with app, app.worker():
            (line,) = await run("music.enqueue", str(tmp_path / "song.wav"))
            assert line.startswith("            song █")
            (imported,) = await app.jobs(job_type="import_track")
            track = await app.handle(imported.id).result(PATIENCE)
            assert track.audio.owner == imported.id
            (job,) = await app.jobs(job_type="compute_waveform")
            ref = await app.handle(job.id).result(PATIENCE)
            assert isinstance(ref, BlobRef)
            assert (ref.owner, ref.content_type) == (job.id, "application/json")
            assert len((await music.read_waveform(ref)).peaks) == 48

    asyncio.run(main())


def test_the_peaks_of_a_tune_fade_with_each_note() -> None:
    sound = module("music.sound")
    tune = sound.tune([440.0, 880.0])
    assert sound.shape(tune) == (0.5, 8_000, 1)
    peaks = sound.peaks(tune, 4)
    assert peaks[0] > 0.95 > 0.55 > peaks[1]
    assert peaks[2] > 0.95 > 0.55 > peaks[3]


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("body", [b"", b"RIFF", b"not a sound at all, but long enough for a header to be read" * 2])
def test_what_is_no_sound_fails_for_good(body: bytes) -> None:
    async def main() -> None:
        music = module("music.app")
        app: Tenure = music.app
        audio = await app.blobs.put(body, ttl=60)
        with pytest.raises(Fail, match="song: "):
            await app.execute_now(music.import_track.build("song", audio))
        await app.blobs.delete(audio)
        with pytest.raises(Fail, match="isn't there any more"):
            await app.execute_now(music.import_track.build("song", audio))

    asyncio.run(main())


@pytest.mark.parametrize("name", ["shop", "music"])
def test_a_page_names_what_is_there(name: str) -> None:
    folder = ROOT / "examples" / name
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert f"tenure worker examples.{name}.app:app" in page
    for linked in ("app.py", "enqueue.py"):
        assert (folder / linked).exists()
        assert linked in page or f"examples.{name}.{linked.removesuffix('.py')}" in page
