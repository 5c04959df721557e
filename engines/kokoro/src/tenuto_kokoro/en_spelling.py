"""How an English word that no dictionary has may be said, from its letters alone. A guess, better than
silence."""

from __future__ import annotations

import re

VOWELS = "AIOQWYaiuæɑɔəɛɜɪʊʌᵻ"

# Longest first; the first rule whose letters and surroundings fit wins. `before` and `after` are patterns on
# the word's remaining letters; "" fits anything.
RULES: tuple[tuple[str, str, str, str], ...] = (
    # letters, pattern before, pattern after, symbols
    ("tion", "", "", "ʃən"), ("sion", "[aeiou]", "", "ʒən"), ("sion", "", "", "ʃən"), ("cian", "", "", "ʃən"),
    ("ough", "", "t", "ɔ"), ("ough", "", "", "O"), ("eigh", "", "", "A"), ("augh", "", "", "ɔ"),
    ("tious", "", "", "ʃəs"), ("cious", "", "", "ʃəs"), ("ous", ".", "$", "əs"), ("able", ".", "$", "əbᵊl"),
    ("igh", "", "", "I"), ("tch", "", "", "ʧ"), ("sch", "", "", "ʃ"), ("dge", "", "", "ʤ"),
    ("ture", ".", "$", "ʧəɹ"),
    ("eau", "", "", "O"), ("air", "", "", "ɛɹ"), ("ear", "", "", "ɪɹ"), ("eer", "", "", "ɪɹ"),
    ("oor", "", "", "ɔɹ"),
    ("our", "", "", "ɔɹ"), ("que", "", "$", "k"), ("gue", "", "$", "ɡ"), ("ing", ".", "$", "ɪŋ"),
    ("ch", "", "[lr]", "k"), ("ch", "", "", "ʧ"), ("sh", "", "", "ʃ"), ("th", "", "", "θ"),
    ("ph", "", "", "f"),
    ("wh", "", "", "w"), ("gh", "^", "", "ɡ"), ("gh", "", "", ""), ("kn", "^", "", "n"), ("gn", "^", "", "n"),
    ("wr", "^", "", "ɹ"), ("ps", "^", "", "s"), ("ck", "", "", "k"), ("ng", "", "$", "ŋ"),
    ("ng", "", "[^aeiou]", "ŋ"),
    ("nk", "", "", "ŋk"), ("qu", "", "", "kw"), ("sc", "", "[eiy]", "s"), ("zh", "", "", "ʒ"),
    ("rh", "", "", "ɹ"),
    ("mb", "", "$", "m"), ("ai", "", "", "A"), ("ay", "", "", "A"), ("au", "", "", "ɔ"), ("aw", "", "", "ɔ"),
    ("ea", "", "", "i"), ("ee", "", "", "i"), ("ei", "", "", "A"), ("ey", "", "$", "i"), ("ey", "", "", "A"),
    ("eu", "", "", "u"), ("ew", "", "", "u"), ("ie", "", "$", "i"), ("ie", "", "", "i"), ("oa", "", "", "O"),
    ("oe", "", "", "O"), ("oi", "", "", "Y"), ("oy", "", "", "Y"), ("oo", "", "k", "ʊ"), ("oo", "", "", "u"),
    ("ou", "", "", "W"), ("ow", "", "$", "O"), ("ow", "", "", "W"), ("ue", "", "$", "u"), ("ui", "", "", "u"),
    ("er", ".", "[^aeiou]|$", "əɹ"), ("ar", "", "[^aeiou]|$", "ɑɹ"), ("or", "", "", "ɔɹ"),
    ("ir", "", "[^aeiou]|$", "ɜɹ"),
    ("ur", "", "[^aeiou]|$", "ɜɹ"), ("er", "", "[^aeiou]|$", "ɜɹ"), ("le", "[^aeiou]", "$", "ᵊl"),
    ("es", "[sxz]|sh|ch", "$", "ᵻz"),
    ("a", "", "$", "ə"), ("a", "", "[^aeiou]e$", "A"), ("a", "", "", "æ"),
    ("e", "^[^aeiouy]*", "$", "i"), ("e", ".", "$", ""), ("e", ".", "s$", ""),
    ("e", "", "[^aeiou]e$", "i"), ("e", "", "", "ɛ"),
    ("i", "", "$", "i"), ("i", "", "[^aeiou]e$", "I"), ("i", "", "[ao]", "i"), ("i", "", "", "ɪ"),
    ("o", "", "$", "O"), ("o", "", "[^aeiou]e$", "O"), ("o", "", "[^aeiou][aeiou]", "O"), ("o", "", "", "ɑ"),
    ("u", "", "$", "u"), ("u", "", "[^aeiou][aeiou]", "u"), ("u", "", "", "ʌ"),
    ("y", "^", "", "j"), ("y", "^[^aeiou]+", "$", "I"), ("y", "", "$", "i"), ("y", "", "", "ɪ"),
    ("c", "", "[eiy]", "s"), ("c", "", "", "k"), ("g", "", "[eiy]", "ʤ"), ("g", "", "", "ɡ"),
    ("j", "", "", "ʤ"),
    ("r", "", "", "ɹ"), ("s", "[aeioulmnr]", "$", "z"), ("x", "^", "", "z"), ("x", "", "", "ks"),
    ("z", "", "", "z"),
)  # fmt: skip


def spelled(word: str) -> str:
    """Sounds for lower-case letters a-z, with one main stress; "" for none."""
    word = re.sub(r"([b-df-hj-np-tv-z])\1", r"\1", word)
    sounds = ""
    start = 0
    while start < len(word):
        letters, symbols = _rule(word, start)
        sounds += symbols
        start += len(letters)
    return _stressed(sounds)


def _rule(word: str, start: int) -> tuple[str, str]:
    for letters, before, after, symbols in RULES:
        end = start + len(letters)
        if word.startswith(letters, start) and _fits(before, after, word[:start], word[end:]):
            return letters, symbols
    return word[start], word[start]


def _fits(before: str, after: str, left: str, right: str) -> bool:
    return (not before or re.search(f"(?:{before})$", left) is not None) and (
        not after or re.match(after, right) is not None
    )


def _stressed(sounds: str) -> str:
    """Stress the first of two syllables, the last but two of more, and the only one of one."""
    places = [index for index, symbol in enumerate(sounds) if symbol in VOWELS and symbol not in "əᵻ"]
    if not places:
        return sounds
    place = places[max(0, len(places) - 3)]
    return sounds[:place] + "ˈ" + sounds[place:]
