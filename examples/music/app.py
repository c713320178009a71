"""The music library's jobs: `tenure worker examples.music.app:app` runs them."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from examples.music import sound
from tenure import Context, Fail, Tenure

app = Tenure(os.environ.get("TENURE_URL", "sqlite:///music.db"))


@dataclass(frozen=True, kw_only=True)
class Track:
    """A file in the library."""

    title: str
    path: str
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


@app.job(queue="imports", timeout=60, key=lambda source: source)
def import_track(source: str) -> Track:
    """Copies a file into the library, under a name made of its content. The same file is never queued twice."""
    origin = Path(source)
    try:
        seconds, rate, channels = sound.shape(origin)
    except FileNotFoundError:
        raise Fail(f"{source} doesn't exist") from None
    except ValueError as error:
        raise Fail(str(error)) from error
    path = library() / f"{hashlib.sha256(origin.read_bytes()).hexdigest()[:16]}.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    shutil.copyfile(origin, unfinished)
    unfinished.replace(path)
    return Track(title=origin.stem, path=str(path), seconds=seconds, rate=rate, channels=channels)


@app.job(queue="analysis", timeout=300)
def compute_waveform(ctx: Context, parts: int = 48) -> Waveform:
    """The waveform of the track that the job before this one imported."""
    track: Track = ctx.parents.sync.get(0)
    ctx.report(0.1, f"listening to {track.title}")
    return Waveform(title=track.title, peaks=sound.peaks(Path(track.path), parts))
