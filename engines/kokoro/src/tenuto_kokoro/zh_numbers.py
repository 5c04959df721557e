"""Numbers, dates, times, money and units in Chinese text as Chinese words. Knows no sounds."""

from __future__ import annotations

import re
from collections.abc import Callable

DIGITS = "零一二三四五六七八九"
MEASURE_WORDS = (
    "个位次年天小时分钟点本条张只件种人名块元岁米公里斤克吨升度倍层步座家间所台辆部篇首句页颗粒杯瓶碗盘双对套"
    "批群支枝根片段场届届排行遍趟回下秒周星期月万亿千百"
)
MONEY = {"￥": "元", "¥": "元", "$": "美元", "€": "欧元", "£": "英镑"}
MEASURES = {
    "km": "公里", "m": "米", "cm": "厘米", "mm": "毫米", "kg": "公斤", "g": "克", "mg": "毫克",
    "t": "吨", "L": "升",
    "ml": "毫升", "mL": "毫升", "km/h": "公里每小时", "m/s": "米每秒", "GB": "G B", "MB": "兆", "TB": "T B",
    "kW": "千瓦", "W": "瓦", "V": "伏", "Hz": "赫兹", "℃": "摄氏度", "°C": "摄氏度", "°": "度",
    "m²": "平方米",
    "km²": "平方公里", "㎡": "平方米", "m³": "立方米", "h": "小时", "min": "分钟", "s": "秒", "kWh": "千瓦时",
}  # fmt: skip
SIGNS = {
    "+": "加",
    "=": "等于",
    "×": "乘",
    "÷": "除以",
    "%": "百分号",
    "&": "和",
    "@": "艾特",
    "#": "井号",
    "±": "正负",
}
SIGNS |= {
    "℃": "摄氏度",
    "°": "度",
    "￥": "元",
    "¥": "元",
    "$": "美元",
    "€": "欧元",
    "‰": "千分号",
    "£": "英镑",
}
SIGNS |= {
    "−": "减",
    "℉": "华氏度",
    "²": "平方",
    "³": "立方",
    "½": "二分之一",
    "¼": "四分之一",
    "¾": "四分之三",
}
NUMBER = r"\d{1,3}(?:[,，]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
LONGEST = 16
"""A whole number of more digits is read digit by digit."""
UNITS = f"{MEASURE_WORDS}日号时角级楼折%％‰"
AFTER_UNITS = "|".join(rf"(?<=\d[{UNITS}]{{{length}}})" for length in range(1, 4)) + r"|(?<=[:：]\d\d)"
MEASURE = "|".join(sorted(map(re.escape, MEASURES), key=len, reverse=True))
YEAR = r"[12]\d{3}"
SHORT_YEAR = r"0\d|[1-9]\d(?=年(?:\d|[上下]半年|[春夏秋冬初底末]))|(?<![\d了满过近约第])[6-9][1-9]"
"""05年, 12年3月 and 98年 are years, and 10年 is ten of them."""
HOTLINE = rf"""(?:(?<=[打拨])|(?<=电话)|(?<=热线)|(?<=[话线][:：])|(?<=1[12][09][、，或和]))
        1(?:1[0479]|20)(?![\d.%{MEASURE_WORDS}]|,\d)
      |(?<![\d.])1(?:1[0479]|20)(?=报警|火警|消防|急救|救护|查号|电话|热线)
      |(?<![\d.])(?:12306|10086|10010)(?![\d.%]|,\d)"""
"""Well-known telephone numbers. A short one is usually a quantity, unless a word next to it shows a call."""
DEGREE = "℃°度"

PATTERN = re.compile(
    rf"""
    (?P<to>(?:{AFTER_UNITS})[-–—~～](?=\d)
      (?!{NUMBER}\s?[{DEGREE}])|(?<=\d[{DEGREE}])[-–—~～](?=\d))
  | (?P<date>(?<!\d)(?P<year>\d{{4}})[-/.](?P<month>0?[1-9]|1[0-2])[-/.](?P<day>0?[1-9]|[12]\d|3[01])(?!\d))
  | (?P<calendar>(?<!\d)(?:{YEAR}|{SHORT_YEAR})(?=年(?![前后来内间多级龄代]))|(?<!\d){YEAR}(?=年[前后级]))
  | (?P<version>(?<![\d.])\d+(?:\.\d+){{2,}})
  | (?P<decade>(?<!\d)[1-9]0(?=年代))
  | (?P<time>(?<!\d)(?P<hour>[01]?\d|2[0-4])[:：](?P<minute>[0-5]\d)(?:[:：](?P<second>[0-5]\d))?(?!\d))
  | (?P<score>(?<!\d)(?P<ours>\d+)[:：](?P<theirs>\d+)(?!\d))
  | (?P<mobile>(?<![\d.])1[3-9]\d[- ]?\d{{4}}[- ]?\d{{4}}(?!\d))
  | (?P<phone>(?<![\d.])0\d{{2,3}}-\d{{7,8}}(?!\d)|{HOTLINE})
  | (?P<money>(?P<coin>[￥¥$€£])\s?(?P<sum>{NUMBER})(?P<scale>[万亿千百]*))
  | (?P<fraction>(?<![\d/])(?P<above>\d+)/(?P<below>\d+)(?![\d/]))
  | (?P<range>(?<![\d.-])(?P<low>{NUMBER})(?P<unit>[%℃])?[-–—~～](?P<high>{NUMBER})
      (?:(?P<unit2>%)|\s?(?P<measure2>{MEASURE})(?![A-Za-z0-9]))?(?![\d-]))
  | (?P<measured>(?P<minus>(?<![A-Za-z0-9)）])[-−])?(?P<number>{NUMBER})
      (?:(?P<percent>\s?[%％‰])
      |\s?(?P<measure>{MEASURE})(?![A-Za-z0-9]))?)
    """,
    re.VERBOSE,
)


def expanded(match: re.Match[str]) -> str:
    """Say what PATTERN found, looking at the character after it."""
    return SAID[match.lastgroup or ""](match)


def names(text: str) -> str:
    """Each digit by its name: 2026 → 二零二六."""
    return "".join(DIGITS[int(digit)] for digit in text if digit.isdecimal())


def counted(text: str) -> str:
    """A whole number as written, however long."""
    text = text.lstrip("0") or "0"
    return cardinal(int(text)) if len(text) <= LONGEST else names(text)


def cardinal(number: int) -> str:
    """10250 → 一万零二百五十. Below 10 to the power of 16."""
    words, gap = "", False
    for size, name in ((10**12, "万亿"), (10**8, "亿"), (10**4, "万"), (1, "")):
        count, number = divmod(number, size)
        if count:
            zero = "零" if words and (gap or count < 1000) else ""
            words += zero + (_two(_full(count)) if name else _full(count)) + name
            gap = False
        else:
            gap = bool(words)
    if words.startswith("一十"):
        words = words[1:]
    return re.sub("^二千", "两千", words) or "零"


def plain(text: str) -> str:
    """A number as written."""
    whole, _, fraction = re.sub("[,，]", "", text).partition(".")
    if len(whole) > 1 and whole[0] == "0":
        return names(text)
    return counted(whole) + (f"点{names(fraction)}" if fraction else "")


def _full(number: int) -> str:
    """Below ten thousand, with the one of ten said: 110 → 一百一十."""
    words, gap = "", False
    for size, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, number = divmod(number, size)
        if digit:
            words += ("零" if gap and words else "") + DIGITS[digit] + name
        gap = not digit
    return words


def _two(words: str) -> str:
    """二 before 万, 亿 or 千 is 两."""
    words = re.sub("^二$", "两", words)
    return re.sub("^二千", "两千", words)


def _date(found: re.Match[str]) -> str:
    return f"{names(found['year'])}年{cardinal(int(found['month']))}月{cardinal(int(found['day']))}日"


def _time(found: re.Match[str]) -> str:
    hour, minute, second = int(found["hour"]), int(found["minute"]), found["second"]
    words = ("两" if hour == 2 else cardinal(hour)) + "点"
    if minute or second:
        words += ("零" if minute < 10 else "") + (cardinal(minute) if minute else "") + "分"
    if second:
        words += ("零" if int(second) < 10 else "") + (cardinal(int(second)) if int(second) else "") + "秒"
    return words


def _fraction(found: re.Match[str]) -> str:
    """3/4 → 四分之三; 120/80, as of blood pressure → 一百二十比八十."""
    above, below = found["above"], found["below"]
    # By their lengths first: a number may have more digits than int() takes.
    if (len(above), above) > max((len(below), below), (1, "9")):
        return f"{plain(above)}比{plain(below)}"
    return f"{plain(below)}分之{plain(above)}"


def _range(found: re.Match[str]) -> str:
    """A share at the end is said of both ends, a measure only of the last."""
    ends = (found["low"], found["high"])
    if found.string.startswith("年", found.end()) and all(re.fullmatch(YEAR, end) for end in ends):
        return "到".join(map(names, ends))
    units = (found["unit"] or found["unit2"], found["unit2"] or found["measure2"] or found["unit"])
    return "到".join(map(_united, ends, units))


def _united(number: str, unit: str | None) -> str:
    if unit == "%":
        return f"百分之{plain(number)}"
    return plain(number) + (MEASURES[unit] if unit else "")


def _measured(found: re.Match[str]) -> str:
    number, following = found["number"], found.string[found.end() : found.end() + 1]
    minus = "负" if found["minus"] else ""
    if found["percent"]:
        return f"{'千' if '‰' in found['percent'] else '百'}分之{minus}{plain(number)}"
    unit = MEASURES[found["measure"]] if found["measure"] else ""
    words = plain(number)
    if words == "二" and "." not in number and (unit or (following and following in MEASURE_WORDS)):
        is_place = found.string[: found.start()].endswith("第")
        words = "二" if is_place or (following in ("月", "年") and not unit) else "两"
    return minus + words + unit


def _phone(found: re.Match[str]) -> str:
    return names(found[0]).replace("一", "幺")


SAID: dict[str, Callable[[re.Match[str]], str]] = {
    "to": lambda found: "到",
    "date": _date,
    "version": lambda found: "点".join(map(plain, found[0].split("."))),
    "calendar": lambda found: names(found[0]),
    "decade": lambda found: cardinal(int(found[0])),
    "time": _time,
    "score": lambda found: f"{plain(found['ours'])}比{plain(found['theirs'])}",
    "mobile": _phone,
    "phone": _phone,
    "money": lambda found: plain(found["sum"]) + found["scale"] + MONEY[found["coin"]],
    "fraction": _fraction,
    "range": _range,
    "measured": _measured,
}
"""How each of PATTERN's alternatives is said."""
