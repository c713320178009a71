"""Summaries: the sentences of a text whose words come up most."""

import re
from collections import Counter

MOST_CHARACTERS = 200_000

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_COMMON = frozenset(
    _WORD.findall(
        """a about after again all also an and any are as at be been before but by can did do does for from get had has
        have he her his how i if in into is it its just may me more most must my no nor not of on one only or other our
        out over own same she should so some such than that the their them then there these they this those through to
        too under until up very was we were what when where which while who whom why will with would you your"""
    )
)
"""Words that say nothing about what a text is about."""


def words(text: str) -> list[str]:
    """Every word, in small letters."""
    return _WORD.findall(text.lower())


def sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE_END.split(" ".join(text.split())) if sentence]


def summary(text: str, most: int) -> list[str]:
    """The `most` sentences that say most, in the order of the text. Raises `ValueError`."""
    if most < 1 or len(text) > MOST_CHARACTERS:
        raise ValueError(f"give a text of {MOST_CHARACTERS:,} characters at most, and ask for a sentence or more")
    frequency = Counter(word for word in words(text) if word not in _COMMON)
    found = sentences(text)
    ranked = sorted(range(len(found)), key=lambda index: (-_weight(found[index], frequency), index))
    return [found[index] for index in sorted(ranked[:most])]


def _weight(sentence: str, frequency: Counter[str]) -> float:
    """The mean of its words' counts, so that length alone wins nothing."""
    telling = [word for word in words(sentence) if word in frequency]
    return sum(frequency[word] for word in telling) / len(telling) if telling else 0.0
