"""Sound: made, read and measured. WAV with 16 bits a sample."""

import array
import io
import math
import sys
import wave

RATE = 8_000
LOUDEST = 32_767
CHUNK_FRAMES = 16_384


def tune(notes: list[float], seconds_each: float = 0.25) -> bytes:
    """A file that plays notes, given as frequencies, each fading out."""
    length = round(RATE * seconds_each)
    samples = array.array("h")
    for frequency in notes:
        for number in range(length):
            fading = 1 - number / length
            samples.append(round(LOUDEST * fading * math.sin(math.tau * frequency * number / RATE)))
    _swap(samples)
    made = io.BytesIO()
    with wave.open(made, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return made.getvalue()


def shape(audio: bytes) -> tuple[float, int, int]:
    """Seconds, rate and channels. Raises `ValueError` for what is no such sound."""
    try:
        with wave.open(io.BytesIO(audio), "rb") as file:
            if file.getsampwidth() != 2:
                raise ValueError(f"it has {8 * file.getsampwidth()} bits a sample, 16 are read")
            return file.getnframes() / file.getframerate(), file.getframerate(), file.getnchannels()
    except wave.Error as error:
        raise ValueError(str(error)) from error
    except EOFError:
        raise ValueError("it ends too soon") from None


def peaks(audio: bytes, count: int) -> list[float]:
    """The loudest moment of each of `count` equal parts, from 0 to 1."""
    found = [0] * count
    with wave.open(io.BytesIO(audio), "rb") as file:
        total, channels, at = max(1, file.getnframes()), file.getnchannels(), 0
        while body := file.readframes(CHUNK_FRAMES):
            samples = array.array("h", body)
            _swap(samples)
            for start in range(0, len(samples), channels):
                part = min(at * count // total, count - 1)
                found[part] = max(found[part], *map(abs, samples[start : start + channels]))
                at += 1
    return [round(min(peak, LOUDEST) / LOUDEST, 3) for peak in found]


def _swap(samples: "array.array[int]") -> None:
    """WAV has the small end first, whatever the machine has."""
    if sys.byteorder == "big":
        samples.byteswap()
