"""Why a store of bytes failed, in words for its operator. Knows obstore's messages, and sends no requests.

Of a response it repeats only the code, as the rest may name keys; of obstore's messages, only network errors.
"""

import re

_SIGNS = (
    (re.compile(r"<Code>(\w+)</Code>"), "says {}"),
    (re.compile(r"status code: (\d{3}[A-Za-z ]*)"), "says {}"),
    (re.compile(r"InvalidCertificate\(\s*(\w+)"), "shows a certificate that is not trusted ({})"),
    (re.compile(r"InvalidMessage\("), "does not speak TLS at this address"),
    (re.compile(r"failed to lookup address"), "does not answer: its host has no address"),
    (re.compile(r'\bmessage: "([A-Za-z ]+)"'), "does not answer: {}"),
)


def reason(error: BaseException) -> str:
    """What the store does, such as "says NoSuchBucket" or "fails: No space left on device"."""
    if isinstance(error, OSError) and error.strerror:
        return f"fails: {error.strerror}"
    message = str(error)
    for sign, words in _SIGNS:
        if match := sign.search(message):
            return words.format(*match.groups())
    return "does not answer"
