"""Summaries."""

import pytest

from tenure.demo.text import MOST_CHARACTERS, sentences, summary, words

REVIEW = "The kettle is loud. It rained. My kettle boils water, and the kettle whistles! Delivery took two days."


def test_the_sentences_that_say_most_come_in_the_order_of_the_text() -> None:
    assert summary(REVIEW, 1) == ["The kettle is loud."]
    assert summary(REVIEW, 2) == ["The kettle is loud.", "My kettle boils water, and the kettle whistles!"]


def test_asking_for_more_than_there_is_gives_everything() -> None:
    assert summary(REVIEW, 50) == sentences(REVIEW)
    assert len(sentences(REVIEW)) == 4


@pytest.mark.parametrize("nothing", ["", "   \n", "... !!! ???", "12 34 56."])
def test_a_text_without_words_is_no_error(nothing: str) -> None:
    assert len(summary(nothing, 3)) <= 3


def test_words_are_letters_of_any_script() -> None:
    assert words("Die Übung – it's 3 o'clock, молоко!") == ["die", "übung", "it's", "o'clock", "молоко"]


@pytest.mark.parametrize(("text", "most"), [(REVIEW, 0), (REVIEW, -1), ("a" * (MOST_CHARACTERS + 1), 1)])
def test_what_makes_no_sense_is_refused(text: str, most: int) -> None:
    with pytest.raises(ValueError, match="sentence"):
        summary(text, most)
