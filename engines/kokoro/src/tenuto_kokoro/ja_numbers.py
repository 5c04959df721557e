"""Numbers, dates, times, money and units in Japanese text as kanji and kana, which the dictionary then reads
with their sound changes (三月, 五日, 六本). Knows no sounds."""

from __future__ import annotations

import re
from collections.abc import Callable

DIGITS = "零一二三四五六七八九"
MONEY = {"￥": "円", "¥": "円", "$": "ドル", "€": "ユーロ", "£": "ポンド"}
MEASURES = {
    "km": "キロメートル", "m": "メートル", "cm": "センチ", "mm": "ミリ", "kg": "キロ", "g": "グラム",
    "mg": "ミリグラム",
    "t": "トン", "L": "リットル", "ml": "ミリリットル", "mL": "ミリリットル",
    "km/h": "キロメートル毎時", "GB": "ギガバイト",
    "MB": "メガバイト", "TB": "テラバイト", "kW": "キロワット", "W": "ワット", "V": "ボルト",
    "Hz": "ヘルツ", "℃": "度",
    "°C": "度", "°": "度", "%": "パーセント", "％": "パーセント", "㎡": "平方メートル", "m²": "平方メートル",
}  # fmt: skip
SIGNS = {
    "+": "プラス",
    "=": "イコール",
    "×": "かける",
    "÷": "わる",
    "%": "パーセント",
    "％": "パーセント",
    "&": "アンド",
}
SIGNS |= {
    "@": "アットマーク",
    "#": "シャープ",
    "℃": "度",
    "°": "度",
    "￥": "円",
    "¥": "円",
    "$": "ドル",
    "€": "ユーロ",
    "£": "ポンド",
}
SIGNS |= {"−": "マイナス", "±": "プラスマイナス", "‰": "パーミル", "℉": "度", "²": "の二乗", "³": "の三乗"}
SIGNS |= {"½": "二分の一", "¼": "四分の一", "¾": "四分の三"}
NUMBER = r"\d{1,3}(?:[,，]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
LONGEST = 16
"""A whole number of more digits is read digit by digit."""
UNITS = "年月日時分秒円万億千百十人個本回歳才週間泊階度枚冊台話章巻名点キロメートルグラムセンチ"
AFTER_UNITS = "|".join(rf"(?<=\d[{UNITS}]{{{length}}})" for length in range(1, 6)) + r"|(?<=[:：]\d\d)"
DEGREE = "℃°度"
MEASURE = "|".join(sorted(map(re.escape, MEASURES), key=len, reverse=True))

PATTERN = re.compile(
    rf"""
    (?P<to>(?:{AFTER_UNITS})[-–—~～〜](?=\d)
      (?!{NUMBER}\s?[{DEGREE}])|(?<=\d[{DEGREE}%％‰])[-–—~～〜](?=\d))
  | (?P<date>(?<!\d)(?P<year>\d{{4}})[-/.](?P<month>0?[1-9]|1[0-2])[-/.](?P<day>0?[1-9]|[12]\d|3[01])(?!\d))
  | (?P<version>(?<![\d.])\d+(?:\.\d+){{2,}})
  | (?P<time>(?<!\d)(?P<hour>[01]?\d|2[0-4])[:：](?P<minute>[0-5]\d)(?!\d))
  | (?P<phone>(?<![\d.])0\d{{1,4}}-\d{{1,4}}-\d{{3,4}}(?!\d))
  | (?P<money>(?P<coin>[￥¥$€£])\s?(?P<sum>{NUMBER})(?P<scale>[万億千百]*))
  | (?P<fraction>(?<![\d/])(?P<above>\d+)/(?P<below>\d+)(?![\d/]))
  | (?P<range>(?<![\d.-])(?P<low>{NUMBER})[-–—~～〜](?P<high>{NUMBER})
      (?:\s?(?P<measure2>{MEASURE})(?![A-Za-z0-9]))?(?![\d-]))
  | (?P<measured>(?P<minus>(?<![A-Za-z0-9)）])[-−])?(?P<number>{NUMBER})
      (?:\s?(?P<measure>{MEASURE})(?![A-Za-z0-9]))?)
    """,
    re.VERBOSE,
)


def expanded(match: re.Match[str]) -> str:
    """Write out what PATTERN found."""
    return SAID[match.lastgroup or ""](match)


def names(text: str) -> str:
    """Each digit by its name."""
    return "".join(DIGITS[int(digit)] for digit in text if digit.isdecimal())


def plain(text: str) -> str:
    """A number as written."""
    whole, _, fraction = re.sub("[,，]", "", text).partition(".")
    if len(whole) > 1 and whole[0] == "0":
        return names(text)
    return counted(whole) + (f"点{names(fraction)}" if fraction else "")


def counted(text: str) -> str:
    """A whole number as written, however long."""
    text = text.lstrip("0") or "0"
    return cardinal(int(text)) if len(text) <= LONGEST else names(text)


def cardinal(number: int) -> str:
    """2026 → 二千二十六. Below 10 to the power of 16."""
    if not number:
        return "零"
    words = ""
    for size, name in ((10**12, "兆"), (10**8, "億"), (10**4, "万"), (1, "")):
        count, number = divmod(number, size)
        if count:
            words += _full(count) + name
    return words


def _full(number: int) -> str:
    """Below ten thousand."""
    words = ""
    for size, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, number = divmod(number, size)
        if digit:
            words += ("" if digit == 1 and name else DIGITS[digit]) + name
    return words


def _date(found: re.Match[str]) -> str:
    parts = (("year", "年"), ("month", "月"), ("day", "日"))
    return "".join(cardinal(int(found[name])) + sign for name, sign in parts)


def _time(found: re.Match[str]) -> str:
    minute = int(found["minute"])
    return f"{cardinal(int(found['hour']))}時" + (f"{cardinal(minute)}分" if minute else "")


def _fraction(found: re.Match[str]) -> str:
    """3/4 → 四分の三; 120/80, as of blood pressure → 百二十の八十."""
    above, below = found["above"], found["below"]
    # By their lengths first: a number may have more digits than int() takes.
    if (len(above), above) > max((len(below), below), (1, "9")):
        return f"{plain(above)}の{plain(below)}"
    return f"{plain(below)}分の{plain(above)}"


def _measured(found: re.Match[str]) -> str:
    minus = "マイナス" if found["minus"] else ""
    return minus + plain(found["number"]) + MEASURES.get(found["measure"] or "", "")


SAID: dict[str, Callable[[re.Match[str]], str]] = {
    "to": lambda found: "から",
    "date": _date,
    "version": lambda found: "点".join(map(plain, found[0].split("."))),
    "time": _time,
    "phone": lambda found: "の".join(map(names, found[0].split("-"))),
    "money": lambda found: plain(found["sum"]) + found["scale"] + MONEY[found["coin"]],
    "fraction": _fraction,
    "range": lambda found: (
        f"{plain(found['low'])}から{plain(found['high'])}{MEASURES.get(found['measure2'] or '', '')}"
    ),
    "measured": _measured,
}
"""How each of PATTERN's alternatives is written out."""
