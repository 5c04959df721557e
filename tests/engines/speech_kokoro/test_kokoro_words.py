"""The front ends of languages with spaces, English and Spanish, and the Arabic one's rules."""

from functools import cache
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto_kokoro import ar_numbers, ar_sounds, en_numbers, es, es_numbers
from tenuto_kokoro.cutting import Ending
from tenuto_kokoro.en import English
from tenuto_kokoro.es import Spanish

ALPHABET = "abczéñÑTHE '’\"-—.,;:!?¿$€%0123456789/\n\t(&😀界"


@cache
def english() -> English:
    return English()


def said(text: str, *, normalise: bool = True) -> str:
    return "".join(unit.phonemes for unit in english().read(text, normalise=normalise)).strip()


@given(st.text(ALPHABET, max_size=60), st.booleans())
def test_the_units_make_up_the_text(text: str, normalise: bool) -> None:
    assert text == "".join(unit.text for unit in english().read(text, normalise=normalise))
    assert text == "".join(unit.text for unit in Spanish().read(text, normalise=normalise))


@given(st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=25))
def test_every_word_has_sounds(word: str) -> None:
    assert said(word)


@pytest.mark.parametrize(
    ("text", "sounds"),
    [
        ("the apple", "ði ˈæpᵊl"),
        ("the record", "ðə ɹˈɛkəɹd"),
        ("used to", "jˈust tˈu"),
        ("USB", "jˌuˌɛsbˈi"),
        ("café", "kæfˈA"),
    ],
)
def test_english_words_depend_on_their_neighbours_and_abbreviations_are_spelled(
    text: str, sounds: str
) -> None:
    assert sounds.replace("ˌ", "ˈ").replace("tˈu", "tu") == said(text).replace("ˌ", "ˈ").replace("tˈu", "tu")


@pytest.mark.parametrize(
    ("word", "sounds"),
    [
        ("queso", "kˈeso"),
        ("guitarra", "ɡitˈara"),
        ("país", "paˈis"),
        ("jueves", "xwˈebes"),
        ("ONU", "oˈeneˈu"),
    ],
)
def test_spanish_is_said_as_it_is_spelled(word: str, sounds: str) -> None:
    assert sounds.replace("ˈ", "") == es.word(word).replace("ˈ", "").replace(" ", "")
    assert sounds.index("ˈ") <= max(0, es.word(word).find("ˈ")) + 2


@pytest.mark.parametrize(
    ("word", "sounds"),
    [
        ("الشَّمْسُ", "ʔaʃʃams"),
        ("الْقَمَرُ", "ʔalqamaɾ"),
        ("وَالِدِي", "waːlidiː"),
        ("مَدْرَسَةٌ", "madɾasah"),
        ("كَتَبُوا", "katabuː"),
        ("هَذَا", "haːða"),
    ],
)
def test_vowelled_arabic_is_said_in_pause(word: str, sounds: str) -> None:
    assert sounds == ar_sounds.sounds(word)


@pytest.mark.parametrize(
    ("written", "restored", "merged"),
    [
        ("أسرع", "اسْرَعَ", "أسْرَعَ"),
        ("سأل", "سَالَ", "سَألَ"),
        ("اسرع", "أَسْرَعَ", "أَسْرَعَ"),
        ("هادئ", "هَادِيٌ", "هَادِئٌ"),
    ],
)
def test_a_written_hamza_is_kept(written: str, restored: str, merged: str) -> None:
    """The networks do not see it; an alif that was written without one may still get it."""
    assert merged == ar_sounds.merged(written, restored)


@pytest.mark.parametrize(
    ("word", "symbols"),
    [
        ("kitaːb", "kitˈaːb"),
        ("madɾasah", "madɾasah"),
        ("ʔalqamaɾ", "alkɑmaɾ"),
        ("masʔala", "masala"),
        ("masaːʔ", "masˈaː"),
        ("baʕd", "baɑd"),
        ("saːʕiduː", "sˈaːɑiduː"),
    ],
)
def test_a_short_vowel_is_not_stressed_and_hamza_is_silent(word: str, symbols: str) -> None:
    """The model lengthens a stressed vowel, and says the symbol of the glottal stop as a t."""
    assert symbols == ar_sounds.symbols(word)


@pytest.mark.parametrize(
    ("number", "words"),
    [(3, "ثَلَاثَة"), (21, "وَاحِد وَعِشْرِين"), (100, "مِئَة"), (2026, "أَلْفَيْن وَسِتَّة وَعِشْرِين"), (5000, "خَمْسَة آلَاف")],
)
def test_arabic_numbers_are_written_out(number: int, words: str) -> None:
    assert words == ar_numbers.cardinal(number)


def test_a_short_answer_is_no_abbreviation() -> None:
    assert said("No number.") == said("No. Number.").replace(".", "", 1)
    assert said("number 5") == said("No. 5") == said("No.5")


def test_marks_end_clauses_and_sentences() -> None:
    units = english().read("Well, yes. No\nend", normalise=True)

    assert [Ending.CLAUSE, Ending.SENTENCE, Ending.SENTENCE, Ending.WORD] == [unit.ending for unit in units]
    assert "nˈO. " == units[2].phonemes


@pytest.mark.parametrize(
    ("numbers", "written", "spoken"),
    [
        (en_numbers, "2026-03-05", "March fifth, twenty twenty six"),
        (en_numbers, "On July 4, 1776", "On July fourth, seventeen seventy six"),
        (en_numbers, "13:30", "thirteen thirty"),
        (en_numbers, "$5.50", "five dollars and fifty cents"),
        (en_numbers, "50%", "fifty percent"),
        (en_numbers, "1,234", "one thousand two hundred thirty four"),
        (en_numbers, "21st", "twenty first"),
        (en_numbers, "3.14", "three point one four"),
        (en_numbers, "1990s", "nineteen nineties"),
        (en_numbers, "5-10", "five to ten"),
        (en_numbers, "5-10 km", "five to ten kilometers"),
        (en_numbers, "10:15-11:30", "ten fifteentoeleven thirty"),
        (en_numbers, "-5%", "minus five percent"),
        (en_numbers, "1.2.3", "one point two point three"),
        (en_numbers, "$1.5M", "one point five million dollars"),
        (en_numbers, "1/2 cup", "one half cup"),
        (en_numbers, "on 3/4", "on three/four"),
        (en_numbers, "24/7", "twenty four/seven"),
        (en_numbers, "3/4/2026", "March fourth, twenty twenty six"),
        (es_numbers, "1.234,50 €", "mil doscientos treinta y cuatro euros con cincuenta céntimos"),
        (es_numbers, "21 años", "veintiún años"),
        (es_numbers, "21 casas", "veintiuna casas"),
        (es_numbers, "5/3/2026", "cinco de marzo de dos mil veintiséis"),
        (es_numbers, "13:30", "trece y treinta"),
        (es_numbers, "$1,500", "mil quinientos dólares"),
        (es_numbers, "$1.5 millones", "uno punto cinco millones de dólares"),
        (es_numbers, "1-2,5 km", "uno a dos coma cinco kilómetros"),
        (es_numbers, "1.2.3", "uno punto dos punto tres"),
        (es_numbers, "1/2 taza", "media taza"),
        (es_numbers, "1/2.", "un medio."),
        (es_numbers, "3/4 de taza", "tres cuartos de taza"),
        (es_numbers, "1/2 de leche", "un medio de leche"),
        (es_numbers, "1 3/4 litros", "uno y tres cuartos litros"),
        (es_numbers, "24/7", "veinticuatro/siete"),
        (ar_numbers, "5-10", "خَمْسَة إِلَى عَشَرَة"),
        (ar_numbers, "$3 مليون", "ثَلَاثَة مِلْيُون دُولَار"),
        (ar_numbers, "1.2.3", "وَاحِد فَاصِلَة اِثْنَيْن فَاصِلَة ثَلَاثَة"),
        (ar_numbers, "5%", "خَمْسَة بِالْمِئَة"),
        (ar_numbers, "-5", "نَاقِص خَمْسَة"),
    ],
)
def test_numbers_are_written_out(numbers: ModuleType, written: str, spoken: str) -> None:
    """Dates, times, money, shares and measures as a speaker would say them; five and ten with nothing between
    them would be heard as fifteen."""
    assert spoken == numbers.PATTERN.sub(numbers.expanded, written)
