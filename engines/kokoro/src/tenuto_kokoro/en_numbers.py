"""English numbers, dates, times, money and signs as words. Knows no sounds."""

from __future__ import annotations

import re
from collections.abc import Callable

from .marks import BEFORE_NO_MINUS

ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SCALES = ((10**12, "trillion"), (10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred"))
IRREGULAR = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth"}
IRREGULAR |= {"nine": "ninth", "twelve": "twelfth"}
MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
]  # fmt: skip
MONEY = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent"), "¥": ("yen", "sen")}
MONEY |= {"￥": MONEY["¥"]}
MEASURES = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "kg": "kilogram", "g": "gram",
    "mg": "milligram", "l": "liter", "ml": "milliliter", "mph": "mile per hour", "km/h": "kilometer per hour",
    "lb": "pound", "lbs": "pound", "oz": "ounce", "ft": "foot", "GB": "gigabyte", "MB": "megabyte",
    "KB": "kilobyte", "TB": "terabyte", "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz",
    "GHz": "gigahertz", "kW": "kilowatt", "W": "watt", "V": "volt", "ms": "millisecond",
    "°C": "degree Celsius",
    "℃": "degree Celsius", "°F": "degree Fahrenheit", "℉": "degree Fahrenheit", "°": "degree",
}  # fmt: skip
PLURALS = {"foot": "feet", "penny": "pence", "yen": "yen", "sen": "sen", "hertz": "hertz"}
SIGNS = {"&": "and", "+": "plus", "=": "equals", "@": "at", "%": "percent", "#": "number", "×": "times"}
SIGNS |= {"÷": "divided by", "±": "plus or minus", "°": "degrees", "<": "less than", ">": "greater than"}
SIGNS |= {
    "−": "minus",
    "‰": "per thousand",
    "℃": "degrees Celsius",
    "℉": "degrees Fahrenheit",
    "²": "squared",
}
SIGNS |= {"³": "cubed", "½": "one half", "¼": "one quarter", "¾": "three quarters"}

NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+"
LONGEST = 15
"""A whole number of more digits is read digit by digit."""
MEASURE = "|".join(sorted(map(re.escape, MEASURES), key=len, reverse=True))
PARTS = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 6: "sixth", 8: "eighth", 16: "sixteenth"}
PROPER = "|".join(rf"(?:{'|'.join(map(str, range(1, below)))})/{below}" for below in PARTS)
"""Fractions below one, as in recipes and measures; others, as 24/7 and 9/11, are two numbers."""
BEFORE_NO_FRACTION = (
    "on", "by", "since", "until", "before", "after", "from", "page", "part", "step", "slide",
)  # fmt: skip
NO_FRACTION = "".join(rf"(?<!\b[{word[0]}{word[0].upper()}]{word[1:]}\s)" for word in BEFORE_NO_FRACTION)
"""After these words it is a day, or one of several."""
SCALE = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}
"""After a sum of money, in either case."""

PATTERN = re.compile(
    rf"""
    (?P<to>(?:(?:(?<=\d[%‰°℃℉])|(?<=:\d\d)|(?<=\d[apAP][mM]))[-–—]|(?<=\d)[-–—](?=[$£€¥￥]))(?=[$£€¥￥]?\d))
  | (?P<version>(?<![\d.])\d+(?:\.\d+){{2,}})
  | (?P<date>\b(?P<year>\d{{4}})-(?P<month>0?[1-9]|1[0-2])-(?P<day>0?[1-9]|[12]\d|3[01])\b)
  | (?P<slashed>\b(?P<month2>0?[1-9]|1[0-2])/(?P<day2>0?[1-9]|[12]\d|3[01])/(?P<year2>\d{{4}})\b)
  | (?P<fraction>(?<![\w/.,-]){NO_FRACTION}(?!(?<=\()\d+/\d+\))
      (?:(?P<whole>\d{{1,3}})[ \u00a0])?(?P<proper>{PROPER})(?![\w/-]|[.,]\d))
  | (?P<anniversary>\b(?P<named>{"|".join(MONTHS)})\s(?P<day3>[1-9]|[12]\d|3[01])(?!\w|[:%/-]|[.,]\d))
  | (?P<time>\b(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?:\s?(?P<half>[apAP]\.?[mM]\b\.?))?)
  | (?P<oclock>\b(?P<hour2>0?[1-9]|1[0-2])\s?(?P<half2>[ap]m\b|[AP]M\b|[ap]\.m\.|[AP]\.M\.))
  | (?P<money>(?P<coin>[$£€¥￥])\s?(?P<sum>{NUMBER})(?:\s(?P<scale>thousand|million|billion|trillion)\b
      |(?P<short>(?:[kKmMbB]|[mMbB][nN])\b))?)
  | (?P<ordinal>\b(?P<place>\d+)(?:st|nd|rd|th)\b)
  | (?P<decade>\b(?P<ten>\d{{2,3}}0)s\b)
  | (?P<range>(?<![\d.,-])(?P<low>{NUMBER})[-–](?P<high>{NUMBER})(?![\d-]|[.,]\d|\s?[apAP]\.?[mM]\b)
      (?:\s?(?P<measure2>{MEASURE})(?!\w))?)
  | (?P<measured>(?P<minus>(?<![{BEFORE_NO_MINUS}])[-−])?(?P<number>{NUMBER})
      (?:(?P<percent>\s?%)|\s?(?P<measure>{MEASURE})(?!\w))?)
    """,
    re.VERBOSE,
)


def expanded(match: re.Match[str]) -> str:
    """Say what PATTERN found."""
    return SAID[match.lastgroup or ""](match)


def counted(text: str) -> str:
    """A whole number as written, however long: 007 → seven."""
    text = text.lstrip("0") or "0"
    return cardinal(int(text)) if len(text) <= LONGEST else digits(text)


def cardinal(number: int) -> str:
    """1234 → one thousand two hundred thirty-four, as separate words. Below 10 to the power of 15."""
    for size, name in SCALES:
        if number >= size:
            rest = number % size
            return f"{cardinal(number // size)} {name}" + (f" {cardinal(rest)}" if rest else "")
    if number >= 20:
        return TENS[number // 10] + (f" {ONES[number % 10]}" if number % 10 else "")
    return ONES[number]


def ordinal(number: str) -> str:
    """21 → twenty first."""
    *before, last = counted(number).split()
    regular = last[:-1] + "ieth" if last.endswith("y") else last + "th"
    last = IRREGULAR.get(last, regular)
    return " ".join([*before, last])


def year_words(number: int) -> str:
    """2026 → twenty twenty six; 2005 → two thousand five; 1900 → nineteen hundred."""
    century, rest = divmod(number, 100)
    if not 1100 <= number < 2100 or 2000 <= number < 2010:
        return cardinal(number)
    if not rest:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} " + (f"oh {ONES[rest]}" if rest < 10 else cardinal(rest))


def digits(text: str) -> str:
    """Each digit by its name."""
    return " ".join(ONES[int(digit)] for digit in text if digit.isdecimal())


def plain(text: str) -> str:
    """A number as written: a year where four digits look like one, digit by digit where it starts with 0."""
    whole, _, fraction = text.replace(",", "").partition(".")
    if fraction:
        return f"{counted(whole)} point {digits(fraction)}"
    if len(whole) > 1 and whole[0] == "0":
        return digits(whole)
    if len(whole) == 4 and "," not in text and 1100 <= int(whole) < 2100:
        return year_words(int(whole))
    return counted(whole)


def _date(found: re.Match[str]) -> str:
    return f"{MONTHS[int(found['month']) - 1]} {ordinal(found['day'])}, {year_words(int(found['year']))}"


def _slashed(found: re.Match[str]) -> str:
    return f"{MONTHS[int(found['month2']) - 1]} {ordinal(found['day2'])}, {year_words(int(found['year2']))}"


def _fraction(found: re.Match[str]) -> str:
    """1/2 → one half; 2 1/2 → two and a half."""
    above, below = map(int, found["proper"].split("/"))
    part = PARTS[below]
    words = f"{ONES[above]} {part if above == 1 else 'halves' if below == 2 else f'{part}s'}"
    if found["whole"] is None:
        return words
    return f"{counted(found['whole'])} and {re.sub('^one ', 'a ', words)}"


def _time(found: re.Match[str]) -> str:
    hour, minute, half = int(found["hour"]), int(found["minute"]), found["half"]
    words = cardinal(hour)
    if minute:
        words += f" oh {ONES[minute]}" if minute < 10 else f" {cardinal(minute)}"
    elif not half:
        words += " o'clock" if 0 < hour <= 12 else " hundred"
    return words + _half(half)


def _half(half: str | None) -> str:
    """Before noon or after."""
    return (" A M" if half[0] in "aA" else " P M") if half else ""


def _money(found: re.Match[str]) -> str:
    amount, scale = found["sum"].replace(",", ""), found["scale"] or SCALE.get((found["short"] or "").lower())
    unit, part = MONEY[found["coin"]]
    whole, _, fraction = amount.partition(".")
    if scale or len(fraction) not in (0, 2):
        return f"{plain(amount)} {scale or ''} {_plural(unit)}"
    words = []
    if whole.strip("0") or not fraction.strip("0"):
        words.append(_counted(whole, unit))
    if fraction.strip("0"):
        words.append(_counted(fraction, part))
    return " and ".join(words)


def _measured(found: re.Match[str]) -> str:
    text = found["number"]
    minus = "minus " if found["minus"] else ""
    if found["percent"]:
        return f"{minus}{plain(text)} percent"
    if not found["measure"]:
        return minus + plain(text)
    unit = MEASURES[found["measure"]]
    value = text.replace(",", "")
    if value == "1":
        return f"{minus}one {unit}"
    words = plain(text) if "." in value else counted(value)
    return f"{minus}{words} {_units(unit)}"


def _range(found: re.Match[str]) -> str:
    unit = f" {_units(MEASURES[found['measure2']])}" if found["measure2"] else ""
    return f"{plain(found['low'])} to {plain(found['high'])}{unit}"


def _units(unit: str) -> str:
    """Several of a unit: miles per hour."""
    head, _, tail = unit.partition(" ")
    return f"{_plural(head)} {tail}".strip()


def _counted(number: str, unit: str) -> str:
    words = counted(number)
    return f"{words} {unit if words == 'one' else _plural(unit)}"


def _plural(unit: str) -> str:
    return PLURALS.get(unit, unit + "s")


SAID: dict[str, Callable[[re.Match[str]], str]] = {
    "to": lambda found: "to",
    "version": lambda found: " point ".join(map(counted, found[0].split("."))),
    "date": _date,
    "slashed": _slashed,
    "fraction": _fraction,
    "anniversary": lambda found: f"{found['named']} {ordinal(found['day3'])}",
    "time": _time,
    "oclock": lambda found: cardinal(int(found["hour2"])) + _half(found["half2"]),
    "money": _money,
    "ordinal": lambda found: ordinal(found["place"]),
    "decade": lambda found: re.sub("y$", "ie", year_words(int(found["ten"]))) + "s",
    "range": _range,
    "measured": _measured,
}
"""How each of PATTERN's alternatives is said."""
