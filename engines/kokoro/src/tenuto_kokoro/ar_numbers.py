"""Arabic numbers, dates, times, money and signs as vowelled words, in pausal form. Knows no sounds."""

from __future__ import annotations

import re

from .marks import BEFORE_NO_MINUS

ONES = ["صِفْر", "وَاحِد", "اِثْنَيْن", "ثَلَاثَة", "أَرْبَعَة", "خَمْسَة", "سِتَّة", "سَبْعَة", "ثَمَانِيَة", "تِسْعَة", "عَشَرَة"]
TEENS = {11: "أَحَدَ عَشَر", 12: "اِثْنَا عَشَر"}
TENS = ["_", "_", "عِشْرِين", "ثَلَاثِين", "أَرْبَعِين", "خَمْسِين", "سِتِّين", "سَبْعِين", "ثَمَانِين", "تِسْعِين"]
HUNDREDS = ["_", "مِئَة", "مِئَتَيْن", "ثَلَاثُمِئَة", "أَرْبَعُمِئَة", "خَمْسُمِئَة", "سِتُّمِئَة", "سَبْعُمِئَة", "ثَمَانِمِئَة", "تِسْعُمِئَة"]
SCALES = (
    (10**9, "مِلْيَار", "مِلْيَارَيْن", "مِلْيَارَات"),
    (10**6, "مِلْيُون", "مِلْيُونَيْن", "مَلَايِين"),
    (1000, "أَلْف", "أَلْفَيْن", "آلَاف"),
)
MONTHS = [
    "يَنَايِر", "فِبْرَايِر", "مَارِس", "أَبْرِيل", "مَايُو", "يُونْيُو", "يُولْيُو", "أَغُسْطُس", "سِبْتَمْبَر", "أُكْتُوبَر",
    "نُوفَمْبَر", "دِيسَمْبَر",
]  # fmt: skip
MONEY = {"$": "دُولَار", "€": "يُورُو", "£": "جُنَيْه", "¥": "يِن", "￥": "يِن"}
MEASURES = {
    "km": "كِيلُومِتْر", "كم": "كِيلُومِتْر", "kg": "كِيلُوغْرَام", "كغ": "كِيلُوغْرَام", "كجم": "كِيلُوغْرَام",
    "cm": "سَنْتِيمِتْر", "سم": "سَنْتِيمِتْر", "m": "مِتْر", "°C": "دَرَجَة مِئَوِيَّة", "℃": "دَرَجَة مِئَوِيَّة", "°": "دَرَجَة",
}  # fmt: skip
SIGNS = {"+": "زَائِد", "=": "يُسَاوِي", "%": "بِالْمِئَة", "٪": "بِالْمِئَة", "&": "وَ", "@": "آت", "×": "ضَرْب", "#": "رَقَم"}
SIGNS |= {"−": "نَاقِص", "÷": "قِسْمَة", "±": "زَائِد نَاقِص", "‰": "بِالْأَلْف", "°": "دَرَجَة", "℃": "دَرَجَة مِئَوِيَّة"}
SIGNS |= {"℉": "دَرَجَة فِهْرِنْهَايْت", "²": "تَرْبِيع", "³": "تَكْعِيب", "½": "نِصْف", "¼": "رُبْع", "¾": "ثَلَاثَة أَرْبَاع"}
SIGNS |= MONEY
AND = "وَ"
NUMBER = r"\d{1,3}(?:[,٬]\d{3})+(?:[.٫]\d+)?|\d+(?:[.,٫]\d+)?"
LONGEST = 12
"""A whole number of more digits is read digit by digit."""
MILLIONS = {
    "ألف": "أَلْف",
    "آلاف": "آلَاف",
    "مليون": "مِلْيُون",
    "ملايين": "مَلَايِين",
    "مليار": "مِلْيَار",
    "مليارات": "مِلْيَارَات",
}
"""Scale words after an amount; they are spoken before the name of the currency."""
TO, POINT = "إِلَى", "فَاصِلَة"

PATTERN = re.compile(
    rf"""
    (?P<to>(?:(?:(?<=\d[%٪‰°℃℉€$£¥￥])|(?<=:\d\d))[-–—]|(?<=\d)[-–—](?=[$£€¥￥]))(?=[$£€¥￥]?\d)) |
    (?P<version>(?<![\d.])\d+(?:\.\d+){{2,}}) |
    (?P<date>(?<!\d)(?P<year>\d{{4}})[-/](?P<month>0?[1-9]|1[0-2])[-/](?P<day>0?[1-9]|[12]\d|3[01])(?!\d))
  |
  (?P<slashed>(?<!\d)(?P<day2>0?[1-9]|[12]\d|3[01])[-/](?P<month2>0?[1-9]|1[0-2])[-/](?P<year2>\d{{4}})(?!\d))
  | (?P<time>(?<!\d)(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?!\d)) |
  (?P<money>(?P<coin>[$€£¥￥])\s?(?P<sum>{NUMBER})(?:\s(?P<scale>{"|".join(MILLIONS)})(?!\w))?) |
  (?P<range>(?<![\d.,٫-])(?P<low>{NUMBER})[-–](?P<high>{NUMBER})(?![\d-]|[.,٫]\d)) |
  (?P<measured>(?P<minus>(?<![{BEFORE_NO_MINUS}٪])[-−])?(?P<number>{NUMBER})
      (?:(?P<percent>\s?[%٪])|\s?(?P<measure>{
        "|".join(sorted(map(re.escape, MEASURES), key=len, reverse=True))
    })(?!\w) |\s?(?P<coin2>[$€£¥￥]))?)
    """,
    re.VERBOSE,
)


def expanded(match: re.Match[str]) -> str:
    """Say what PATTERN found; any decimal digits may stand in it."""
    found = match.groupdict()
    if found["to"] or found["range"]:
        return f"{plain(found['low'])} {TO} {plain(found['high'])}" if found["range"] else TO
    if found["version"]:
        return f" {POINT} ".join(map(counted, match[0].split(".")))
    if found["date"] or found["slashed"]:
        year, month, day = (int(found[name] or found[name + "2"]) for name in ("year", "month", "day"))
        return f"{cardinal(day)} {MONTHS[month - 1]} {cardinal(year)}"
    if found["time"]:
        hour, minute = int(found["hour"]), int(found["minute"])
        return cardinal(hour) + (f" {AND}{cardinal(minute)} دَقِيقَة" if minute else "")
    if found["money"]:
        scale = f" {MILLIONS[found['scale']]}" if found["scale"] else ""
        return f"{plain(found['sum'])}{scale} {MONEY[found['coin']]}"
    minus = "نَاقِص " if found["minus"] else ""
    unit = (
        "بِالْمِئَة"
        if found["percent"]
        else MEASURES.get(found["measure"] or "", MONEY.get(found["coin2"] or "", ""))
    )
    return f"{minus}{plain(found['number'])} {unit}".strip()


def plain(text: str) -> str:
    """A number as written."""
    text = re.sub(r"[,٬](?=\d{3}(?!\d))", "", text).replace("٫", ".").replace(",", ".")
    whole, _, fraction = text.partition(".")
    if fraction:
        tail = digits(fraction) if fraction[0] in "0٠" or len(fraction) > 2 else cardinal(int(fraction))
        return f"{counted(whole)} {POINT} {tail}"
    if len(whole) > 1 and int(whole[0]) == 0:
        return digits(whole)
    return counted(whole)


def digits(text: str) -> str:
    """Each digit by its name."""
    return " ".join(ONES[int(digit)] for digit in text if digit.isdecimal())


def counted(text: str) -> str:
    """A whole number as written, however long."""
    text = text.lstrip("0") or "0"
    return cardinal(int(text)) if len(text) <= LONGEST else digits(text)


def cardinal(number: int) -> str:
    """2026 → أَلْفَيْن وَسِتَّة وَعِشْرِين. Below 10 to the power of 12."""
    parts = []
    for size, one, two, many in SCALES:
        count, number = divmod(number, size)
        if count:
            parts.append(_scaled(count, one, two, many))
    if number >= 100:
        parts.append(HUNDREDS[number // 100])
        number %= 100
    if number or not parts:
        parts.append(_small(number))
    return f" {AND}".join(parts)


def _scaled(count: int, one: str, two: str, many: str) -> str:
    if count == 1:
        return one
    if count == 2:
        return two
    return f"{cardinal(count)} {many if 3 <= count % 100 <= 10 else one}"


def _small(number: int) -> str:
    if number <= 10:
        return ONES[number]
    if number in TEENS:
        return TEENS[number]
    if number < 20:
        return f"{ONES[number - 10]} عَشَر"
    tens, ones = divmod(number, 10)
    return f"{ONES[ones]} {AND}{TENS[tens]}" if ones else TENS[tens]
