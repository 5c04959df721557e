"""The words of a prompt that say how many, which colour, where and on what: Chinese and English, colours in
five.

Tables alone; `prompt.py` reads prompts with them. What no table knows is left to the sentence encoder.
"""

from __future__ import annotations

COLOURS: dict[str, tuple[str, ...]] = {
    "red": ("red", "crimson", "scarlet", "红", "赤い", "赤", "rojo", "roja", "أحمر", "حمراء"),
    "orange": ("orange", "橙", "橘", "オレンジ", "オレンジ色の", "naranja", "anaranjado", "برتقالي"),
    "yellow": ("yellow", "黄", "黄色い", "amarillo", "amarilla", "أصفر", "صفراء"),
    "green": ("green", "绿", "緑の", "緑", "verde", "أخضر", "خضراء"),
    "blue": ("blue", "navy", "蓝", "青い", "青", "azul", "أزرق", "زرقاء"),
    "purple": ("purple", "violet", "紫", "紫の", "morado", "morada", "violeta", "بنفسجي"),
    "pink": ("pink", "粉", "粉红", "ピンク", "ピンクの", "rosa", "rosado", "وردي"),
    "brown": ("brown", "棕", "褐", "咖啡", "茶色の", "茶色い", "marrón", "بني"),
    "black": ("black", "黑", "黒い", "黒", "negro", "negra", "أسود", "سوداء"),
    "white": ("white", "白", "白い", "blanco", "blanca", "أبيض", "بيضاء"),
    "grey": ("grey", "gray", "silver", "灰", "银", "灰色の", "gris", "رمادي"),
    "gold": ("gold", "golden", "金", "金色の", "dorado", "dorada", "ذهبي"),
}
CHINESE_COLOURS = {
    word: name for name, words in COLOURS.items() for word in words if "\u4e00" <= word[0] <= "\u9fff"
}
COLOUR_OF = {word: name for name, words in COLOURS.items() for word in words}

COUNTS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "several": 3, "some": 3, "many": 6, "both": 2,
}  # fmt: skip
COUNT_PHRASES = {
    "a pair of ": 2, "a couple of ": 2, "a few ": 3, "a dozen ": 12, "half a dozen ": 6, "lots of ": 6,
    "a lot of ": 6, "a group of ": 5, "a herd of ": 5, "a flock of ": 5,
}  # fmt: skip
CHINESE_COUNTS = {
    "一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10,
    "俩": 2, "十一": 11, "十二": 12, "几": 3, "许多": 6,
    "很多": 6, "好多": 6, "一些": 3, "一群": 5, "一对": 2, "一双": 2,
}  # fmt: skip
CLASSIFIERS = (
    "只个条匹头辆架艘棵朵本把张件顶座栋幢颗粒块片杯瓶碗盘根支枝台部双对群串束幅副轮位名盏扇口面所间股滴"
)
MOST = 12
"""More of one thing than this are not placed: they would be too small to see."""

SMALL = ("small", "little", "tiny", "小小的", "小的")
LARGE = ("big", "large", "huge", "giant", "大大的", "巨大的", "大的")

# Said of any picture, and nothing that could be drawn.
_PICTURE = (
    r"picture|image|drawing|icon|cartoon|photo|photograph|illustration|painting|sketch|emoji|pictogram|logo"
    r"|clip ?art"
)
PREFACES = (
    r"(please |can you |could you )?(draw|paint|generate|create|make|show|sketch)( me| us)? ",
    r"((an?|the|one) )?((very |really )?(simple|cute|nice|beautiful|colou?rful|flat|small|little|cartoon) )*"
    rf"({_PICTURE})( of| showing| that shows| with| depicting)? ",
    r"there (is|are) ", r"i (want|would like|need) ", r"this is ", r"here (is|are) ",
)  # fmt: skip
CHINESE_PREFACES = (
    r"(请|帮我|给我|我要|我想要|麻烦)+", r"(画出|画个(?=[^的])|绘制|生成|画|来|做)(一下)?(?=.)",
    r"[一这](幅|张|副)(?!.*的(画|图|图片|图标|插画|照片)$)",
    r"(这里|那里)?有(?=[一二两三四五六七八九十几])", r"我(最)?(喜欢|爱)的", r"(卡通|简笔画|图标)(?=.)",
)  # fmt: skip
CHINESE_ENDINGS = r"(的?(图标|图片|图画|插画|照片|卡通画|简笔画|表情|图案|图)|的画)$"
ADJECTIVES = {
    "a", "an", "the", "one", "my", "your", "our", "his", "her", "their", "this", "that", "some", "simple",
    "cute", "nice", "beautiful", "pretty", "lovely", "favourite", "favorite",
    "very", "really", "just", "single", "plain", *SMALL, *LARGE,
}  # fmt: skip
NOT_DRAWN = {"lonely", "old", "new", "young", "funny", "happy", "wild"}
"""Adjectives that are read, change nothing in the picture, and are named in a warning."""
STYLE = (
    r"\b(?:photo(?:graph|realistic)?|realistic|(?:oil |watercolou?r )?painting|watercolou?r|sketch|anime|3d"
    r"|portrait)\b"
    r"|照片|摄影|写实|逼真|油画|水彩画?|素描|水墨画?|动漫"
)
"""Styles that somebody may ask for; every picture is a pictogram all the same."""
CHINESE_ADJECTIVES = (
    "可爱的",
    "简单的",
    "漂亮的",
    "美丽的",
    "好看的",
    "普通的",
    "单独的",
    "小小的",
    "大大的",
    "一种",
    "某个",
)
ENDINGS = (
    r",? (and )?nothing else$", r",? (alone|only|by itself)$", r",? please$",
    r" (on|with|against) (an? |the )?(plain |clean |empty |simple )*(background|backdrop)$",
)  # fmt: skip
CHINESE_REMARKS = (
    r"[，,](没有|无)(别的|其他)(东西|物品)?$",
    r"[，,]?谢谢$",
    r"(纯色|空白|简单)的?背景上?的?",
)

# (pattern with both things, relation of the first to the second); tried in this order.
RELATIONS = (
    (r"(?:to|on) the left(?: side)? of|left of", "left"),
    (r"(?:to|on) the right(?: side)? of|right of", "right"),
    (r"(?:sitting |standing |lying |placed )?(?:on top of|atop)", "on"),
    (r"(?:flying |hanging )?(?:above|over)", "above"),
    (r"(?:sitting |standing |lying )?(?:underneath|beneath|below|under)", "below"),
    (r"in front of", "before"),
    (r"behind", "behind"),
    (r"(?:sitting |standing |walking )?(?:next to|beside|near|close to|by)(?= an? | the | two )", "beside"),
    (r"(?:sitting |standing |lying |placed |resting )on(?= )|on(?= an? | the )", "on"),
    (r"(?:inside|into|in)(?= an? | the )", "in"),
    (r"and then|together with|as well as|along with|and|with|plus", "beside"),
)
# In these the second thing is said first: {b} is left of which {a} is.
CHINESE_RELATIONS = (
    (r"^在?(?P<b>.+?)的?左[边侧面](?:有|是|[站放坐躺停长摆飞]着)(?P<a>.+)$", "left"),
    (r"^在?(?P<b>.+?)的?右[边侧面](?:有|是|[站放坐躺停长摆飞]着)(?P<a>.+)$", "right"),
    (r"^在?(?P<b>.+?)的?(?:上面|上方|上边)(?:有|是|[站放坐躺停长摆飞]着)(?P<a>.+)$", "above"),
    (r"^在?(?P<b>.+?)的?(?:下面|下方|底下|下边)(?:有|是|[站放坐躺停长摆飞]着)(?P<a>.+)$", "below"),
    (r"^(?P<a>.+?)的?(?:旁边|身边|边上)(?:有|是|[站放坐躺停长摆飞]着)(?P<b>.+)$", "beside"),
    (r"^(?P<a>.+?)在(?P<b>.+?)的?左[边侧面]$", "left"),
    (r"^(?P<a>.+?)在(?P<b>.+?)的?右[边侧面]$", "right"),
    (r"^(?P<a>.+?)(?:飞|挂)?在(?P<b>.+?)的?(?:上面|上方|上边|上空)$", "above"),
    (r"^(?P<a>.+?)(?:坐|躺|站|睡)?在(?P<b>.+?)的?(?:下面|下方|底下|下边|下)$", "below"),
    (r"^(?P<a>.+?)(?:坐|躺|站|睡)?在(?P<b>.+?)的?(?:旁边|身边|边上)$", "beside"),
    (r"^(?P<a>.+?)(?:坐|躺|站|睡|藏)?在(?P<b>.+?)的?(?:后面|背后|后边)$", "behind"),
    (r"^(?P<a>.+?)(?:坐|躺|站|睡)?在(?P<b>.+?)的?(?:前面|前边)$", "before"),
    (r"^(?P<a>.+?)(?:坐|躺|站|睡|放)在(?P<b>.+?)的?(?:上|里|中)$", "on"),
    (r"^(?P<a>.+?)在(?P<b>.+?)的?(?:里面|里|中)$", "in"),
    (r"^(?P<a>.+?)在(?P<b>.+?)上$", "on"),
    (r"^在?(?P<b>.{1,8}?)上(?:有|是|[站放坐躺停长摆飞]着)(?P<a>.+)$", "on"),
    (r"^在?(?P<b>.{1,8}?)(?:里面|里|中)(?:有|是|[站放坐躺停长摆飞]着)(?P<a>.+)$", "in"),
)
AND = (
    r"\s*[,;，；、]\s*(?:and |和|还有)?|和|与|跟|以及|还有"
    r"|\s+と\s*|(?<=[ぁ-んァ-ヶ一-龥])と(?=[ぁ-んァ-ヶ一-龥])|\s+y\s+"
)

ENGLISH_EXISTENCE = (
    (r"^(?:on|upon) (?P<b>[\w ]{1,30}?),? there (?:is|are|stands?|sits?|lies?) (?P<a>.+)$", "on"),
    (r"^(?:in|inside) (?P<b>[\w ]{1,30}?),? there (?:is|are|stands?|sits?|lies?) (?P<a>.+)$", "in"),
    (r"^(?:above|over) (?P<b>[\w ]{1,30}?),? there (?:is|are|flies|fly|hangs?) (?P<a>.+)$", "above"),
    (r"^(?:under|below) (?P<b>[\w ]{1,30}?),? there (?:is|are|stands?|sits?|lies?) (?P<a>.+)$", "below"),
)
"""`On the table there are …`: the second thing is said first, as in Chinese."""

PLACES: dict[str, tuple[str, ...]] = {
    "sky": ("sky", "air", "clouds", "天空", "天上", "空中", "蓝天"),
    "sea": ("sea", "ocean", "water", "lake", "river", "海", "大海", "海上", "海里", "湖", "水", "河", "海边"),
    "grass": (
        "grass",
        "meadow",
        "field",
        "park",
        "garden",
        "lawn",
        "forest",
        "farm",
        "草地",
        "草原",
        "公园",
        "花园",
        "田野",
        "森林",
        "草坪",
    ),
    "snow": ("snow", "ice", "雪地", "雪", "冰上"),
    "sand": ("desert", "beach", "sand", "沙漠", "沙滩", "海滩"),
    "night": ("night", "dark", "moonlight", "夜晚", "夜空", "夜里", "晚上", "黑夜"),
    "space": ("space", "universe", "galaxy", "太空", "宇宙", "星空"),
    "room": ("room", "kitchen", "floor", "房间", "屋里", "家里", "地板", "厨房"),
}
PLACE_OF = {word: name for name, words in PLACES.items() for word in words}
PLACE_COLOURS = {
    "sky": "blue",
    "sea": "blue",
    "grass": "green",
    "snow": "white",
    "sand": "yellow",
    "night": "black",
}
"""A place that is said to have the colour that it has anyhow is still the place, and no thing."""

PLURALS = {
    "mice": "mouse", "geese": "goose", "men": "man", "women": "woman", "children": "child", "feet": "foot",
    "teeth": "tooth", "knives": "knife", "leaves": "leaf", "wolves": "wolf", "people": "person", "oxen": "ox",
    "potatoes": "potato", "tomatoes": "tomato", "loaves": "loaf", "scarves": "scarf", "dice": "die",
}  # fmt: skip
