"""Kana as symbols of the model's vocabulary, as it was taught (misaki 0.7's romanisation). Knows no kanji."""

from __future__ import annotations

ROWS = {
    "あぁ": "a", "いぃゐ": "i", "うぅ": "ɯ", "えぇゑ": "e", "おぉを": "o", "かゕ": "ka", "が": "ɡa",
    "き": "kʲi", "ぎ": "ɡʲi",
    "く": "kɯ", "ぐ": "ɡɯ", "けゖ": "ke", "げ": "ɡe", "こ": "ko", "ご": "ɡo", "さ": "sa", "ざ": "ʣa",
    "し": "ɕi", "じぢ": "ʥi",
    "す": "sɨ", "ずづ": "zɨ", "せ": "se", "ぜ": "ʣe", "そ": "so", "ぞ": "ʣo", "た": "ta", "だ": "da",
    "ち": "ʨi", "つ": "ʦɨ",
    "て": "te", "で": "de", "と": "to", "ど": "do", "な": "na", "に": "ɲi", "ぬ": "nɯ", "ね": "ne",
    "の": "no", "は": "ha",
    "ば": "ba", "ぱ": "pa", "ひ": "çi", "び": "bʲi", "ぴ": "pʲi", "ふ": "ɸɯ", "ぶ": "bɯ", "ぷ": "pɯ",
    "へ": "he", "べ": "be",
    "ぺ": "pe", "ほ": "ho", "ぼ": "bo", "ぽ": "po", "ま": "ma", "み": "mʲi", "む": "mɯ", "め": "me",
    "も": "mo", "やゃ": "ja",
    "ゆゅ": "jɯ", "よょ": "jo", "ら": "ɾa", "り": "ɾʲi", "る": "ɾɯ", "れ": "ɾe", "ろ": "ɾo",
    "わゎ": "βa", "ゔ": "vɯ",
}  # fmt: skip
SINGLE = {kana: said for row, said in ROWS.items() for kana in row}

PAIRS = {
    "いぇ": "je", "うぃ": "βi", "うぇ": "βe", "うぉ": "βo", "つぃ": "ʦʲi", "てゅ": "tʲɨ", "とぅ": "tɯ",
    "どぅ": "dɯ",
    "てぃ": "tʲi", "でぃ": "dʲi", "でゅ": "dʲɨ", "ふゅ": "ɸʲɨ", "ふょ": "ɸʲo", "ゔゅ": "bʲɨ",
    "ゔょ": "bʲo", "ゔぃ": "vʲi",
    "くぁ": "kᵝa", "くぃ": "kᵝi", "くぇ": "kᵝe", "くぉ": "kᵝo", "ぐぁ": "ɡᵝa", "ぐぃ": "ɡᵝi",
    "ぐぇ": "ɡᵝe", "ぐぉ": "ɡᵝo",
    "ふぃ": "ɸʲi",
}  # fmt: skip
YOON = {
    "き": "kʲ", "ぎ": "ɡʲ", "し": "ɕ", "じ": "ʥ", "ち": "ʨ", "ぢ": "ʥ", "に": "ɲ", "ひ": "ç",
    "び": "bʲ", "ぴ": "pʲ",
    "み": "mʲ", "り": "ɾʲ",
}  # fmt: skip
PAIRS |= {
    first + small: said + vowel
    for first, said in YOON.items()
    for small, vowel in zip("ゃゅょぇ", "aɨoe", strict=True)
}
PAIRS |= {"つ" + small: "ʦ" + vowel for small, vowel in zip("ぁぇぉ", "aeo", strict=True)}
PAIRS |= {"ふ" + small: "ɸ" + vowel for small, vowel in zip("ぁぇぉ", "aeo", strict=True)}
PAIRS |= {"ゔ" + small: "v" + vowel for small, vowel in zip("ぁぇぉ", "aeo", strict=True)}
SMALL = frozenset("ぁぃぅぇぉゃゅょ")


def sounds(kana: str) -> str:
    """Hiragana as symbols; other characters make none."""
    said = ""
    index = 0
    while index < len(kana):
        pair = kana[index : index + 2]
        if pair in PAIRS:
            said += PAIRS[pair]
            index += 2
            continue
        said += _single(kana, index)
        index += 1
    return said


def _single(kana: str, index: int) -> str:
    sign, following = kana[index], kana[index + 1 : index + 2]
    if sign == "ー":
        return "ː"
    if sign == "っ":
        return "ʔ"
    if sign == "ん":
        return _nasal(following)
    said = SINGLE.get(sign, "")
    if following and following in SMALL and sign not in SMALL and said:
        return said[:-1]
    return said


def _nasal(following: str) -> str:
    """ん is said where the next sound is made."""
    if not following:
        return "ɴ"
    onset = SINGLE.get(following, "")[:1]
    if onset in ("m", "p", "b"):
        return "m"
    if onset in ("k", "ɡ"):
        return "ŋ"
    if onset in ("ɲ", "ʨ", "ʥ"):
        return "ɲ"
    if onset in ("n", "t", "d", "ɾ", "z", "ʣ", "ʦ"):
        return "n"
    return "ɴ"
