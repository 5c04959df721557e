"""The kinds of job under their names: what checks a body of each. A new kind is one line here."""

from collections.abc import Callable, Mapping
from typing import Any

from tenuto.errors import Fault
from tenuto.kinds import image, recognition, speech
from tenuto.kinds.envelope import Envelope

Check = Callable[[Envelope], tuple[Any, list[Fault]]]
"""From a sound top level to the parameters in the kind's own struct (None if one is faulty), and all that is
wrong with them or with what stands beside them."""

CHECKS: Mapping[str, Check] = {
    "speech": speech.check_job,
    "recognition": recognition.check_job,
    "image": image.check_job,
}
