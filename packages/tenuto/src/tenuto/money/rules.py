"""Money as pure arithmetic: prices, charges, CNY as text. Amounts are integer micro-CNY."""

import re

from tenuto.config import Price
from tenuto.errors import Fault, InvalidRequest, PriceInvalid

MICROS_PER_CNY = 1_000_000
TOKENS_PER_PRICE = 1_000_000
MAX_CNY = 1_000_000_000
MAX_MICROS = MAX_CNY * MICROS_PER_CNY
_CNY = re.compile(r"-?\d{1,10}(\.\d{1,6})?\Z", re.ASCII)


def charge_micros(price: Price, duration_ms: int | None) -> int:
    """What a succeeded job is charged, never above its hold.

    Per minute: ceil(duration_ms × price / 60,000) in integers: money is never a float.
    PriceInvalid: the job's row has a price that cannot be charged.
    """
    if min(price.price_micros, price.hold_micros) < 0:
        raise PriceInvalid("the job's price or its hold is below 0")
    if price.unit == "job":
        return min(price.price_micros, price.hold_micros)
    if price.unit != "audio_minute":
        raise PriceInvalid(f"the job's price has the unit {price.unit!r}; there are job and audio_minute")
    if duration_ms is None:
        raise PriceInvalid("the job's price is by the minute, and its result has no duration")
    return min(-(-duration_ms * price.price_micros // 60_000), price.hold_micros)


def token_charge_micros(price: Price, prompt_tokens: int, completion_tokens: int) -> int:
    """The cost of a call of a model: prices are per million tokens, and fractions of a micro round up."""
    micros = prompt_tokens * price.price_micros + completion_tokens * price.output_price_micros
    return -(-micros // TOKENS_PER_PRICE)


def cny(micros: int) -> str:
    """An amount with six decimal places, as in all JSON: 50000 → "0.050000"."""
    sign = "-" if micros < 0 else ""
    whole, rest = divmod(abs(micros), MICROS_PER_CNY)
    return f"{sign}{whole}.{rest:06d}"


def short_cny(micros: int) -> str:
    """The same for a sentence, with two decimal places or as many as needed: 50000 → "0.05"."""
    text = cny(micros)
    return text[:-4] + text[-4:].rstrip("0")


def parse_cny(text: str) -> int:
    """The micros of an amount such as `12`, `0.05` or `-3.5`; exact, at most six decimal places."""
    if _CNY.match(text) is None or abs(float(text)) > MAX_CNY:
        message = (
            f"{text!r} is not an amount in CNY; write for example 12 or 0.05, at most six decimal places,"
            f" at most {MAX_CNY}"
        )
        raise InvalidRequest([Fault("amount", "invalid_amount", message)])
    whole, _, places = text.lstrip("-").partition(".")
    micros = int(whole) * MICROS_PER_CNY + int(places.ljust(6, "0"))
    return -micros if text.startswith("-") else micros
