"""The music library's jobs: `tenure worker examples.music.app:app` runs them."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from examples.music import sound
from tenure import BlobNotFound, BlobRef, Context, Fail, Tenure

app = Tenure(
    os.environ.get("TENURE_URL", "sqlite:///music.db"),
    blobs=os.environ.get("TENURE_BLOBS", Path("music-blobs").absolute().as_uri()),
)

WAV = "audio/x-wav"


@dataclass(frozen=True, kw_only=True)
class Track:
    """A file in the library, and the audio it was made of."""

    title: str
    path: str
    audio: BlobRef
    seconds: float
    rate: int
    channels: int


@dataclass(frozen=True, kw_only=True)
class Waveform:
    """How loud a track is, part by part."""

    title: str
    peaks: list[float]


def library() -> Path:
    return Path(os.environ.get("MUSIC_LIBRARY", "music-library")).absolute()


@app.job(queue="imports", timeout=60, key=lambda title, audio: audio.sha256)
async def import_track(ctx: Context, title: str, audio: BlobRef) -> Track:
    """Puts a track into the library, under a name made of its content. The same audio is never queued twice."""
    try:
        content = await ctx.blobs.read(audio)
        seconds, rate, channels = sound.shape(content)
    except BlobNotFound:
        raise Fail(f"{title}: its audio isn't there any more") from None
    except ValueError as error:
        raise Fail(f"{title}: {error}") from error
    path = library() / f"{audio.sha256[:16]}.wav"
    await asyncio.to_thread(_write, path, content)
    kept = await ctx.blobs.keep(audio)  # whoever put it may have given it an hour; this one stays with the job
    return Track(title=title, path=str(path), audio=kept, seconds=seconds, rate=rate, channels=channels)


@app.job(queue="analysis", timeout=300)
async def compute_waveform(ctx: Context, parts: int = 48) -> BlobRef:
    """The waveform of the track that the job before this one imported: a blob, for it may be as long as one likes."""
    track: Track = await ctx.parents.get(0)
    await ctx.progress(0.1, f"listening to {track.title}")
    peaks = await asyncio.to_thread(sound.peaks, await ctx.blobs.read(track.audio), parts)
    waveform = msgspec.json.encode(Waveform(title=track.title, peaks=peaks))
    return await ctx.blobs.put(waveform, content_type="application/json")


async def read_waveform(ref: BlobRef) -> Waveform:
    """What `compute_waveform` gave a reference to."""
    return msgspec.json.decode(await app.blobs.read(ref), type=Waveform)


def _write(path: Path, content: bytes) -> None:
    """The file is there whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)
