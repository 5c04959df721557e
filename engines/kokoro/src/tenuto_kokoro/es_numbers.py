"""Spanish numbers, dates, times, money and signs as words. Knows no sounds."""

from __future__ import annotations

import re
from collections.abc import Callable

from .marks import BEFORE_NO_MINUS

SMALL = [
    "cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez", "once",
    "doce", "trece", "catorce", "quince", "dieciséis", "diecisiete", "dieciocho", "diecinueve",
    "veinte", "veintiuno", "veintidós", "veintitrés", "veinticuatro", "veinticinco", "veintiséis",
    "veintisiete", "veintiocho", "veintinueve",
]  # fmt: skip
TENS = ["_", "diez", "veinte", "treinta", "cuarenta", "cincuenta", "sesenta", "setenta", "ochenta", "noventa"]
HUNDREDS = [
    "_", "ciento", "doscientos", "trescientos", "cuatrocientos", "quinientos", "seiscientos",
    "setecientos", "ochocientos", "novecientos",
]  # fmt: skip
MONTHS = [
    "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre",
    "noviembre", "diciembre",
]  # fmt: skip
MONEY = {"$": ("dólar", "centavo"), "€": ("euro", "céntimo"), "£": ("libra", "penique"), "¥": ("yen", "sen")}
MONEY |= {"￥": MONEY["¥"], "US$": MONEY["$"]}
MEASURES = {
    "km": "kilómetro", "m": "metro", "cm": "centímetro", "mm": "milímetro", "kg": "kilogramo", "g": "gramo",
    "mg": "miligramo", "l": "litro", "ml": "mililitro", "km/h": "kilómetro por hora", "GB": "gigabyte",
    "MB": "megabyte", "Hz": "hercio", "kW": "kilovatio", "W": "vatio", "V": "voltio", "°C": "grado Celsius",
    "℃": "grado Celsius", "°F": "grado Fahrenheit", "h": "hora", "min": "minuto", "s": "segundo",
    "°": "grado",
}  # fmt: skip
SIGNS = {"&": "y", "+": "más", "=": "igual a", "@": "arroba", "%": "por ciento", "#": "número", "×": "por"}
SIGNS |= {"÷": "entre", "±": "más menos", "<": "menor que", ">": "mayor que", "°": "grados", "€": "euros"}
SIGNS |= {"$": "dólares", "£": "libras", "¥": "yenes", "￥": "yenes", "−": "menos", "‰": "por mil"}
SIGNS |= {"℃": "grados Celsius", "℉": "grados Fahrenheit", "²": "al cuadrado", "³": "al cubo"}
SIGNS |= {"½": "un medio", "¼": "un cuarto", "¾": "tres cuartos"}
MEXICAN = r"\d{1,3}(?:,\d{3})+\.\d+(?!\d)"
"""As in the United States: commas separate thousands, and a point separates the decimals."""
NUMBER = MEXICAN + r"|\d{1,3}(?:[. ]\d{3})+(?!\d)(?:,\d+)?|\d{1,3}(?:,\d{3}){2,}|\d+(?:[.,]\d+)?"
PARTS = {2: "medio", 3: "tercio", 4: "cuarto", 5: "quinto", 6: "sexto", 8: "octavo"}
PROPER = "|".join(rf"(?:{'|'.join(map(str, range(1, below)))})/{below}" for below in PARTS)
"""Fractions below one, as in recipes; others, as 24/7, are two numbers."""
BEFORE_NO_FRACTION = ("el", "del", "al", "desde", "hasta", "página", "parte", "paso")
NO_FRACTION = "".join(rf"(?<!\b[{word[0]}{word[0].upper()}]{word[1:]}\s)" for word in BEFORE_NO_FRACTION)
"""After these words it is a day, or one of several."""
NOUN = re.compile(
    r"\s+(?!(?:del?|para|hasta|cada|una)\b)"
    r"(?:(?P<feminine>(?!días?\b)[a-záéíóúñ]{2,}as?\b)|[a-záéíóúñ]{3,})"
)
LONGEST = 12
"""A whole number of more digits is read digit by digit."""
MEASURE = "|".join(sorted(map(re.escape, MEASURES), key=len, reverse=True))

PATTERN = re.compile(
    rf"""
    (?P<to>(?:(?:(?<=\d[%‰°℃℉€$£¥￥])|(?<=:\d\d))[-–—]|(?<=\d)[-–—](?=[$£€¥￥]))(?=[$£€¥￥]?\d))
  | (?P<version>(?<![\d.])(?!\d{{1,3}}(?:\.\d{{3}})+(?![.\d]))\d+(?:\.\d+){{2,}})
  | (?P<date>\b(?P<year>\d{{4}})-(?P<month>0?[1-9]|1[0-2])-(?P<day>0?[1-9]|[12]\d|3[01])\b)
  | (?P<slashed>\b(?P<day2>0?[1-9]|[12]\d|3[01])/(?P<month2>0?[1-9]|1[0-2])/(?P<year2>\d{{4}})\b)
  | (?P<fraction>(?<![\w/.,-]){NO_FRACTION}(?!(?<=\()\d+/\d+\))
      (?:(?P<whole>\d{{1,3}})[ \u00a0])?(?P<proper>{PROPER})(?![\w/-]|[.,]\d))
  | (?P<time>\b(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?:\s?h\b)?)
  | (?P<money>(?P<coin>US\$|[$€£¥￥])\s?(?P<sum>{NUMBER})(?:\s(?P<scale>mil|[mb]ill(?:[oó]n|ones))\b)?)
  | (?P<paid>(?P<sum2>{NUMBER})\s?(?P<coin2>[$€£¥￥]))
  | (?P<ordinal>\b(?P<place>[1-9]|10)\.?(?P<gender>[ºª]))
  | (?P<range>(?<![\d.,-])(?P<low>{NUMBER})[-–](?P<high>{NUMBER})(?![\d-]|[.,]\d)
      (?:\s?(?P<measure2>{MEASURE})(?!\w))?)
  | (?P<measured>(?P<minus>(?<![{BEFORE_NO_MINUS}])[-−])?(?P<number>{NUMBER})
      (?:(?P<percent>\s?%)|\s?(?P<measure>{MEASURE})(?!\w))?)
    """,
    re.VERBOSE,
)
ORDINALS = ["_", "primer", "segund", "tercer", "cuart", "quint", "sext", "séptim", "octav", "noven", "décim"]


def expanded(match: re.Match[str]) -> str:
    """Say what PATTERN found; a word after it may make 'un' or 'una' of 'uno'."""
    return SAID[match.lastgroup or ""](match)


def counted(text: str) -> str:
    """A whole number as written, however long."""
    text = text.lstrip("0") or "0"
    return cardinal(int(text)) if len(text) <= LONGEST else digits(text)


def cardinal(number: int) -> str:
    """1234 → mil doscientos treinta y cuatro. Below 10 to the power of 12."""
    for size, one, many in ((10**6, "un millón", "millones"), (1000, "mil", "mil")):
        if number >= size:
            count, rest = divmod(number, size)
            head = one if count == 1 else f"{_short(cardinal(count))} {many}"
            return f"{head} {cardinal(rest)}" if rest else head
    return "cien" if number == 100 else _small(number)


def _small(number: int) -> str:
    """Below a thousand."""
    if number >= 100:
        rest = number % 100
        return HUNDREDS[number // 100] + (f" {_small(rest)}" if rest else "")
    if number < 30:
        return SMALL[number]
    return TENS[number // 10] + (f" y {SMALL[number % 10]}" if number % 10 else "")


def digits(text: str) -> str:
    """Each digit by its name."""
    return " ".join(SMALL[int(digit)] for digit in text if digit.isdecimal())


def plain(text: str) -> str:
    """A number as written; both the comma and the point may part decimals, the point may part thousands."""
    whole, fraction = _parted(text)
    if len(whole) > 1 and whole[0] == "0" and not fraction:
        return digits(whole)
    words = counted(whole)
    if not fraction:
        return words
    tail = digits(fraction) if fraction[0] == "0" or len(fraction) > 2 else cardinal(int(fraction))
    return f"{words} {'coma' if text.rfind(',') > text.rfind('.') else 'punto'} {tail}"


def _parted(text: str) -> tuple[str, str]:
    if re.fullmatch(r"\d{1,3}(?:[. ]\d{3})+(?:,\d+)?", text):
        whole, _, fraction = text.partition(",")
        return re.sub(r"\D", "", whole), fraction
    if re.fullmatch(MEXICAN, text):
        whole, _, fraction = text.partition(".")
        return whole.replace(",", ""), fraction
    if re.fullmatch(r"\d{1,3}(?:,\d{3}){2,}", text):
        return text.replace(",", ""), ""
    whole, _, fraction = text.replace(",", ".").partition(".")
    return whole, fraction


def _date(found: re.Match[str]) -> str:
    day, month, year = (found[name] or found[f"{name}2"] for name in ("day", "month", "year"))
    return f"{cardinal(int(day))} de {MONTHS[int(month) - 1]} de {cardinal(int(year))}"


def _fraction(found: re.Match[str]) -> str:
    """1/2 taza → media taza; 2 1/2 → dos y medio; 3/4 → tres cuartos."""
    above, below = map(int, found["proper"].split("/"))
    noun = NOUN.match(found.string, found.end())
    whole = found["whole"] and counted(found["whole"])
    if below > 2:
        words = f"un {PARTS[below]}" if above == 1 else f"{SMALL[above]} {PARTS[below]}s"
    elif noun and noun["feminine"]:
        words, whole = "media", whole and _feminine(whole)
    else:
        words = "medio" if noun or whole else "un medio"
    return f"{whole} y {words}" if whole else words


def _time(found: re.Match[str]) -> str:
    hour, minute = _feminine(cardinal(int(found["hour"]))), int(found["minute"])
    return f"{hour} y {cardinal(minute)}" if minute else f"{hour} en punto"


def _ordinal(found: re.Match[str]) -> str:
    return ORDINALS[int(found["place"])] + ("o" if found["gender"] == "º" else "a")


def _money(found: re.Match[str]) -> str:
    unit, part = MONEY[found["coin"] or found["coin2"]]
    text = found["sum"] or found["sum2"]
    if found["scale"]:
        link = "" if found["scale"] == "mil" else "de "
        return f"{_short(plain(text))} {found['scale']} {link}{_plural(unit)}"
    # No money has three decimals.
    whole, fraction = _parted(text.replace(",", ".") if re.fullmatch(r"\d{1,3},\d{3}", text) else text)
    cents = int(fraction.ljust(2, "0")[:2]) if fraction else 0
    words = [_counted(whole, unit)]
    if cents:
        words += ["con", _counted(str(cents), part)]
    return " ".join(words)


def _measured(found: re.Match[str]) -> str:
    text = found["number"]
    minus = "menos " if found["minus"] else ""
    whole, fraction = _parted(text)
    if found["percent"]:
        return f"{minus}{plain(text)} por ciento"
    if found["measure"]:
        head, _, tail = MEASURES[found["measure"]].partition(" ")
        words = _counted(whole, head) if not fraction else f"{plain(text)} {_plural(head)}"
        return f"{minus}{words} {tail}".strip()
    return minus + _agreed(plain(text), found.string[found.end() :])


def _range(found: re.Match[str]) -> str:
    head, _, tail = MEASURES.get(found["measure2"] or "", "").partition(" ")
    unit = f"{_plural(head)} {tail}" if head else ""
    return f"{plain(found['low'])} a {plain(found['high'])} {unit}".strip()


def _agreed(words: str, following: str) -> str:
    """A number before a noun: un or una for uno, and hundreds in the noun's gender."""
    if words.endswith("uno") and re.match(r"\s+[a-záéíóúñ]{3,}", following):
        feminine = re.match(r"\s+\w+(?:as?|ción|dad|ciones)\b", following)
        return words[:-1] + "a" if feminine else _short(words)
    if words.endswith("cientos") and re.match(r"\s+[a-záéíóúñ]+as\b", following):
        return words[:-2] + "as"
    return words


def _counted(number: str, unit: str) -> str:
    words = counted(number)
    is_one = words == "uno"
    if unit in ("libra", "hora"):
        words = _feminine(words)
    return f"{_short(words)} {unit if is_one else _plural(unit)}"


def _short(words: str) -> str:
    """uno → un, veintiuno → veintiún, before a noun."""
    return re.sub(r"uno$", lambda _: "ún" if words.endswith("veintiuno") else "un", words)


def _feminine(words: str) -> str:
    return re.sub(r"uno$", "una", words).replace("cientos", "cientas")


def _plural(unit: str) -> str:
    unit = {"dólar": "dólares", "yen": "yenes", "sen": "sen", "hertz": "hertz"}.get(unit, unit)
    return unit if unit.endswith("s") or unit == "sen" else unit + "s"


SAID: dict[str, Callable[[re.Match[str]], str]] = {
    "to": lambda found: "a",
    "version": lambda found: " punto ".join(map(counted, found[0].split("."))),
    "date": _date,
    "slashed": _date,
    "fraction": _fraction,
    "time": _time,
    "money": _money,
    "paid": _money,
    "ordinal": _ordinal,
    "range": _range,
    "measured": _measured,
}
"""How each of PATTERN's alternatives is said."""
