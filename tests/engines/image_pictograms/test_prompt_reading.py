"""What the image engine's rules read out of a prompt; nothing of a model is needed."""

import pytest

from tenuto_pictograms.prompt import MAX_CHARACTERS, Reader, Thing
from tenuto_pictograms.words import MOST

KNOWN = ("cat", "dog", "car", "apple", "sailing boat", "mouse", "red panda", "tree", "hot dog", "glasses")
KNOWN_CHINESE = ("猫", "狗", "苹果", "红绿灯", "云", "房子", "小熊猫", "鱼", "金鱼")
READER = Reader({*KNOWN, *KNOWN_CHINESE})


def things(prompt: str) -> list[tuple[str, int, str]]:
    return [(thing.phrase, thing.count, thing.colour) for thing in READER.read(prompt).things]


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("cat", ("cat", 1, "")),
        ("please draw a cute little cat", ("cat", 1, "")),
        ("an icon showing hot dog", ("hot dog", 1, "")),
        ("一幅猫的画", ("猫", 1, "")),
        ("一只简单的猫，没有别的东西。", ("猫", 1, "")),
        ("a red car", ("car", 1, "red")),
        ("three dark blue cars", ("car", 3, "blue")),
        ("a red panda", ("red panda", 1, "")),
        ("一个红色的苹果", ("苹果", 1, "red")),
        ("红绿灯", ("红绿灯", 1, "")),
        ("两条金鱼", ("金鱼", 2, "")),
        ("two cats", ("cat", 2, "")),
        ("a pair of glasses", ("glasses", 2, "")),
        ("five mice", ("mouse", 5, "")),
        ("十二个苹果", ("苹果", 12, "")),
    ],
)
def test_a_thing_has_a_name_a_count_and_a_colour(prompt: str, wanted: tuple[str, int, str]) -> None:
    """Articles, politeness and `a picture of` are not drawn; `red panda` and 红绿灯 are names (R138)."""
    assert [wanted] == things(prompt)


@pytest.mark.parametrize(
    ("prompt", "phrases", "relations"),
    [
        ("a cat to the left of a dog", ["cat", "dog"], ("left",)),
        ("a cat on the right side of a dog", ["cat", "dog"], ("right",)),
        ("a cat under a tree", ["cat", "tree"], ("below",)),
        ("a cat sitting on top of a car", ["cat", "car"], ("on",)),
        ("a cat, a dog and a car", ["cat", "dog", "car"], ("beside", "beside")),
        ("a cat between a dog and a car", ["dog", "cat", "car"], ("left", "left")),
        ("猫在狗的左边", ["猫", "狗"], ("left",)),
        ("一只狗右边有一只猫", ["猫", "狗"], ("right",)),
        ("房子下面有一只猫", ["猫", "房子"], ("below",)),
        ("猫、狗、鱼", ["猫", "狗", "鱼"], ("beside", "beside")),
    ],
)
def test_how_things_stand_to_each_other(prompt: str, phrases: list[str], relations: tuple[str, ...]) -> None:
    """The first is in the relation to the second, whichever is said first."""
    scene = READER.read(prompt)

    assert (phrases, relations) == ([thing.phrase for thing in scene.things], scene.relations)


@pytest.mark.parametrize(
    ("prompt", "wanted", "place"),
    [
        ("草地上有三只蓝色的猫和一棵树", [("猫", 3, "blue"), ("树", 1, "")], "grass"),
        ("草地上的猫和狗", [("猫", 1, ""), ("狗", 1, "")], "grass"),
        ("房子上有一只猫和一只狗", [("猫", 1, ""), ("狗", 1, ""), ("房子", 1, "")], ""),
        ("on the grass there are three blue cats and a tree", [("cat", 3, "blue"), ("tree", 1, "")], "grass"),
        ("on the car there are a cat and a dog", [("cat", 1, ""), ("dog", 1, ""), ("car", 1, "")], ""),
    ],
)
def test_everything_that_stands_in_a_place_is_read(
    prompt: str, wanted: list[tuple[str, int, str]], place: str
) -> None:
    """A place, or a thing to stand on, may hold several things (R138)."""
    assert (wanted, place) == (things(prompt), READER.read(prompt).place)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("a photo of an old cat", "'photo', 'old'"),
        ("一张猫的照片", "'照片'"),
    ],
)
def test_words_that_change_nothing_are_named(prompt: str, words: str) -> None:
    """A style or a mood that cannot be drawn is said, not silently left out."""
    (warning,) = READER.read(prompt).warnings

    assert f"this model draws pictograms alone; these words change nothing: {words}" == warning


@pytest.mark.parametrize(
    ("prompt", "place", "backdrop"),
    [
        ("a dog in the sea", "sea", ""),
        ("a dog on the grass", "grass", ""),
        ("a cat at night", "night", ""),
        ("狗在草地上", "grass", ""),
        ("a cat on a blue background", "", "blue"),
        ("红色背景上的猫", "", "red"),
    ],
)
def test_where_a_scene_takes_place(prompt: str, place: str, backdrop: str) -> None:
    scene = READER.read(prompt)

    assert (1, place, backdrop) == (len(scene.things), scene.place, scene.backdrop)


def test_what_is_too_much_is_cut_with_a_warning() -> None:
    long = READER.read("a cat " + "of a very long and very special sort " * 1000)
    many = READER.read(", ".join(["cat", "dog", "car", "tree"] * 3))
    crowd = READER.read("99 cats")

    assert [f"the prompt was cut: its first {MAX_CHARACTERS} characters are read, not all 37005"] == [
        *long.warnings[:1]
    ]
    assert (6, 5, ("the first 6 of 12 things are drawn",)) == (
        len(many.things),
        len(many.relations),
        many.warnings,
    )
    assert (Thing("cat", MOST), (f"{MOST} of 99 are drawn: cat",)) == (crowd.things[0], crowd.warnings)


@pytest.mark.parametrize(
    "prompt",
    ["!!!", "a", "的", "，，", "0 cats", "and and and", "左边", "红色的", "🐱", "in the", "x" * 20_000],
)
def test_any_prompt_asks_for_at_least_one_thing(prompt: str) -> None:
    scene = READER.read(prompt)

    assert scene.things
    assert len(scene.things) == len(scene.relations) + 1
    assert all(thing.phrase and 1 <= thing.count <= MOST for thing in scene.things)
