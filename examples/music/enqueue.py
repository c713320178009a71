"""Has tunes imported and drawn, three of its own or files of yours: `python -m examples.music.enqueue [FILE.wav …]`."""

import asyncio
import sys
from pathlib import Path

from examples.music import sound
from examples.music.app import WAV, app, compute_waveform, import_track, read_waveform
from tenure import BlobRef, Handle

A, B, C, D, E, F, G = 440.0, 493.88, 523.25, 587.33, 659.25, 698.46, 783.99
TUNES = {"up": [A, B, C, D, E, F, G], "down": [G, F, E, D, C, B, A], "there and back": [A, C, E, G, E, C, A]}
BARS = " ▁▂▃▄▅▆▇█"
PATIENCE_SECONDS = 60
KEPT_SECONDS = 3600


async def main(files: list[str]) -> int:
    tracks: dict[str, bytes | Path] = {title: sound.tune(notes) for title, notes in TUNES.items()}
    if files:
        tracks = {Path(file).stem: Path(file) for file in files}
    async with app:
        drawn = [await enqueue(title, audio) for title, audio in tracks.items()]
        for handle in drawn:
            waveform = await read_waveform(await handle.result(PATIENCE_SECONDS))
            print(f"{waveform.title:>16} {''.join(bar(peak) for peak in waveform.peaks)}")
    return 0


async def enqueue(title: str, audio: bytes | Path) -> Handle[BlobRef]:
    """One track as a flow: import, then draw. Its audio goes ahead, and the job carries a reference."""
    ref = await app.blobs.put(audio, ttl=KEPT_SECONDS, content_type=WAV)
    flow = app.flow()
    imported = flow.add(import_track.build(title, ref))
    drawn = flow.add(compute_waveform.build(), after=[imported])
    await flow.enqueue()
    return drawn


def bar(peak: float) -> str:
    return BARS[round(peak * (len(BARS) - 1))]


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
