"""Reads a prompt: which things, how many of each, in which colour, how they stand to each other, and on what.

Rules over words, Chinese and English; other languages are read as names joined by commas and `and`. What the
rules do not take away is a phrase, and what a phrase means is the sentence encoder's to say. Knows no
pictures.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, replace

from . import words

MAX_THINGS = 6
MAX_CHARACTERS = 400
"""A prompt is read so far; a phrase of this many characters is still less than the encoder takes."""

_HAN = re.compile(r"[\u4e00-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_COUNT = "|".join(sorted(words.CHINESE_COUNTS, key=len, reverse=True))
_CHINESE_COUNT = re.compile(rf"^(?P<count>{_COUNT}|\d+)(?P<class>[{words.CLASSIFIERS}])?")
_COLOUR_WORDS = "|".join(sorted(words.CHINESE_COLOURS, key=len, reverse=True))
_CHINESE_COLOUR = re.compile(rf"^(?:[深浅淡亮暗鲜大]?)(?P<colour>{_COLOUR_WORDS})(?P<rest>色的?|的)?")


@dataclass(frozen=True)
class Thing:
    """What one phrase asks for."""

    phrase: str
    count: int = 1
    colour: str = ""
    size: float = 1.0
    ignored: tuple[str, ...] = ()
    """Words that were read and change nothing."""


@dataclass(frozen=True)
class Scene:
    """A prompt, read. `relations[n]` is how thing n stands to thing n + 1."""

    things: tuple[Thing, ...]
    relations: tuple[str, ...] = ()
    place: str = ""
    backdrop: str = ""
    """A colour that the prompt gives to the background."""
    warnings: tuple[str, ...] = ()


class Reader:
    """Reads prompts; `names` are the phrases that mean something as they stand, colour words and all."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = names

    def read(self, prompt: str) -> Scene:
        """What the prompt asks for; at least one thing."""
        text = re.sub(r"\s+", " ", unicodedata.normalize("NFKC", prompt)).strip().lower()
        text = text.strip(" .!?。！？…\"'“”「」") or prompt.strip()
        warnings = []
        if len(text) > MAX_CHARACTERS:
            warnings.append(
                f"the prompt was cut: its first {MAX_CHARACTERS} characters are read, not all {len(text)}"
            )
            text = text[:MAX_CHARACTERS]
        if text in self._names:
            return Scene((Thing(text),), warnings=tuple(warnings))
        is_chinese = bool(_HAN.search(text)) and not _KANA.search(text)
        scene = self._chinese(text) if is_chinese else self._english(text)
        if len(scene.things) > MAX_THINGS:
            warnings.append(f"the first {MAX_THINGS} of {len(scene.things)} things are drawn")
        kept = tuple(
            thing if thing.phrase else replace(thing, phrase=text) for thing in scene.things[:MAX_THINGS]
        )
        styles = dict.fromkeys(re.findall(words.STYLE, text))
        ignored = [*styles, *(word for thing in kept for word in thing.ignored)]
        if ignored:
            listed = ", ".join(repr(word) for word in ignored)
            warnings.append(f"this model draws pictograms alone; these words change nothing: {listed}")
        for thing in kept:
            if thing.count > words.MOST:
                warnings.append(f"{words.MOST} of {thing.count} are drawn: {thing.phrase}")
        kept = tuple(replace(thing, count=max(1, min(thing.count, words.MOST))) for thing in kept)
        return replace(
            scene, things=kept, relations=scene.relations[: len(kept) - 1], warnings=tuple(warnings)
        )

    def _english(self, text: str) -> Scene:
        text, backdrop = _english_backdrop(text)
        text = _stripped(text, words.PREFACES)
        for ending in words.ENDINGS:
            text = re.sub(ending, "", text)
        bare = re.fullmatch(r"(?P<rest>.+) (?:in|on|at|by) (?:outer |deep )?(?P<place>\w+)", text)
        if bare and bare["place"] in words.PLACE_OF and text not in self._names:
            scene = self._english(bare["rest"])
            return replace(scene, place=words.PLACE_OF[bare["place"]], backdrop=backdrop)
        between = re.fullmatch(r"(?P<a>.+?) between (?P<b>.+?) and (?P<c>.+)", text)
        if between:
            parts = [self._english_thing(between[name]) for name in ("b", "a", "c")]
            return Scene(tuple(parts), ("left", "left"), backdrop=backdrop)
        for pattern, relation in words.ENGLISH_EXISTENCE:
            found = re.fullmatch(pattern, text)
            if found:
                phrases, relations = _split_english(found["a"])
                things = [self._english_thing(phrase) for phrase in (*phrases, found["b"])]
                return self._scene(things, [*relations, relation], backdrop)
        phrases, relations = _split_english(text)
        return self._scene([self._english_thing(phrase) for phrase in phrases], relations, backdrop)

    def _scene(self, things: list[Thing], relations: list[str], backdrop: str) -> Scene:
        """Places (`in the sky`) are what things stand on, unless nothing else is asked for."""
        place, kept, between = "", [things[0]], []
        for thing, relation in zip(things[1:], relations, strict=True):
            named = words.PLACE_OF.get(thing.phrase, "")
            is_plain = thing.count == 1 and thing.colour in ("", words.PLACE_COLOURS.get(named))
            if named and is_plain and relation in ("in", "on"):
                place = named
                continue
            kept.append(thing)
            between.append(relation)
        return Scene(tuple(kept), tuple(between), place, backdrop)

    def _english_thing(self, phrase: str) -> Thing:
        phrase, count = phrase.strip(" ,."), 1
        for start, number in words.COUNT_PHRASES.items():
            if phrase.startswith(start):
                phrase, count = phrase[len(start) :], number
                break
        tokens, colour, size = phrase.split(), "", 1.0
        ignored: tuple[str, ...] = ()
        while len(tokens) > 1 and " ".join(tokens) not in self._names:
            word = tokens[0].strip(",")
            if word in words.COUNTS or word.isdigit():
                count = int(word) if word.isdigit() else words.COUNTS[word]
            elif word in words.COLOUR_OF:
                colour = words.COLOUR_OF[word]
            elif word in ("light", "dark", "bright", "pale", "deep") and tokens[1] in words.COLOUR_OF:
                pass
            elif word in words.ADJECTIVES:
                size = _size(word, size)
            elif word in words.NOT_DRAWN:
                ignored += (word,)
            else:
                break
            tokens = tokens[1:]
        # In Spanish and Arabic a colour follows its thing.
        if len(tokens) > 1 and " ".join(tokens) not in self._names and tokens[-1] in words.COLOUR_OF:
            colour = colour or words.COLOUR_OF[tokens[-1]]
            tokens = tokens[:-1]
        phrase = " ".join(tokens)
        return Thing(self._singular(phrase) if count != 1 else phrase, count, colour, size, ignored)

    def _singular(self, phrase: str) -> str:
        first, _, last = phrase.rpartition(" ")
        candidates = [words.PLURALS.get(last, "")]
        candidates += [last[:-3] + "y"] if last.endswith("ies") else []
        candidates += [last[:-2]] if last.endswith("es") else []
        candidates += [last[:-1]] if last.endswith("s") and not last.endswith("ss") else []
        whole = [f"{first} {word}".strip() for word in candidates if word]
        known = [word for word in whole if word in self._names]
        if phrase in self._names and not known:
            return phrase
        return (known or whole[:1] or [phrase])[0]

    def _chinese(self, text: str) -> Scene:
        text = re.sub(r"(?<=[^a-z0-9]) | (?=[^a-z0-9])", "", text).strip("。,， ")
        text, backdrop = _chinese_backdrop(text)
        for remark in words.CHINESE_REMARKS:
            text = re.sub(remark, "", text)
        text = _stripped(text, words.CHINESE_PREFACES)
        text = re.sub(words.CHINESE_ENDINGS, "", text) or text
        text = _stripped(text, words.CHINESE_PREFACES)
        related = self._chinese_related(text)
        if related:
            return replace(related, backdrop=backdrop)
        things = self._chinese_things(text)
        return self._scene(things, ["beside"] * (len(things) - 1), backdrop)

    def _chinese_things(self, text: str) -> list[Thing]:
        """What stands side by side in an enumeration; at least one thing."""
        phrases = [phrase for phrase in re.split(words.AND, text) if phrase and phrase.strip()]
        if text in self._names or not phrases:
            phrases = [text]
        return [self._chinese_thing(phrase) for phrase in phrases]

    def _chinese_related(self, text: str) -> Scene | None:
        for pattern, relation in words.CHINESE_RELATIONS:
            found = re.fullmatch(pattern, text)
            if found and text not in self._names:
                first, second = self._chinese_things(found["a"]), self._chinese_things(found["b"])
                beside = ["beside"] * (len(first) - 1), ["beside"] * (len(second) - 1)
                return self._scene([*first, *second], [*beside[0], relation, *beside[1]], "")
        on = re.fullmatch(r"^(?P<a>.+?)在(?P<b>.+)$", text)
        if on and on["b"] in words.PLACE_OF:
            return self._in_place(on["a"], on["b"])
        before = re.fullmatch(r"^(?P<b>.{2,4}?)(?:上|里|中|下)的(?P<a>.+)$", text)
        if before and before["b"] in words.PLACE_OF:
            return self._in_place(before["a"], before["b"])
        return None

    def _in_place(self, phrase: str, place: str) -> Scene:
        things = self._chinese_things(phrase)
        scene = self._scene(things, ["beside"] * (len(things) - 1), "")
        return replace(scene, place=words.PLACE_OF[place])

    def _chinese_thing(self, phrase: str) -> Thing:
        phrase, count, colour, size = phrase.strip(), 1, "", 1.0
        while phrase not in self._names:
            shorter = phrase
            counted = _CHINESE_COUNT.match(phrase)
            if counted and (counted["class"] or len(counted["count"]) > 1 or counted["count"] in "两几俩"):
                number = counted["count"]
                count = int(number) if number.isdigit() else words.CHINESE_COUNTS[number]
                shorter = phrase[counted.end() :]
            coloured = None if shorter in self._names else _CHINESE_COLOUR.match(shorter)
            if coloured and (coloured["rest"] or shorter[coloured.end() :] in self._names):
                colour, shorter = words.CHINESE_COLOURS[coloured["colour"]], shorter[coloured.end() :]
            for word in (*words.CHINESE_ADJECTIVES, *words.SMALL, *words.LARGE, "的"):
                if shorter.startswith(word) and len(shorter) > len(word):
                    size, shorter = _size(word, size), shorter[len(word) :]
            if shorter[:1] in ("小", "大") and shorter[1:] in self._names:
                size, shorter = _size({"小": "small", "大": "big"}[shorter[0]], size), shorter[1:]
            if not shorter or shorter == phrase:
                break
            phrase = shorter
        return Thing(phrase, count, colour, size)


def _size(word: str, before: float) -> float:
    return 0.75 if word in words.SMALL else 1.25 if word in words.LARGE else before


def _stripped(text: str, patterns: tuple[str, ...]) -> str:
    """The text without what stands before a thing, tried over again until nothing more goes."""
    before = ""
    while text != before:
        before = text
        for pattern in patterns:
            text = re.sub(f"^(?:{pattern})", "", text) or text
    return text


def _split_english(text: str) -> tuple[list[str], list[str]]:
    """The phrases, and the relation of each to the next."""
    for pattern, relation in words.RELATIONS[:-1]:
        found = re.search(rf"(?:(?: is| are|,)? )(?:{pattern})(?=\s)", text)
        if found and found.start() > 0:
            left, left_relations = _split_english(text[: found.start()])
            right, right_relations = _split_english(text[found.end() :].strip())
            return left + right, [*left_relations, relation, *right_relations]
    pattern = words.RELATIONS[-1][0]
    parts = [
        part.strip() for part in re.split(rf"\s+(?:{pattern})\s+|{words.AND}", text) if part and part.strip()
    ]
    return parts or [text], ["beside"] * (len(parts or [text]) - 1)


def _english_backdrop(text: str) -> tuple[str, str]:
    """`on a blue background`, `on white`: the rest, and the colour."""
    colours = "|".join(sorted((word for word in words.COLOUR_OF if word.isascii()), key=len, reverse=True))
    before = r",? (?:on|with|against) (?:an? |the )?(?:plain |light |dark )?"
    found = re.search(rf"{before}({colours})(?: background| backdrop)?$", text)
    return (text[: found.start()], words.COLOUR_OF[found[1]]) if found else (text, "")


def _chinese_backdrop(text: str) -> tuple[str, str]:
    found = re.search(rf"[,，]?在?({_COLOUR_WORDS})色?的?背景(?:上的|上|下的|下|里|中)?", text)
    if not found:
        return text, ""
    rest = text[: found.start()] + text[found.end() :]
    return rest.strip(",， "), words.CHINESE_COLOURS[found[1]]
