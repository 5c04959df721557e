"""A made-up meeting of 25 minutes: three of the service's voices in turns of one to three sentences, and
music between. The sentences are drawn from a small grammar; each clip is spoken once and used several times.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from .recordings import VOICES, Recording, music, silence

SENTENCES_A_VOICE = 36
LENGTH_S = 25 * 60
MUSIC_EVERY_S, MUSIC_S = 240, 12
SUBJECTS = (
    *("The old captain", "My younger sister", "A careful doctor", "The new teacher", "Our cousin"),
    *("The tall engineer", "A friendly farmer", "The mayor", "Her grandfather", "The night nurse"),
)
VERBS = ("bought", "painted", "forgot", "repaired", "described", "carried", "discovered", "promised", "sold")
OBJECTS = (
    *("a wooden chair", "the blue bicycle", "a letter from Boston", "the kitchen window", "an orange boat"),
    *("the garden gate", "a box of apples", "two heavy suitcases", "the silver spoon", "a basket of bread"),
)
PLACES = (
    *("near the railway station", "behind the church", "in the middle of the market", "beside the river"),
    *("on the last day of summer", "before the storm began", "after a long winter", "without saying a word"),
    *("for the children of the village", "in front of the hospital"),
)


def meeting(length_s: float = LENGTH_S) -> Recording:
    """The same recording on every call. Whoever speaks goes on to another, and pauses are 0.3 to 1.2 s."""
    chance = random.Random(7)
    clips = {voice: _shuffled(list(_sentences(chance)), chance) for voice in VOICES}
    made, last, next_music = Recording().add("silence", silence(1.5)), "", MUSIC_EVERY_S / 2
    while made.length / 16_000 < length_s:
        if made.length / 16_000 > next_music:
            made.add("silence", silence(0.5)).add("music", music(MUSIC_S, seed=int(next_music)))
            next_music += MUSIC_EVERY_S
        last = chance.choice([voice for voice in VOICES if voice != last])
        for _ in range(chance.randint(1, 3)):
            made.add("silence", silence(chance.uniform(0.3, 1.2))).say(next(clips[last]), last)
    return made


def _sentences(chance: random.Random) -> Iterator[str]:
    for _ in range(SENTENCES_A_VOICE):
        words = (chance.choice(SUBJECTS), chance.choice(VERBS), chance.choice(OBJECTS), chance.choice(PLACES))
        yield " ".join(words) + "."


def _shuffled(sentences: list[str], chance: random.Random) -> Iterator[str]:
    """All of them, then all again in another order, for ever."""
    while True:
        chance.shuffle(sentences)
        yield from sentences
