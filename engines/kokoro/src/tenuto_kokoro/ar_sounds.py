"""A vowelled Arabic word as sounds, in pausal form: final short vowels are not said. Knows no text around the
word.

Kokoro never heard Arabic, so each sound is given by the nearest that it knows: ḥ as a long [h], ʿayn as a
back [ɑ], the emphatic consonants as plain ones beside a back vowel. The choices were made by how Whisper
writes the speech down.
"""

from __future__ import annotations

import re

CONSONANTS = {
    "ب": "b", "ت": "t", "ث": "θ", "ج": "ʤ", "ح": "ħ", "خ": "x", "د": "d", "ذ": "ð", "ر": "ɾ", "ز": "z",
    "س": "s",
    "ش": "ʃ", "ص": "S", "ض": "D", "ط": "T", "ظ": "Z", "ع": "ʕ", "غ": "ɣ", "ف": "f", "ق": "q", "ك": "k",
    "ل": "l",
    "م": "m", "ن": "n", "ه": "h", "و": "w", "ي": "j", "ء": "ʔ", "أ": "ʔ", "إ": "ʔ", "ؤ": "ʔ", "ئ": "ʔ",
    "ة": "t",
    "پ": "p", "ڤ": "v", "گ": "ɡ", "چ": "ʧ", "ک": "k", "ی": "j",
}  # fmt: skip
SUN = frozenset("تثدذرزسشصضطظلن")
"""Letters that swallow the l of the article."""
SHADDA, SUKUN, SUPERSCRIPT_ALIF = "\u0651", "\u0652", "\u0670"
VOWELS = {"\u064e": "a", "\u064f": "u", "\u0650": "i", "\u064b": "an", "\u064c": "un", "\u064d": "in"}
FATHATAN = "\u064b"
MARKS = frozenset(VOWELS) | {SHADDA, SUKUN, SUPERSCRIPT_ALIF}
MODEL_SYMBOLS = {"ħ": "hh", "ʕ": "ɑ", "q": "k", "S": "s", "D": "d", "T": "t", "Z": "ð"}
"""What is written for the sounds that the model does not have."""

# Words whose common spelling hides a long vowel.
IRREGULAR = {
    "هذا": "haːða", "هذه": "haːðihi", "ذلك": "ðaːlik", "هؤلاء": "haːʔulaːʔ", "لكن": "laːkin",
    "الله": "ʔallaː", "ء": "hamza",
    "الرحمن": "ʔarraħmaːn", "أولئك": "ʔulaːʔik", "هكذا": "haːkaða", "كذلك": "kaðaːlik", "لذلك": "liðaːlik",
    "والله": "wallaː", "بالله": "billaː", "لله": "lillaː", "عمرو": "ʕamɾ", "مائة": "miʔah", "مئة": "miʔah",
}  # fmt: skip

PLURAL = re.compile(f"(?<!\u064e)\u064f?و[{''.join(MARKS)}]*ا$")
"""The ending of verbs in the plural, which is ū whatever marks were put on it."""

UNSTRESSED = frozenset({
    "من", "في", "إلى", "على", "عن", "أن", "إن", "ما", "لا", "هل", "لم", "لن", "مع", "أو", "ثم", "قد", "كل",
    "سوف", "عند", "حتى", "بين", "كي", "لو",
})  # fmt: skip
"""Little words that lean on the next one."""

Letter = tuple[str, frozenset[str]]


def sounds(word: str) -> str:
    """Symbols of a vowelled word, still with those of the emphatic sounds, without stress."""
    plain = bare(word)
    if plain in IRREGULAR:
        return IRREGULAR[plain]
    if len(plain) > 3:
        word = PLURAL.sub("\u064fوا", word)
    letters = _letters(word)
    parts: list[str] = []
    index = 0
    while index < len(letters):
        index += _letter(letters, index, parts)
    return "".join(parts)


def bare(word: str) -> str:
    """A word without its marks."""
    return "".join(letter for letter in word if letter not in MARKS)


def merged(written: str, restored: str) -> str:
    """A restored word, but with the letters as they were written, and with the marks that were written on a
    letter where there were any. Only an alif without a hamza may get one."""
    ours, theirs = _letters(written), _letters(restored)
    if len(ours) != len(theirs):
        return written
    pairs = zip(ours, theirs, strict=True)
    return "".join((b if a == "ا" else a) + "".join(sorted(own or found)) for (a, own), (b, found) in pairs)


def symbols(said: str, *, is_stressed: bool = True) -> str:
    """Sounds of a word as symbols of the model's vocabulary."""
    said = _backed(said)
    said = (_stressed(said) if is_stressed else said).replace("ʔ", "")
    return "".join(MODEL_SYMBOLS.get(symbol, symbol) for symbol in said)


def _letters(word: str) -> list[Letter]:
    """Each letter with its marks."""
    found: list[tuple[str, set[str]]] = []
    for symbol in word:
        if symbol in MARKS and found:
            found[-1][1].add(symbol)
        elif symbol not in MARKS and symbol != "ـ":
            found.append((symbol, set()))
    return [(letter, frozenset(marks)) for letter, marks in found]


def _letter(letters: list[Letter], index: int, parts: list[str]) -> int:
    """Say the letter at an index; returns how many letters that took."""
    letter, marks = letters[index]
    before = parts[-1] if parts else ""
    if _is_article(letters, index):
        return _article(letters, index, parts)
    if letter in "اٱى":
        parts.append(_alif(letters, index, before))
    elif letter == "آ":
        parts.append("ʔaː")
    elif _lengthens(letter, marks, before):
        parts.append("ː")
    elif letter == "ة" and (index == len(letters) - 1 or not marks & set(VOWELS)):
        is_last = index == len(letters) - 1
        parts.append(("" if before.endswith("a") else "a") + ("h" if is_last else ""))
    else:
        parts.append(_consonant(letter, marks, last=index == len(letters) - 1))
    return 1


def _is_article(letters: list[Letter], index: int) -> bool:
    """An alif and a bare l at the start, or after a one-letter word that is written together with it."""
    led = index == 0 or (index == 1 and letters[0][0] in "وفبكل")
    if not led or len(letters) <= index + 2 or letters[index][0] not in "اٱ" or letters[index + 1][0] != "ل":
        return False
    if letters[index + 2][0] == "ا" and index == 0:
        return True
    return not letters[index + 1][1] & (set(VOWELS) | {SHADDA})


def _article(letters: list[Letter], index: int, parts: list[str]) -> int:
    parts.append("" if index else "ʔa")
    following, marks = letters[index + 2]
    if following == "ا":
        parts.append("li")
        return 3
    if following in SUN:
        parts.append(CONSONANTS[following])
        letters[index + 2] = (following, marks - {SHADDA})
    else:
        parts.append("l")
    return 2


def _alif(letters: list[Letter], index: int, before: str) -> str:
    letter, marks = letters[index]
    if index == 0:
        vowel = "u" if "\u064f" in marks else "a" if "\u064e" in marks else "i"
        return f"ʔ{vowel}"
    if before.endswith("an") and FATHATAN in letters[index - 1][1]:
        return ""
    if before.endswith("u") and index == len(letters) - 1 and letter == "ا":
        return ""
    if before.endswith("uː") or (before == "ː" and index == len(letters) - 1 and letter == "ا"):
        return ""
    return "ː" if before.endswith("a") else "aː"


def _lengthens(letter: str, marks: frozenset[str], before: str) -> bool:
    """Whether a w or y without a vowel of its own is the length of the vowel before it."""
    if marks & set(VOWELS) or SHADDA in marks:
        return False
    return (letter == "و" and before.endswith("u")) or (letter in "يی" and before.endswith("i"))


def _consonant(letter: str, marks: frozenset[str], *, last: bool) -> str:
    sound = CONSONANTS.get(letter, "")
    if SHADDA in marks:
        sound *= 2
    vowel = next((VOWELS[mark] for mark in VOWELS if mark in marks), "")
    if SUPERSCRIPT_ALIF in marks:
        vowel = "aː"
    return sound if last and vowel != "an" else sound + vowel


def _backed(said: str) -> str:
    """a beside an emphatic consonant is a back vowel."""
    said = re.sub(r"([SDTZq]{1,2})a", r"\1ɑ", said)
    return re.sub(r"a(ː?)([SDTZq])", r"ɑ\1\2", said)


def _stressed(said: str) -> str:
    """Stress the last syllable if it is over-heavy, else the last heavy one of the three last, else the third
    last. Only a long vowel gets the mark: the model lengthens what is stressed, and a short vowel would be
    heard as a long one."""
    nuclei = list(re.finditer(r"[aiuɑ]ː?", said))
    if not nuclei:
        return said
    place = nuclei[max(0, len(nuclei) - 3)].start()
    for index in range(len(nuclei) - 1, max(-1, len(nuclei) - 4), -1):
        nucleus = nuclei[index]
        end = nuclei[index + 1].start() if index + 1 < len(nuclei) else len(said)
        closing, long = end - nucleus.end(), nucleus[0].endswith("ː")
        final = index == len(nuclei) - 1
        if (closing >= 2 or (long and closing >= 1)) if final else (long or closing >= 2):
            place = nucleus.start()
            break
    return f"{said[:place]}ˈ{said[place:]}" if said[place + 1 : place + 2] == "ː" else said
