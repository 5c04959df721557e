"""What the model can draw: concepts chosen from the emoji, with their names and keywords in five languages.

A concept is one emoji. Left out: flags, signs, buttons, clock faces, families, activities of people, and
what differs from another concept by colour or direction alone, for colour is the prompt's to say.
Names are CLDR's; `everyday.tsv` adds the plain word where CLDR's name is not what people say.
Knows no pictures.
"""

import json
import tarfile
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lab.train.image.fetch import sources
from lab.train.image.places import HERE

LANGUAGES = ("en", "zh", "ja", "es", "ar")

_GROUPS = {3, 4, 5, 6, 7}
_SUBGROUPS = {"face-costume", "heart", "body-parts", "person-fantasy", "face-glasses", "cat-face", "emotion"}
_NO_SUBGROUPS = {"place-map", "time", "award-medal"}
_KEPT = """
skull|ghost|grinning face|smiling face with smiling eyes|face with tears of joy|winking face|crying face
angry face|sleeping face|thinking face|smiling face with heart-eyes|cowboy hat face|nauseated face
zipper-mouth face|waving hand|raised hand|thumbs up|thumbs down|clapping hands|folded hands|handshake
victory hand|OK hand|raised fist|backhand index pointing right|writing hand|nail polish|flexed biceps|baby
boy|girl|man|woman|old man|old woman|police officer|construction worker|guard|princess|ninja|Santa Claus
superhero|mage|fairy|vampire|mermaid|elf|genie|zombie|snowboarder|skier|person running|woman dancing
footprints|bust in silhouette|hourglass done|watch|alarm clock|stopwatch|mantelpiece clock|trophy
sports medal|military medal|compass|globe showing Asia-Australia|world map|red circle|blue square
red triangle pointed up|large blue diamond|recycling symbol|check mark|cross mark|warning|no entry
peace symbol|yin yang|star of David|latin cross|infinity|heavy dollar sign|multiply|plus|red question mark
red exclamation mark|chequered flag|triangular flag|atom symbol|radioactive|wheelchair symbol|up arrow
right arrow|down arrow|left arrow|soccer ball
"""
_DROPPED = """
oncoming bus|oncoming police car|oncoming taxi|oncoming automobile|tram car|railway car|mountain railway
station|light rail|train|trolleybus|minibus|delivery truck|mountain cableway|suspension railway
airplane departure|airplane arrival|small airplane|motor boat|passenger ship|ferry|seat|manual wheelchair
bus stop|green apple|lime|melon|brown mushroom|front-facing baby chick|hatching chick|turkey|black bird
whale|monkey face|dog face|guide dog|service dog|poodle|cat face|tiger face|horse face|cow face|pig face
pig nose|rabbit face|mouse face|dragon face|water buffalo|two-hump camel|ram|boar|rat|chipmunk|badger
black cat|new moon|waxing crescent moon|first quarter moon|waxing gibbous moon|waning gibbous moon
last quarter moon|waning crescent moon|new moon face|first quarter moon face|last quarter moon face
full moon face|sun with face|sun behind cloud|sun behind large cloud|sun behind rain cloud
cloud with lightning and rain|umbrella|umbrella on ground|closed umbrella|snowman without snow|glowing star
shooting star|fog|foggy|cherry blossom|white flower|rosette|wilted flower|blossom|leaf fluttering in wind
fallen leaf|nest with eggs|clinking beer mugs|clinking glasses|tumbler glass|teacup without handle|ice cream
shortcake|pouring liquid|softball|rugby football|person in suit levitating|flower playing cards
mahjong red dragon|joker|green book|blue book|orange book|notebook with decorative cover|notebook|ledger
bookmark tabs|page facing up|page with curl|rolled-up newspaper|open file folder|card index
tear-off calendar|spiral calendar|spiral notepad|chart increasing with yen|yen banknote|euro banknote
pound banknote|round pushpin|linked paperclips|card file box|e-mail|incoming envelope|envelope with arrow
outbox tray|inbox tray|closed mailbox with lowered flag|open mailbox with raised flag
open mailbox with lowered flag|postbox|mobile phone with arrow|telephone receiver|low battery|computer disk
dvd|optical disk|camera with flash|magnifying glass tilted right|muted speaker|speaker low volume
speaker medium volume|bell with slash|musical notes|trackball|unlocked|locked with pen|locked with key
old key|hammer and pick|pick|broken chain|chains|houses|derelict house|house with garden
Japanese post office|love hotel|department store|hotel|bank|hospital|building construction|cityscape at dusk
night with stars|bridge at night|sunset|sunrise|camping|map of Japan|globe showing Europe-Africa
globe showing Americas|globe with meridians|hourglass not done|timer clock|1st place medal|2nd place medal
3rd place medal|flat shoe|woman’s sandal|thong sandal|clutch bag|purse|woman’s clothes|running shirt
white cane|admission tickets|spade suit|heart suit|diamond suit|club suit|heart with ribbon|heart with arrow
growing heart|beating heart|revolving hearts|two hearts|heart decoration|heart exclamation|mending heart
orange heart|yellow heart|green heart|blue heart|purple heart|brown heart|black heart|grey heart|white heart
pink heart|light blue heart|heart on fire|sparkling heart|anatomical heart|grinning cat with smiling eyes
cat with tears of joy|cat with wry smile|kissing cat|weary cat|pouting cat|grinning cat|crying cat
left speech bubble|right anger bubble|eye in speech bubble|anger symbol|hole|fight cloud|alien monster
ear with hearing aid|eyes|biting lip|nerd face|x-ray|drop of blood|adhesive bandage|hamsa|mechanical arm
mechanical leg|placard|label|Japanese symbol for beginner|kaaba|khanda|mountain|person climbing|paw prints
wing|spider web|knot|martial arts uniform|goal net|cricket game|field hockey|lacrosse|level slider
control knobs|film frames|clapper board|videocassette|bookmark|identification card|funeral urn
card index dividers|receipt|money with wings|dango|oden|fish cake with swirl|rice cracker
roasted sweet potato|tamale|falafel|stuffed flatbread|flatbread|fondue|mate|beverage box|shallow pan of food
pot of food|custard|pine decoration|tanabata tree|moon viewing ceremony|confetti ball|sparkler|firecracker
reminder ribbon
"""


@dataclass
class Concept:
    """One emoji: its code points, where it stands among emoji, and what it is called."""

    code: str
    emoji: str
    label: str
    subgroup: str
    names: dict[str, str] = field(default_factory=dict)
    """The one name of each language."""
    keywords: dict[str, list[str]] = field(default_factory=dict)
    everyday: dict[str, list[str]] = field(default_factory=dict)
    """Plain words of everyday.tsv: they mean this concept before any other."""


@lru_cache(maxsize=1)
def concepts() -> list[Concept]:
    """All concepts in the order of their code points; their places are the ids that the model knows."""
    chosen = {entry["label"]: entry for entry in _emoji() if _is_chosen(entry)}
    missing = _listed(_KEPT) - set(chosen)
    assert not missing, f"no such emoji: {missing}"
    found = [_concept(entry) for entry in chosen.values()]
    found.sort(key=lambda concept: concept.code)
    _name(found)
    return found


def code_of(hexcode: str) -> str:
    """Code points as the art's packages write them: lower case, without variation selectors."""
    return "-".join(part for part in hexcode.lower().split("-") if part != "fe0f")


def read_json(package: str, member: str) -> Any:
    """A JSON file of one of the sources."""
    with tarfile.open(sources()[package].path) as archive:
        opened = archive.extractfile(f"package/{member}")
        assert opened is not None
        return json.load(opened)


@lru_cache(maxsize=1)
def _emoji() -> list[dict[str, Any]]:
    numbers = read_json("emojibase-data", "meta/groups.json")["subgroups"]
    entries = [entry for entry in read_json("emojibase-data", "en/data.json") if "group" in entry]
    return [{**entry, "subgroup": numbers[str(entry["subgroup"])]} for entry in entries]


def _listed(text: str) -> set[str]:
    return {name.strip() for line in text.strip().splitlines() for name in line.split("|")}


def _is_chosen(entry: dict[str, Any]) -> bool:
    label, subgroup = entry["label"], entry["subgroup"]
    if label in _listed(_KEPT):
        return True
    if label in _listed(_DROPPED) or subgroup in _NO_SUBGROUPS:
        return False
    if subgroup in ("person-fantasy", "face-glasses"):
        return False
    return entry["group"] in _GROUPS or subgroup in _SUBGROUPS


def _concept(entry: dict[str, Any]) -> Concept:
    return Concept(code_of(entry["hexcode"]), entry["emoji"], entry["label"], entry["subgroup"])


def _name(found: list[Concept]) -> None:
    for language in LANGUAGES:
        annotations = read_json("cldr-annotations-full", f"annotations/{language}/annotations.json")
        by_emoji = annotations["annotations"]["annotations"]
        for concept in found:
            said = by_emoji.get(concept.emoji) or by_emoji[concept.emoji.replace("\ufe0f", "")]
            concept.names[language] = said["tts"][0]
            concept.keywords[language] = [word for word in said["default"] if word != said["tts"][0]]
    by_label = {concept.label: concept for concept in found}
    for line in (HERE / "everyday.tsv").read_text("utf-8").splitlines()[1:]:
        label, *columns = line.split("\t")
        words = {language: column.split("|") for language, column in zip(LANGUAGES, columns, strict=False)}
        by_label[label].everyday = {language: list(filter(None, said)) for language, said in words.items()}
