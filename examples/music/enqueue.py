"""Makes three tunes and has them imported and drawn: `python -m examples.music.enqueue`."""

import asyncio
import sys
import tempfile
from pathlib import Path

from examples.music import sound
from examples.music.app import Waveform, app, compute_waveform, import_track
from tenure import Handle

A, B, C, D, E, F, G = 440.0, 493.88, 523.25, 587.33, 659.25, 698.46, 783.99
TUNES = {"up": [A, B, C, D, E, F, G], "down": [G, F, E, D, C, B, A], "there and back": [A, C, E, G, E, C, A]}
BARS = " ▁▂▃▄▅▆▇█"
PATIENCE_SECONDS = 60


async def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with app:
            drawn = [await enqueue(Path(folder), title, notes) for title, notes in TUNES.items()]
            for handle in drawn:
                waveform = await handle.result(PATIENCE_SECONDS)
                print(f"{waveform.title:>16} {''.join(bar(peak) for peak in waveform.peaks)}")
    return 0


async def enqueue(folder: Path, title: str, notes: list[float]) -> Handle[Waveform]:
    """One tune as a flow: import, then draw."""
    path = folder / f"{title}.wav"
    sound.tune(path, notes)
    flow = app.flow()
    imported = flow.add(import_track.build(str(path)))
    drawn = flow.add(compute_waveform.build(), after=[imported])
    await flow.enqueue()
    return drawn


def bar(peak: float) -> str:
    return BARS[round(peak * (len(BARS) - 1))]


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
