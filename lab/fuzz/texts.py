"""Hostile texts that a caller may legally send to be spoken: any Unicode, 1 to 8,192 bytes, no white space at
the ends. Knows no front end."""

import random

MAX_BYTES = 8192
LONG = 0.005
"""How many of the texts are long: one takes as much time as a hundred short ones."""
DIGITS = "0123456789"
HARAKAT = "\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652\u0670\u0653\u0654\u0655\u0640"
ARABIC = "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهويىٱپچڤگکیژٹے"
KANA = "あいうえおかがきぎくぐさしすせそただちっつづてでとなに"
KANA += "ぬねのはばぱひふへほまみむめもゃやゅゆょよらりるれろゎわゐゑをんゔゕゖ"
KATAKANA = "アイウエオカガキクケコサッシツテトナンーヴヵヶヷㇰㇷﾊﾞﾝｰｯ"
SOKUON = "っッーｰんンゃャぁァ々ゝゞヽヾ〆〇゛゜"
HAN = "我你他今天北京饺子行长重了的一二三千万亿年月日个〇零两㐀䶵鿿豈𠀀𪜀𰀀龘"
LATIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
ACCENTED = "éÉñÑüÜßøØæœŁłđıŋşčőẞﬁﬂǅſªº'’"
SIGNS = "+-−–—=×÷%％‰&@#±<>°℃℉$€£¥￥₽₿²³½¼¾№™©√∞≤…·*/\\|~^_{}[]()"
SIGNS += "（）「」『』【】《》«»“”\"'`,.;:!?，。、；：！？¿¡،؛؟٪٫٬"
SPACES = " \t\n\r\u00a0\u3000\u2028\u2029\u200b\u200c\u200d\ufeff\x0b\x0c\x1c\x85"
INVISIBLE = "\u200e\u200f\u202a\u202e\u2066\u2069\u00ad\u061c\ufe0f\u2060\U000e0061\x07\x00\x7f"
EMOJI = ("😀", "👨‍👩‍👧‍👦", "👍🏽", "🇯🇵", "1️⃣", "❤️", "☺", "🏴\U000e0067\U000e0062\U000e007f")
OTHERS = (
    "Приветмиръё", "สวัสดีครับ๑๒๓", "안녕하세요가힣각", "γειάσουΩ", "שלוםעולם", "नमस्ते१२३", "ქართული", "አማርኛ",
    "ᚠᚢᚦ", "𓀀𓂀"
)  # fmt: skip
STYLED = "𝐇𝐞𝓁𝕝𝟘𝟙𝟮𝔘ⒶⓑＡＢｃ０１２９①⑩Ⅷ㎏㌔㈱㍻ﻻﷺｶﾞ"
OTHER_DIGITS = "٠١٢٣٩۰۵९०๔𝟗９"
ANNOTATIONS = (
    "<行|HANG2>", "<长|zhang3>", "<女|nü3>", "<绿|LV4>", "<行|pin1>", "<行|xing9>", "<行|",
    "<|xing2>", "<x|xing2>",
    "<行|xing2", "<<行|hang2>>", "<銀|ê1>", "<行|hm5>", "<行|N4>", "<行|ng1>", "<𠀀|a1>", "<〇|ling2>"
)  # fmt: skip
TAGS = ("<break/>", "<speak>", "</p>", '<break time="1s"/>', "<!-- x -->", "&amp;")
UNITS = (
    "km", "kg", "m²", "GB", "kWh", "℃", "°C", "°F", "%", " %", "‰", "st", "nd", "th", "s", "h", "min",
    "mph", "am", "p.m.", "万", "亿", "年",
    "月", "日", "个", "円", "度", "本", "€", " $", "º", "ª", " million", " años", " casas", "كم", "سم", "٪"
)  # fmt: skip
SIGNED = ("", "", "", "-", "−", "+", "$", "US$", "€", "£", "￥", "¥", "(-", "--", "±", "#", ".", "-.", "0")
PARTING = ("", "", ",", ".", "，", " ", "٬", "٫", "/", ":", "：", "-", "–", "~", "~", "・", "e", "x")
WORDS = (
    "I visited", "the", "a", "record", "USB", "OpenAI's", "don't", "Mr.", "e.g.", "EE. UU.", "Sr.",
    "a. m.", "el", "veintiún", "y", "March",
    "July 4", "今天", "银行", "用", "東京", "食べる", "さようなら",
    "コーヒー", "مرحبا", "في", "اللغة", "الله", "ﷲ", "ء",
    "لِلَّهِ", "Python", "code"
)  # fmt: skip


def hostile(draw: random.Random) -> str:
    """A legal text: mostly short, one in two hundred about as long as may be, of pieces that go badly
    together."""
    is_long = draw.random() < LONG
    count = draw.choice((1, 5, 300)) if is_long else draw.choice((1, 2, 3, 6, 12))
    pieces = [draw.choice(MAKERS)(draw) for _ in range(count)]
    if is_long:
        place = draw.randrange(count)
        pieces[place] *= draw.choice((2, 50, 1000, MAX_BYTES))
    text = draw.choice(("", "", " ", "-", "\n")).join(pieces)
    return legal(text) or "x"


def legal(text: str) -> str:
    """What of a text may be sent: without half characters, within 8,192 bytes, no white space at its ends."""
    return text.encode("utf-8", "ignore")[:MAX_BYTES].decode("utf-8", "ignore").strip()


def _letters(draw: random.Random, letters: str, most: int = 6) -> str:
    return "".join(draw.choice(letters) for _ in range(draw.randint(1, most)))


def _number(draw: random.Random) -> str:
    digits = draw.choice((DIGITS, DIGITS, DIGITS, OTHER_DIGITS))
    sizes = (1, 2, 3, 4, 4, 8, 11, 16, 40, 40 if draw.random() > LONG else 5000)
    parts = [_letters(draw, digits, draw.choice(sizes)) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    made = draw.choice(SIGNED) + parts[0]
    for part in parts[1:]:
        made += draw.choice(PARTING) + part
    return made + draw.choice(("", "", *UNITS))


def _arabic(draw: random.Random) -> str:
    made = ""
    for _ in range(draw.randint(1, 6)):
        made += draw.choice(ARABIC) + "".join(
            draw.choice(HARAKAT) for _ in range(draw.choice((0, 0, 1, 1, 2, 4)))
        )
    return draw.choice(("", "", "ال", HARAKAT[draw.randrange(9)])) + made


def _any(draw: random.Random) -> str:
    """Code points from anywhere but the surrogates, assigned or not."""
    limit = draw.choice((0x300, 0x3000, 0x11000, 0x110000))
    return "".join(
        chr(point)
        for _ in range(draw.randint(1, 4))
        if not 0xD800 <= (point := draw.randrange(limit)) < 0xE000
    )


MAKERS = (
    _number,
    _number,
    _arabic,
    _any,
    lambda draw: _letters(draw, KANA),
    lambda draw: _letters(draw, KATAKANA),
    lambda draw: _letters(draw, SOKUON, 4),
    lambda draw: _letters(draw, HAN),
    lambda draw: _letters(draw, LATIN),
    lambda draw: _letters(draw, ACCENTED, 3),
    lambda draw: _letters(draw, SIGNS, 3),
    lambda draw: _letters(draw, SPACES, 2),
    lambda draw: _letters(draw, INVISIBLE, 2),
    lambda draw: _letters(draw, STYLED, 3),
    lambda draw: _letters(draw, draw.choice(OTHERS)),
    lambda draw: draw.choice(EMOJI),
    lambda draw: draw.choice(ANNOTATIONS),
    lambda draw: draw.choice(TAGS),
    lambda draw: draw.choice(WORDS),
    lambda draw: draw.choice(WORDS),
    lambda draw: draw.choice(LATIN + HAN + KANA) + _letters(draw, "\u0301\u0308\u20dd\u3099\u309a\u0327", 3),
)

SLOWEST = (
    "a" * MAX_BYTES,
    '"' * MAX_BYTES,
    "$" * MAX_BYTES,
    "7" * MAX_BYTES,
    "a." * 4096,
    "a北あب" * 910,
    "1" + " 111" * 2047,
    "777777777777777 " * 511 + "777777777777777",
)
"""Of texts of 8,192 bytes, those that take or took the front ends longest."""
